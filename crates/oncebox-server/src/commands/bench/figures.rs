//! What a round showed: rate, percentiles, counts, processor time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::process::Times;
use super::wire::Said;
use crate::terminal;

#[derive(Debug, Default)]
pub(super) struct Counts {
    accepted: u64,
    duplicate: u64,
    other: u64,
    failed: BTreeMap<u16, u64>,
    micros: Vec<u32>,
}

/// The figures of one round, or the medians of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    /// Answers with 2xx in a second.
    pub(super) rate: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
    pub(super) max_ms: f64,
    pub(super) accepted: u64,
    pub(super) duplicate: u64,
    /// Other 2xx: handshakes, held, conflict.
    pub(super) other: u64,
    /// Not 2xx.
    pub(super) failed: u64,
    /// How often each status was seen that is not 2xx.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Processor time of the server for each answer, in microseconds.
    pub(super) server_cpu_us: Option<f64>,
    /// Processor time of Postgres for each answer, in microseconds.
    pub(super) postgres_cpu_us: Option<f64>,
    pub(super) rss_mib: Option<f64>,
}

impl Counts {
    pub(super) fn add(&mut self, said: Said, elapsed: Duration) {
        *match said {
            Said::Accepted => &mut self.accepted,
            Said::Duplicate => &mut self.duplicate,
            Said::Other => &mut self.other,
            Said::Failed(status) => self.failed.entry(status).or_default(),
        } += 1;
        self.micros.push(u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX));
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.duplicate += other.duplicate;
        self.other += other.other;
        add_all(&mut self.failed, &other.failed);
        self.micros.extend(other.micros);
    }
}

impl Figures {
    pub(super) fn new(mut counts: Counts, elapsed: Duration, spent: Option<Times>, resident_kib: Option<u64>) -> Self {
        counts.micros.sort_unstable();
        let answered = (counts.accepted + counts.duplicate + counts.other) as f64;
        let share = |time: Duration| if answered > 0.0 { time.as_secs_f64() * 1e6 / answered } else { 0.0 };
        let millis = |part: f64| f64::from(percentile(&counts.micros, part)) / 1000.0;
        Self {
            rate: answered / elapsed.as_secs_f64(),
            p50_ms: millis(0.5),
            p99_ms: millis(0.99),
            p999_ms: millis(0.999),
            max_ms: millis(1.0),
            accepted: counts.accepted,
            duplicate: counts.duplicate,
            other: counts.other,
            failed: counts.failed.values().sum(),
            statuses: counts.failed,
            server_cpu_us: spent.map(|spent| share(spent.server)),
            postgres_cpu_us: spent.and_then(|spent| spent.postgres).map(share),
            rss_mib: resident_kib.map(|kib| kib as f64 / 1024.0),
        }
    }

    /// The statuses that are not 2xx, as `401 × 40`.
    pub(super) fn refusals(&self) -> String {
        let one = |(status, count): (&u16, &u64)| format!("{status} × {count}");
        self.statuses.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn as_text(&self) -> String {
        let Self { p50_ms, p99_ms, p999_ms, max_ms, .. } = self;
        let cpu = self.server_cpu_us.map(|cpu| {
            let postgres = self.postgres_cpu_us.map(|cpu| format!(", Postgres {cpu:.1} µs")).unwrap_or_default();
            ("CPU per event", format!("server {cpu:.1} µs{postgres}"))
        });
        let facts = [
            ("rate", format!("{:.0}/s", self.rate)),
            (
                "latency",
                format!("p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms, p99.9 {p999_ms:.2} ms, slowest {max_ms:.2} ms"),
            ),
            ("accepted", self.accepted.to_string()),
            ("duplicate", self.duplicate.to_string()),
            ("other", self.other.to_string()),
            ("failed", self.failed.to_string()),
        ];
        let memory = self.rss_mib.map(|rss| ("server memory", format!("{rss:.0} MiB")));
        terminal::facts(facts.into_iter().chain(cpu).chain(memory))
    }
}

/// Each figure's median over the rounds; none without a round. Failures are summed up, so that none hides.
pub(super) fn median_of(rounds: &[Figures]) -> Option<Figures> {
    let of = |figure: &dyn Fn(&Figures) -> Option<f64>| median(rounds.iter().filter_map(figure).collect());
    let count = |figure: &dyn Fn(&Figures) -> u64| of(&|one| Some(figure(one) as f64)).unwrap_or(0.0) as u64;
    Some(Figures {
        rate: of(&|one| Some(one.rate))?,
        p50_ms: of(&|one| Some(one.p50_ms))?,
        p99_ms: of(&|one| Some(one.p99_ms))?,
        p999_ms: of(&|one| Some(one.p999_ms))?,
        max_ms: of(&|one| Some(one.max_ms))?,
        accepted: count(&|one| one.accepted),
        duplicate: count(&|one| one.duplicate),
        other: count(&|one| one.other),
        failed: rounds.iter().map(|one| one.failed).sum(),
        statuses: rounds.iter().fold(BTreeMap::new(), |mut all, one| {
            add_all(&mut all, &one.statuses);
            all
        }),
        server_cpu_us: of(&|one| one.server_cpu_us),
        postgres_cpu_us: of(&|one| one.postgres_cpu_us),
        rss_mib: of(&|one| one.rss_mib),
    })
}

fn add_all(all: &mut BTreeMap<u16, u64>, more: &BTreeMap<u16, u64>) {
    for (status, count) in more {
        *all.entry(*status).or_default() += count;
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        _ if values.is_empty() => None,
        1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// The value that so large a part of a sorted list does not exceed.
fn percentile(sorted: &[u32], part: f64) -> u32 {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_medians() {
        let hundred: Vec<u32> = (1..=100).collect();
        for (part, expected) in [(0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100), (0.0, 1)] {
            assert_eq!(percentile(&hundred, part), expected, "{part}");
        }
        assert_eq!((percentile(&[], 0.5), percentile(&[7], 0.999)), (0, 7));
        for (values, expected) in
            [(vec![], None), (vec![3.0], Some(3.0)), (vec![9.0, 1.0, 2.0], Some(2.0)), (vec![4.0, 1.0], Some(2.5))]
        {
            assert_eq!(median(values), expected);
        }
    }

    #[test]
    fn a_round_is_summed_up() {
        let mut counts = Counts::default();
        for (said, micros) in [(Said::Accepted, 1000), (Said::Duplicate, 2000), (Said::Failed(401), 9000)] {
            counts.add(said, Duration::from_micros(micros));
        }
        let spent = Times { server: Duration::from_micros(40), postgres: Some(Duration::from_micros(20)) };
        let figures = Figures::new(counts, Duration::from_secs(2), Some(spent), Some(2048));
        assert_eq!((figures.rate, figures.p50_ms, figures.p999_ms), (1.0, 2.0, 9.0));
        assert_eq!((figures.accepted, figures.duplicate, figures.failed), (1, 1, 1));
        assert_eq!((figures.server_cpu_us, figures.postgres_cpu_us), (Some(20.0), Some(10.0)));
        assert_eq!(figures.rss_mib, Some(2.0));
        let twice = median_of(&[figures.clone(), figures.clone()]).expect("two rounds");
        assert_eq!((twice.rate, twice.failed), (1.0, 2));
    }

    #[test]
    fn refusals_are_told_by_their_status() {
        let round = |said: &[Said]| {
            let mut counts = Counts::default();
            said.iter().for_each(|said| counts.add(*said, Duration::from_millis(1)));
            Figures::new(counts, Duration::from_secs(1), None, None)
        };
        let (failed, busy) = (Said::Failed(401), Said::Failed(503));
        let both = median_of(&[round(&[failed, failed, Said::Accepted]), round(&[busy, failed])]).expect("rounds");
        assert_eq!((both.failed, both.refusals().as_str()), (4, "401 × 3, 503 × 1"));
    }
}
