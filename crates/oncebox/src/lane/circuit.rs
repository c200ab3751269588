//! Spares a target that is out of reach, and the attempts that calling it would use up.
//!
//! Only failures that say "nobody is there" count: a target that answers, however badly, is reachable, and its bad
//! answers belong to the event. A pure state machine; the time is handed in.

use std::time::Duration;

/// Failures in a row that open the circuit: as many as a handler has calls at once by default.
const FAILURES_MAX: u32 = 16;
/// The first pause of an open circuit; it doubles with every probe that fails.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest pause: after a target's return nobody waits longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Whether a target is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circuit {
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Duration, pause: Duration },
    Probing { pause: Duration },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

/// What the circuit says to a call that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Go on.
    Go,
    /// Go on alone: this call decides for all.
    Probe,
    /// Not before this much time has passed.
    Wait(Duration),
}

/// What a call told about its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It answered.
    Yes,
    /// Nobody was there.
    No,
    /// The call was not made, or given up for our own reasons.
    Unknown,
}

impl Circuit {
    /// Asks before a call. Whoever got [`Pass::Probe`] must [`Circuit::tell`] how it went.
    pub fn ask(&mut self, now: Duration) -> Pass {
        match self.state {
            State::Closed { .. } => Pass::Go,
            State::Open { until, pause } if now >= until => {
                self.state = State::Probing { pause };
                Pass::Probe
            }
            State::Open { until, .. } => Pass::Wait(until - now),
            State::Probing { pause } => Pass::Wait(pause.min(PAUSE_FIRST)),
        }
    }

    /// How long nothing but a probe may pass; none while the circuit is closed.
    pub fn open_for(&self, now: Duration) -> Option<Duration> {
        match self.state {
            State::Closed { .. } => None,
            State::Open { until, .. } => Some(until.saturating_sub(now)),
            State::Probing { pause } => Some(pause.min(PAUSE_FIRST)),
        }
    }

    /// True while one call decides for all.
    pub fn is_probing(&self) -> bool {
        matches!(self.state, State::Probing { .. })
    }

    /// Takes in what a call told.
    pub fn tell(&mut self, reached: Reached, now: Duration) {
        self.state = match (&self.state, reached) {
            (_, Reached::Yes) => State::Closed { failures: 0 },
            (State::Closed { failures }, Reached::No) if failures + 1 < FAILURES_MAX => {
                State::Closed { failures: failures + 1 }
            }
            (State::Closed { .. }, Reached::No) => State::Open { until: now + PAUSE_FIRST, pause: PAUSE_FIRST },
            (State::Probing { pause }, Reached::No) => {
                let pause = pause.saturating_mul(2).min(PAUSE_MAX);
                State::Open { until: now + pause, pause }
            }
            // A probe that came to nothing: the next one may go at once.
            (State::Probing { pause }, Reached::Unknown) => State::Open { until: now, pause: *pause },
            // Calls from before the circuit opened.
            (state, _) => state.clone(),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn opened(now: Duration) -> Circuit {
        let mut circuit = Circuit::default();
        (0..FAILURES_MAX).for_each(|_| circuit.tell(Reached::No, now));
        circuit
    }

    #[test]
    fn a_row_of_failures_opens_it() {
        let mut circuit = Circuit::default();
        for _ in 1..FAILURES_MAX {
            circuit.tell(Reached::No, s(5));
        }
        assert_eq!(circuit.ask(s(5)), Pass::Go);
        circuit.tell(Reached::Yes, s(5));
        circuit.tell(Reached::No, s(5));
        assert_eq!(circuit.ask(s(5)), Pass::Go);
        assert_eq!(opened(s(5)).ask(s(5)), Pass::Wait(s(1)));
    }

    #[test]
    fn one_probe_decides() {
        let mut circuit = opened(s(0));
        assert_eq!(circuit.ask(s(1)), Pass::Probe);
        assert_eq!(circuit.ask(s(1)), Pass::Wait(s(1)));
        circuit.tell(Reached::No, s(2));
        assert_eq!(circuit.ask(s(3)), Pass::Wait(s(1)));
        assert_eq!(circuit.ask(s(4)), Pass::Probe);
        circuit.tell(Reached::Yes, s(4));
        assert_eq!((circuit.ask(s(4)), circuit.open_for(s(4))), (Pass::Go, None));
    }

    #[test]
    fn a_probe_that_was_not_made_is_made_by_the_next() {
        let mut circuit = opened(s(0));
        assert_eq!(circuit.ask(s(1)), Pass::Probe);
        circuit.tell(Reached::Unknown, s(1));
        assert_eq!(circuit.ask(s(1)), Pass::Probe);
    }

    proptest! {
        /// Whatever happens, somebody may pass within the longest pause.
        #[test]
        fn it_never_stays_open(told in proptest::collection::vec((0..3u8, 0..30_u64), 0..80)) {
            let (mut circuit, mut now) = (Circuit::default(), s(0));
            for (what, later) in told {
                now += s(later);
                let reached = [Reached::Yes, Reached::No, Reached::Unknown][usize::from(what)];
                if !matches!(circuit.ask(now), Pass::Wait(_)) {
                    circuit.tell(reached, now);
                }
            }
            prop_assert!(!matches!(circuit.ask(now + PAUSE_MAX), Pass::Wait(_)));
        }
    }
}
