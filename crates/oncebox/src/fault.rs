//! Named fault points: nothing in production; in tests they stop the process, fail, or leave the result unknown.
//!
//! The names are an interface: tests and operators of test rigs refer to them. A plan says what happens at the n-th
//! passage of a point, as `point=action` or `point=action@n`, several separated by commas; `*` is any point. Where a point
//! is passed for an event, `point:event_id=action` means that event alone.

/// What an armed point made of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Injected {
    /// The call fails; nothing happened.
    #[error("injected failure")]
    Fail,
    /// The call's result is lost; it may or may not have happened.
    #[error("injected loss of the result")]
    Unknown,
}

/// The fault points of one store or server. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    #[cfg(feature = "faults")]
    plan: Option<std::sync::Arc<armed::Plan>>,
}

impl Faults {
    /// True in a build that has fault points, which is one for test rigs.
    pub const BUILT_IN: bool = cfg!(feature = "faults");

    /// No fault, ever.
    pub fn none() -> Self {
        Self::default()
    }

    /// Passes a point. Without the feature `faults` this is nothing.
    #[cfg_attr(not(feature = "faults"), expect(clippy::unused_async, reason = "an armed point may wait"))]
    pub async fn at(&self, point: &'static str) -> Result<(), Injected> {
        #[cfg(feature = "faults")]
        if let Some(plan) = &self.plan {
            return plan.pass(point);
        }
        let _ = point;
        Ok(())
    }

    /// Passes a point for one event.
    pub fn at_event(&self, point: &'static str, event_id: &str) -> Result<(), Injected> {
        #[cfg(feature = "faults")]
        if let Some(plan) = &self.plan {
            return plan.pass_event(point, event_id);
        }
        let _ = (point, event_id);
        Ok(())
    }

    /// Reads a plan such as `store.commit=unknown@3`.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[cfg(feature = "faults")]
        return armed::Plan::parse(text).map(|plan| Self { plan: Some(std::sync::Arc::new(plan)) });
        #[cfg(not(feature = "faults"))]
        return Err(format!("this build has no fault points, so {text:?} cannot be armed"));
    }

    /// The points passed so far, in order.
    #[cfg(feature = "faults")]
    pub fn passed(&self) -> Vec<&'static str> {
        self.plan.as_ref().map(|plan| plan.passed()).unwrap_or_default()
    }
}

#[cfg(feature = "faults")]
mod armed {
    use std::sync::{Mutex, PoisonError};

    use super::Injected;

    /// What happens where, and what was passed.
    #[derive(Debug)]
    pub(super) struct Plan {
        rules: Vec<Rule>,
        passed: Mutex<Vec<&'static str>>,
    }

    #[derive(Debug)]
    struct Rule {
        point: String,
        nth: Option<usize>,
        action: Action,
    }

    #[derive(Clone, Copy, Debug)]
    enum Action {
        Abort,
        Inject(Injected),
        Watch,
    }

    /// How many passages are remembered: more than any test makes, and not without end.
    const PASSED_MAX: usize = 1 << 20;

    impl Plan {
        pub(super) fn parse(text: &str) -> Result<Self, String> {
            let rules = text.split(',').map(parse_rule).collect::<Result<_, _>>()?;
            Ok(Self { rules, passed: Mutex::new(Vec::new()) })
        }

        pub(super) fn passed(&self) -> Vec<&'static str> {
            self.passed.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }

        pub(super) fn pass(&self, point: &'static str) -> Result<(), Injected> {
            let action = {
                let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
                if passed.len() < PASSED_MAX {
                    passed.push(point);
                }
                self.rules.iter().find(|rule| rule.fits(point, &passed)).map(|rule| rule.action)
            };
            act(action)
        }

        pub(super) fn pass_event(&self, point: &str, event_id: &str) -> Result<(), Injected> {
            let fits = |rule: &&Rule| rule.point.split_once(':') == Some((point, event_id));
            act(self.rules.iter().find(fits).map(|rule| rule.action))
        }
    }

    fn act(action: Option<Action>) -> Result<(), Injected> {
        match action {
            Some(Action::Abort) => std::process::abort(),
            Some(Action::Inject(injected)) => Err(injected),
            Some(Action::Watch) | None => Ok(()),
        }
    }

    impl Rule {
        fn fits(&self, point: &str, passed: &[&'static str]) -> bool {
            let count = || passed.iter().filter(|one| self.point == "*" || self.point == **one).count();
            (self.point == "*" || self.point == point) && self.nth.is_none_or(|nth| nth == count())
        }
    }

    fn parse_rule(text: &str) -> Result<Rule, String> {
        let (point, rest) = text.split_once('=').ok_or_else(|| format!("{text:?} is not point=action"))?;
        let (word, nth) = match rest.split_once('@') {
            Some((word, nth)) => (word, Some(nth.parse().map_err(|error| format!("{text:?}: {error}"))?)),
            None => (rest, None),
        };
        let action = match word {
            "abort" => Action::Abort,
            "fail" => Action::Inject(Injected::Fail),
            "unknown" => Action::Inject(Injected::Unknown),
            "watch" => Action::Watch,
            other => return Err(format!("{other:?} is not an action; use abort, fail, unknown or watch")),
        };
        Ok(Rule { point: point.trim().to_owned(), nth, action })
    }
}
