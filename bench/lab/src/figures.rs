//! What is known about one measurement.

use std::time::Duration;

use comfy_table::{Table, presets};
use serde::{Deserialize, Serialize};

use crate::load::Seen;

/// The figures of one load.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Figures {
    /// Events a second that were accepted, or known as duplicates.
    pub rate: f64,
    /// Half of the answers came within so many milliseconds.
    pub p50_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// Processor time of the server for an event, in microseconds.
    pub server_cpu_us: f64,
    /// The same of the database.
    pub postgres_cpu_us: f64,
}

impl Figures {
    /// Sums up a load during which server and database used so much processor time.
    pub fn new(seen: &mut Seen, server: Duration, postgres: Duration) -> Self {
        seen.measured.sort_unstable();
        let count = seen.measured.len().max(1) as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count;
        Self {
            rate: seen.measured.len() as f64 / seen.elapsed.as_secs_f64(),
            p50_ms: percentile(&seen.measured, 0.50),
            p99_ms: percentile(&seen.measured, 0.99),
            server_cpu_us: each(server),
            postgres_cpu_us: each(postgres),
        }
    }

    /// Server and database together.
    pub fn cpu_us(&self) -> f64 {
        self.server_cpu_us + self.postgres_cpu_us
    }
}

/// In milliseconds; the values are sorted.
fn percentile(sorted: &[u32], share: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length is an index")]
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |micros| f64::from(*micros) / 1e3)
}

/// The middle value, or the mean of the two in the middle; none without values.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    Some(if values.len() % 2 == 1 { upper } else { f64::midpoint(values[half - 1], upper) })
}

/// An empty table of this head.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, f64::INFINITY, 2.0]), Some(2.0));
        assert_eq!(median(vec![1.0, 2.0]), Some(1.5));
    }

    #[test]
    fn percentiles() {
        let values: Vec<u32> = (1..=100).map(|value| value * 1000).collect();
        assert_eq!((percentile(&values, 0.5), percentile(&values, 0.99)), (51.0, 100.0));
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
