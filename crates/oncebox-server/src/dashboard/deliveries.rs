//! A delivery and its attempts as one story, for the page of an event.

use oncebox::gateway::clock::UnixMillis;

use super::render::format::{span, visible};
use super::render::{Link, When};
use crate::query::view::{AttemptView, DeliveryView, millis};

/// One handler's part in an event.
#[derive(Clone, Debug)]
pub(super) struct DeliveryStory {
    pub(super) handler: String,
    pub(super) state: String,
    /// What came of it, in a sentence.
    pub(super) outcome: String,
    /// What happened, oldest first.
    pub(super) moments: Vec<Moment>,
    /// Where it may be run once more by itself: it gave up.
    pub(super) replay: Option<Link>,
    /// Where it may be tried now: it waits for its next attempt.
    pub(super) try_now: Option<Link>,
}

#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// `done`, `failed`, `ready` and so on: the class of its dot.
    pub(super) outcome: String,
    pub(super) title: String,
    pub(super) at: Option<When>,
    pub(super) took: Option<String>,
    /// The target's answer.
    pub(super) status: Option<i64>,
    pub(super) error: Option<String>,
}

pub(super) fn stories(
    key: &str,
    deliveries: Vec<DeliveryView>,
    attempts: Vec<AttemptView>,
    now: UnixMillis,
) -> Vec<DeliveryStory> {
    let story = |delivery: DeliveryView| {
        let own: Vec<&AttemptView> = attempts.iter().filter(|attempt| attempt.handler == delivery.handler).collect();
        let stands = matches!(delivery.state.as_str(), "dead" | "discarded");
        let is_last = |place: usize| stands && place + 1 == own.len();
        let mut moments: Vec<Moment> =
            own.iter().enumerate().map(|(place, attempt)| tried(attempt, is_last(place), now)).collect();
        moments.extend(standing(&delivery, own.last().copied(), now));
        let replay = Link::below("/act", "replay").with("key", key).with("handler", &delivery.handler);
        let next = delivery.next_attempt_at.as_deref().and_then(millis);
        let waits = delivery.state == "ready" && next.is_some_and(|next| next > now);
        DeliveryStory {
            outcome: outcome(&delivery),
            try_now: waits.then(|| replay.clone().with("waiting", "true")),
            replay: (delivery.state == "dead").then_some(replay),
            handler: delivery.handler,
            state: delivery.state,
            moments,
        }
    };
    deliveries.into_iter().map(story).collect()
}

fn tried(attempt: &AttemptView, is_last: bool, now: UnixMillis) -> Moment {
    Moment {
        title: format!("Attempt {} {}", attempt.attempt, ended(&attempt.outcome, is_last)),
        at: Some(When::read(&attempt.ended_at, now)),
        took: attempt.took_ms.map(span),
        status: attempt.status,
        error: attempt.error.as_deref().map(visible),
        outcome: attempt.outcome.clone(),
    }
}

fn ended(outcome: &str, is_last: bool) -> &str {
    match outcome {
        "dead" if is_last => "failed and was the last",
        "dead" => "failed and was the last until a replay",
        "lost" => "was lost with its worker",
        "superseded" => "was superseded by a newer version",
        "held" => "was stopped for a person to look",
        other => other,
    }
}

/// What the delivery's own state adds to its attempts.
fn standing(delivery: &DeliveryView, last: Option<&AttemptView>, now: UnixMillis) -> Option<Moment> {
    let moment = |title: String, at: Option<&str>| Moment {
        outcome: delivery.state.clone(),
        title,
        at: When::maybe(at, now),
        took: None,
        status: None,
        error: None,
    };
    match delivery.state.as_str() {
        "done" => {
            let done = moment(format!("Attempt {} done", delivery.attempt), delivery.finished_at.as_deref());
            Some(Moment { took: delivery.took_ms.map(span), ..done })
        }
        "claimed" => Some(moment(format!("Attempt {} is running", delivery.attempt), None)),
        "ready" => {
            Some(moment(format!("Attempt {} is next", delivery.attempt + 1), delivery.next_attempt_at.as_deref()))
        }
        "discarded" => Some(moment("Discarded by a person".to_owned(), discarded_at(delivery, last))),
        _ => None,
    }
}

/// When it was discarded, where that is known: an erasure leaves the time at which the last attempt ended.
fn discarded_at<'a>(delivery: &'a DeliveryView, last: Option<&AttemptView>) -> Option<&'a str> {
    let finished = delivery.finished_at.as_deref()?;
    let ended = last.and_then(|attempt| millis(&attempt.ended_at));
    let is_later = ended.zip(millis(finished)).is_none_or(|(ended, finished)| finished - ended >= 1_000);
    is_later.then_some(finished)
}

fn times(count: i64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn outcome(delivery: &DeliveryView) -> String {
    let attempt = delivery.attempt;
    match delivery.state.as_str() {
        "done" if attempt == 1 => "ran once and is done".to_owned(),
        "done" => format!("is done, at attempt {attempt}"),
        "dead" => format!("gave up after attempt {attempt} and waits in the dead letters"),
        "ready" if attempt == 0 => "waits for its first attempt".to_owned(),
        "ready" => format!("failed {} so far and will be tried again", times(attempt)),
        "claimed" => format!("is running now, attempt {attempt}"),
        "held" => "is held until a person releases or discards it".to_owned(),
        "superseded" => "had nothing to do: a newer version was applied before".to_owned(),
        "discarded" if attempt > 0 => format!("was discarded by a person; it had been tried {}", times(attempt)),
        "discarded" => "was discarded by a person and ran nothing".to_owned(),
        other => format!("is {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(state: &str, attempt: i64) -> DeliveryView {
        DeliveryView {
            handler: "ledger".to_owned(),
            state: state.to_owned(),
            attempt,
            next_attempt_at: Some("2026-01-01T00:01:00.000Z".to_owned()),
            finished_at: Some("2026-01-01T00:00:05.000Z".to_owned()),
            last_error: None,
            took_ms: (state == "done").then_some(40),
        }
    }

    fn attempt(handler: &str, outcome: &str) -> AttemptView {
        AttemptView {
            handler: handler.to_owned(),
            attempt: 1,
            started_at: Some("2026-01-01T00:00:00.000Z".to_owned()),
            ended_at: "2026-01-01T00:00:00.250Z".to_owned(),
            outcome: outcome.to_owned(),
            status: Some(500),
            error: Some("boom".to_owned()),
            took_ms: Some(250),
        }
    }

    #[test]
    fn a_story_ends_with_where_the_delivery_stands() {
        for (state, tries, expected) in [
            ("done", 2, ["Attempt 1 failed", "Attempt 2 done"].as_slice()),
            ("ready", 1, &["Attempt 1 failed", "Attempt 2 is next"]),
            ("dead", 1, &["Attempt 1 failed"]),
            ("discarded", 1, &["Attempt 1 failed", "Discarded by a person"]),
        ] {
            let attempts = vec![attempt("ledger", "failed"), attempt("other", "failed")];
            let stories = stories("key", vec![delivery(state, tries)], attempts, 0);
            let titles: Vec<_> = stories[0].moments.iter().map(|one| one.title.as_str()).collect();
            assert_eq!(titles, expected, "{state}");
            assert_eq!(stories[0].moments[0].took.as_deref(), Some("250 ms"));
            let last = stories[0].moments.last().and_then(|one| one.took.as_deref());
            assert!(state != "done" || last == Some("40 ms"), "{last:?}");
            let offered = (stories[0].replay.is_some(), stories[0].try_now.is_some());
            assert_eq!(offered, (state == "dead", state == "ready"), "{state}");
        }
    }

    #[test]
    fn only_the_last_attempt_was_the_last() {
        let attempts = || vec![attempt("ledger", "dead"), AttemptView { attempt: 2, ..attempt("ledger", "dead") }];
        for (state, expected) in [
            ("dead", ["Attempt 1 failed and was the last until a replay", "Attempt 2 failed and was the last"]),
            (
                "ready",
                [
                    "Attempt 1 failed and was the last until a replay",
                    "Attempt 2 failed and was the last until a replay",
                ],
            ),
        ] {
            let stories = stories("key", vec![delivery(state, 2)], attempts(), 0);
            let titles: Vec<_> = stories[0].moments.iter().take(2).map(|one| one.title.as_str()).collect();
            assert_eq!(titles, expected, "{state}");
        }
    }

    #[test]
    fn the_end_of_an_attempt_is_no_discard() {
        let discarded =
            |finished: &str| DeliveryView { finished_at: Some(finished.to_owned()), ..delivery("discarded", 1) };
        for (finished, last, is_known) in [
            ("2026-01-01T00:00:00.252Z", Some(attempt("ledger", "dead")), false),
            ("2026-01-01T00:00:05.000Z", Some(attempt("ledger", "dead")), true),
            ("2026-01-01T00:00:00.252Z", None, true),
        ] {
            assert_eq!(discarded_at(&discarded(finished), last.as_ref()).is_some(), is_known, "{finished}");
        }
    }

    #[test]
    fn outcomes_are_sentences() {
        for (state, attempt, expected) in
            [("done", 1, "ran once and is done"), ("ready", 0, "waits for its first attempt"), ("odd", 1, "is odd")]
        {
            assert_eq!(outcome(&delivery(state, attempt)), expected);
        }
    }
}
