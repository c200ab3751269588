//! Which partitions of payloads there are to be: by the day, made two days ahead, and never too many of them.

use std::time::Duration;

use super::windows::{Windows, end_of, millis};
use crate::clock::UnixMillis;
use crate::event::EventKey;
use crate::store::Partition;
use oncebox_verify::calendar;

const DAY_MS: i64 = 86_400_000;
/// How far ahead partitions are made, so that a node that is away for a night misses nothing.
const AHEAD_MS: i64 = 2 * DAY_MS;
/// Partitions that live at once: every question about a payload locks all of them.
const LIVING_MAX: i64 = 15;

/// The partitions that are missing from now on. Where one exists already, the next one begins at its end.
pub(super) fn missing(existing: &[Partition], windows: &Windows, now: UnixMillis) -> Vec<Partition> {
    let width = width_ms(windows.longest(|one| one.payload));
    let today = now - now.rem_euclid(DAY_MS);
    let end = existing.iter().map(|one| one.to.moment()).max().unwrap_or(today);
    let mut from = end.max(today);
    let mut wanted = Vec::new();
    while from <= now + AHEAD_MS {
        wanted.push(Partition { name: name(from), from: EventKey::at(from), to: EventKey::at(from + width) });
        from += width;
    }
    wanted
}

/// Partitions of which every payload is over by the shortest window.
pub(super) fn old<'a>(
    existing: &'a [Partition],
    windows: &Windows,
    now: UnixMillis,
) -> impl Iterator<Item = &'a Partition> {
    let end = end_of(windows.shortest(|one| one.payload), now);
    existing.iter().filter(move |one| one.to <= end)
}

/// Whole days, more of them where payloads live long.
fn width_ms(longest: Duration) -> i64 {
    let days = (millis(longest) + DAY_MS - 1) / DAY_MS;
    ((days + LIVING_MAX - 1) / LIVING_MAX).max(1) * DAY_MS
}

/// `payloads_d20261116`: by the day on which it begins.
fn name(from: UnixMillis) -> String {
    format!("payloads_d{}", calendar::day(from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::windows::Window;

    /// 2024-11-15T19:46:40Z.
    const NOW: i64 = 1_731_700_000_000;

    fn windows(days: u64) -> Windows {
        let window = Duration::from_secs(days * 86_400);
        Windows::new(Window { ledger: window, payload: window }, [])
    }

    fn names(found: &[Partition]) -> Vec<&str> {
        found.iter().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn ahead() {
        let first = missing(&[], &windows(14), NOW);
        assert_eq!(names(&first), ["payloads_d20241115", "payloads_d20241116", "payloads_d20241117"]);
        assert_eq!(first[0].to, first[1].from);
        assert!(missing(&first, &windows(14), NOW).is_empty());
        assert_eq!(names(&missing(&first, &windows(14), NOW + DAY_MS)), ["payloads_d20241118"]);
        // After a long sleep there is a hole, which the rest takes.
        assert_eq!(names(&missing(&first, &windows(14), NOW + 30 * DAY_MS))[0], "payloads_d20241215");
        // Long windows have wide partitions.
        assert_eq!(names(&missing(&[], &windows(90), NOW)), ["payloads_d20241115"]);
        assert_eq!(names(&missing(&first, &windows(90), NOW + 3 * DAY_MS)), ["payloads_d20241118"]);
    }

    #[test]
    fn behind() {
        let some = missing(&[], &windows(14), NOW);
        let old = |after_days: i64| old(&some, &windows(14), NOW + after_days * DAY_MS).count();
        assert_eq!((old(14), old(15), old(16), old(17)), (0, 1, 2, 3));
    }

    #[test]
    fn days_have_their_names() {
        for (at, expected) in [
            (0, "payloads_d19700101"),
            (951_782_400_000, "payloads_d20000229"),
            (1_709_164_800_000, "payloads_d20240229"),
            (1_709_251_200_000, "payloads_d20240301"),
            (1_735_603_200_000, "payloads_d20241231"),
            (4_102_444_800_000, "payloads_d21000101"),
        ] {
            assert_eq!(name(at), expected);
        }
    }
}
