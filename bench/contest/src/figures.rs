//! What is known about one measurement.

use std::time::Duration;

use serde::Serialize;

use crate::load::Seen;

/// The figures of one load.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// Accepted events a second.
    pub(crate) rate: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Processor time an event, in microseconds.
    pub(crate) server_cpu_us: f64,
    pub(crate) postgres_cpu_us: f64,
}

impl Figures {
    pub(crate) fn new(seen: &mut Seen, server: Duration, postgres: Duration) -> Self {
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
    pub(crate) fn cpu_us(&self) -> f64 {
        self.server_cpu_us + self.postgres_cpu_us
    }
}

/// In milliseconds; the values are sorted.
fn percentile(sorted: &[u32], share: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length is an index")]
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |micros| f64::from(*micros) / 1e3)
}

/// None without values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    Some(if values.len() % 2 == 1 { upper } else { f64::midpoint(values[half - 1], upper) })
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
