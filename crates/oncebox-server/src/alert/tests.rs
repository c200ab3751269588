//! What is told, for every condition at and beside its limit, and over the life of one.

use super::*;

const NOW: UnixMillis = 1_731_700_000_000;

fn counted(arrived: u64, duplicates: u64, rejected: u64, tried: u64, failed: u64) -> Readings {
    let lately = Counts { arrived, duplicates, rejected, tried, failed, ..Counts::default() };
    Readings { lately, is_whole: true, ..Readings::default() }
}

fn dead(count: i64) -> Readings {
    Readings { dead: vec![("ledger".to_owned(), count)], ..Readings::default() }
}

fn notices(readings: &Readings, told: &[Told], now: UnixMillis) -> Vec<Notice> {
    decide(&Limits::default(), Duration::from_secs(3600), readings, told, now)
}

/// The sentence of the only notice; none where there is none.
#[track_caller]
fn check(readings: &Readings, expected: Option<(Condition, &str)>) {
    let found: Vec<_> = notices(readings, &[], NOW).into_iter().map(|one| (one.condition, one.text)).collect();
    let expected: Vec<_> = expected.into_iter().map(|(condition, text)| (condition, text.to_owned())).collect();
    assert_eq!(found, expected, "{readings:?}");
}

#[test]
fn a_number_is_wrong_from_its_limit_on() {
    check(&Readings::default(), None);
    check(&dead(0), None);
    check(&dead(1), Some((Condition::Dead, "1 dead (ledger 1); `oncebox dead-letters` lists them")));
    let held = Readings { held: vec![("mail".to_owned(), 2)], ..Readings::default() };
    check(&held, Some((Condition::Held, "2 deliveries held (mail 2); `oncebox held` says why")));
    let waiting =
        |seconds| Readings { oldest: Some(("mail".to_owned(), Duration::from_secs(seconds))), ..Readings::default() };
    check(&waiting(299), None);
    check(&waiting(300), Some((Condition::OldestWaiting, "the oldest delivery of mail has been due for 5m")));
}

#[test]
fn rates_are_counted_within_the_window() {
    check(&counted(0, 0, 99, 0, 0), None);
    check(&counted(0, 0, 100, 0, 0), Some((Condition::Rejections, "100 requests could not be verified within 10m")));
    check(&counted(20, 9, 0, 0, 0), None);
    let again = "10 of 20 events within 10m had come before (50 %)";
    check(&counted(20, 10, 0, 0, 0), Some((Condition::Duplicates, again)));
    let failed = "5 of 20 first attempts within 10m failed (25 %)";
    check(&counted(0, 0, 0, 20, 5), Some((Condition::FirstTryErrors, failed)));
    let conflict = Readings { lately: Counts { arrived: 1, conflicts: 1, ..Counts::default() }, ..Readings::default() };
    let kept = "1 event within 10m came under a known id with another body; it is kept and does not run: \
                `oncebox events --state conflict`";
    check(&conflict, Some((Condition::Conflicts, kept)));
    // Too few to say anything.
    check(&counted(19, 19, 0, 19, 19), None);
}

#[test]
fn a_clock_may_be_off_either_way() {
    let off = |millis| Readings { clock: Some(("database".to_owned(), millis)), ..Readings::default() };
    check(&off(29_999), None);
    check(&off(-29_999), None);
    check(&off(30_000), Some((Condition::Clock, "our clock is 30.0 s ahead of that of the database")));
    check(&off(-90_500), Some((Condition::Clock, "our clock is 90.5 s behind that of the database")));
}

#[test]
fn only_what_is_asked_for_is_told() {
    let limits = Limits { on: vec![Condition::Held], ..Limits::default() };
    assert_eq!(decide(&limits, Duration::from_secs(1), &dead(5), &[], NOW), []);
}

#[test]
fn it_is_told_once_again_after_a_while_and_when_it_is_over() {
    let told = |told_at| {
        vec![Told {
            receiver: "ops".to_owned(),
            condition: "dead".to_owned(),
            since: NOW - 9_000_000,
            told_at,
            value: Some(1),
        }]
    };
    for (readings, told, expected) in [
        (dead(1), Vec::new(), Some((Phase::Began, NOW))),
        (dead(1), told(NOW - 3_599_999), None),
        (dead(1), told(NOW - 3_600_000), Some((Phase::Lasts, NOW - 9_000_000))),
        (dead(0), told(NOW - 1), Some((Phase::Over, NOW - 9_000_000))),
        (dead(0), Vec::new(), None),
        // A clock that went back is no reason to say it again.
        (dead(1), told(NOW + 60_000), None),
    ] {
        let found = notices(&readings, &told, NOW);
        let found = found.first().map(|notice| (notice.phase, notice.since));
        assert_eq!(found, expected, "{readings:?} {told:?}");
    }
}

#[test]
fn many_names_are_cut_short() {
    let dead = (1..=7).map(|n| (format!("h{n}"), 1)).collect();
    let text = "7 dead (h1 1, h2 1, h3 1, h4 1, h5 1, 2 more); `oncebox dead-letters` lists them";
    check(&Readings { dead, ..Readings::default() }, Some((Condition::Dead, text)));
}

/// What a condition comes to that was told before, with this number.
fn then(condition: Condition, value: i64, readings: &Readings) -> Option<Phase> {
    let (receiver, since, told_at) = ("ops".to_owned(), NOW - 60_000, NOW - 60_000);
    let told = Told { receiver, condition: condition.as_str().to_owned(), since, told_at, value: Some(value) };
    let limits = Limits { on: vec![condition], ..Limits::default() };
    decide(&limits, Duration::from_secs(3600), readings, &[told], NOW).first().map(|notice| notice.phase)
}

#[test]
fn no_data_never_says_that_it_is_over() {
    let shares = [Condition::FirstTryErrors, Condition::Duplicates];
    for condition in shares {
        assert_eq!(then(condition, 22, &counted(0, 0, 0, 0, 0)), None, "{condition:?}: nothing happened");
        assert_eq!(then(condition, 22, &counted(19, 0, 0, 19, 0)), None, "{condition:?}: too few");
        assert_eq!(then(condition, 22, &counted(20, 0, 0, 20, 0)), Some(Phase::Over), "{condition:?}");
    }
    // After a restart the looks do not go back as far as the window.
    for condition in shares.into_iter().chain([Condition::Conflicts, Condition::Rejections, Condition::Unavailable]) {
        let good = counted(1000, 0, 0, 1000, 0);
        let early = Readings { is_whole: false, ..good.clone() };
        assert_eq!((then(condition, 1, &early), then(condition, 1, &good)), (None, Some(Phase::Over)), "{condition:?}");
    }
}

#[test]
fn a_number_about_its_limit_is_told_once() {
    for (failed, expected) in [(40, None), (39, None), (32, None), (31, Some(Phase::Over)), (0, Some(Phase::Over))] {
        assert_eq!(then(Condition::FirstTryErrors, 22, &counted(0, 0, 0, 200, failed)), expected, "{failed} of 200");
    }
    assert_eq!(then(Condition::Dead, 1, &dead(0)), Some(Phase::Over), "one is the least, and none is over");
}

#[test]
fn what_has_doubled_is_told_again() {
    for (told, now, expected) in
        [(1, 1, None), (1, 2, Some(Phase::Lasts)), (20, 39, None), (20, 40, Some(Phase::Lasts)), (40, 3, None)]
    {
        assert_eq!(then(Condition::Dead, told, &dead(now)), expected, "{told} were told, there are {now}");
    }
    // A share has an end, and a time grows by itself.
    assert_eq!(then(Condition::FirstTryErrors, 25, &counted(0, 0, 0, 100, 100)), None);
    let waiting = Readings { oldest: Some(("mail".to_owned(), Duration::from_secs(9000))), ..Readings::default() };
    assert_eq!(then(Condition::OldestWaiting, 300, &waiting), None);
}

#[test]
fn what_stands_still_is_told() {
    let refused = |unavailable| Readings { lately: Counts { unavailable, ..Counts::default() }, ..Readings::default() };
    check(&refused(9), None);
    check(&refused(10), Some((Condition::Unavailable, "10 requests within 10m were answered 503")));
    let away = |unavailable, seconds| Readings { away: Some(Duration::from_secs(seconds)), ..refused(unavailable) };
    check(&away(1, 59), None);
    let long = "the database has not answered for 1m; 0 requests within 10m were answered 503";
    check(&away(0, 60), Some((Condition::Unavailable, long)));
    let busy = "the database has not answered for 3s; 10 requests within 10m were answered 503";
    check(&away(10, 3), Some((Condition::Unavailable, busy)));
    let over = Readings { is_whole: true, ..away(0, 3) };
    assert_eq!(then(Condition::Unavailable, 10, &over), None, "while it is away nothing is over");
    let paused = Readings { paused: vec![("mail".to_owned(), 1)], ..Readings::default() };
    check(&paused, Some((Condition::Paused, "1 handler paused (mail); their events wait for `oncebox resume`")));
    let stopped = Readings { retention: Some("the clock jumped".to_owned()), ..Readings::default() };
    let text = "nothing is removed any more: the clock jumped; if the time is right: `oncebox retention confirm`";
    check(&stopped, Some((Condition::Retention, text)));
}
