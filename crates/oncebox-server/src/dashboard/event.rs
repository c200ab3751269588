//! `/events/{key}`: did we see it, how many times, and what came of it; then all that is kept about it.

use askama::Template;
use axum::extract::Path;
use oncebox::gateway::store::{CONFLICT_DISCARDED, CONFLICT_RELEASED};
use oncebox_verify::{HeldReason, OnRepeat};

use super::deliveries::{self, DeliveryStory};
use super::events::EventRow;
use super::render::format::{self, bytes, counted};
use super::render::tree::{self, Row};
use super::render::{Link, PageError, Shown, Visit, When, curl, page};
use crate::admin::Admin;
use crate::observe::diagnosis;
use crate::query;
use crate::query::view::{DeliveryView, EventView, MessageView, PayloadView, millis};

/// More of a body than this is downloaded, not shown.
const BODY_CHARS_MAX: usize = 100_000;

#[derive(Template)]
#[template(path = "event.html")]
struct EventPage {
    visit: Visit,
    event: EventView,
    /// The config names its source, so that the source has a page.
    has_source: bool,
    kind: String,
    first: When,
    last: When,
    repeats: Repeats,
    /// What the first arrival was answered.
    answer: &'static str,
    held_because: Option<HeldBecause>,
    /// What a person decided about a conflict.
    decided: Option<&'static str>,
    arrivals: Vec<Arrival>,
    /// Arrivals that are counted and not kept one by one.
    unlisted: i64,
    deliveries: Vec<DeliveryStory>,
    messages: Vec<MessageView>,
    /// Other events that carry its id.
    namesakes: Vec<EventRow>,
    payload: Option<Payload>,
    payload_gone: Option<Gone>,
    offers: Vec<Offer>,
    /// Its identity left the ledger.
    is_forgotten: bool,
}

/// Where the bytes were to be kept until.
struct Gone {
    until: When,
    /// It is not over yet, so that somebody erased them.
    is_early: bool,
}

struct HeldBecause {
    why: &'static str,
    release_does: &'static str,
}

struct Repeats {
    more: i64,
    words: String,
    rule: String,
}

struct Arrival {
    at: When,
    remote: String,
    answer: &'static str,
}

/// The bytes, in the forms in which somebody may want them.
struct Payload {
    size: String,
    remote: String,
    headers: Vec<(String, String)>,
    text: Option<String>,
    cut: bool,
    tree: Option<Vec<Row>>,
    curl: String,
    /// What the command lacks, since it is never stored.
    to_fill_in: Vec<&'static str>,
    /// The command reads the bytes from the download.
    from_file: bool,
}

/// An action that makes sense for this event.
struct Offer {
    link: Link,
    name: &'static str,
    hint: &'static str,
    is_final: bool,
}

pub(super) async fn show(admin: Admin, visit: Visit, Path(name): Path<String>) -> Shown {
    let detail = query::event(&admin.store, &name, &admin.destinations()).await?.ok_or_else(PageError::not_found)?;
    let event = detail.event;
    let mut arrivals: Vec<Arrival> = detail
        .recent_arrivals
        .into_iter()
        .map(|one| Arrival { at: When::read(&one.at, visit.now), remote: one.remote, answer: later_answer(&event) })
        .collect();
    let source = admin.setup().sources.get(&event.source).cloned();
    let answer = first_answer(&event, &detail.deliveries, source.as_ref().map(|source| source.on_repeat()));
    let first_remote = detail.payload.as_ref().map(|payload| payload.remote.clone()).unwrap_or_default();
    let first = When::read(&event.received_at, visit.now);
    arrivals.push(Arrival { at: first.clone(), remote: first_remote, answer });
    let more = detail.repeats.count.max(0);
    page(&EventPage {
        kind: format::kind(&event.r#type),
        last: When::read(&event.last_arrival_at, visit.now),
        repeats: Repeats { more, words: counted(more, "more time"), rule: detail.repeats.rule },
        answer,
        has_source: source.is_some(),
        namesakes: detail.namesakes.into_iter().map(|event| EventRow::new(event, &visit)).collect(),
        held_because: held_because(&event).filter(|_| !was_conflict(&event)),
        decided: decided(&event),
        unlisted: event.arrivals - i64::try_from(arrivals.len()).unwrap_or(i64::MAX),
        offers: offers(&event, &detail.deliveries, detail.remembered),
        is_forgotten: !detail.remembered && event.state != "conflict" && !was_conflict(&event),
        deliveries: deliveries::stories(&event.key, detail.deliveries, detail.attempts, visit.now),
        payload: detail.payload.map(|payload| {
            let proof = source.as_deref().map(curl::Proof::of).unwrap_or_default();
            Payload::new(payload, &event.key, &admin.context().url_of(&event.source), &proof)
        }),
        payload_gone: detail.payload_kept_until.as_deref().map(|until| Gone::new(until, &visit)),
        first,
        arrivals,
        messages: detail.messages,
        event,
        visit,
    })
}

impl Gone {
    fn new(until: &str, visit: &Visit) -> Self {
        let is_early = millis(until).is_some_and(|until| until > visit.now);
        Self { until: When::read(until, visit.now), is_early }
    }
}

fn held_because(event: &EventView) -> Option<HeldBecause> {
    let reason = event.reason.as_deref()?;
    Some(HeldBecause { why: diagnosis::of_held(Some(reason)), release_does: diagnosis::of_release(Some(reason)) })
}

/// The reasons that may also be the flag of an event that runs.
const REPEATS: [HeldReason; 3] = [HeldReason::RepeatedBody, HeldReason::RepeatedDelivery, HeldReason::RepeatedTopic];

/// True for a conflict that a person settled.
fn was_conflict(event: &EventView) -> bool {
    decided(event).is_some()
}

fn decided(event: &EventView) -> Option<&'static str> {
    match event.reason.as_deref()? {
        CONFLICT_RELEASED => Some("A person released it, so that it ran as a second effect"),
        CONFLICT_DISCARDED => Some("A person discarded it, so that it never runs"),
        _ => None,
    }
}

/// What the sender heard. An event that was released or discarded since is accepted, and has kept the reason for which
/// it was held. Only bytes that came before may have been accepted right away: a delivery that was discarded before its
/// first attempt was held, and else it is as the source would have it.
fn first_answer(event: &EventView, deliveries: &[DeliveryView], on_repeat: Option<OnRepeat>) -> &'static str {
    let was_decided = || deliveries.iter().any(|one| one.state == "discarded" && one.attempt == 0);
    match (event.state.as_str(), event.reason.as_deref()) {
        ("held", _) => "held",
        ("conflict", _) => "conflict",
        _ if was_conflict(event) => "conflict",
        (_, None) => "accepted",
        (_, Some(reason)) if !REPEATS.iter().any(|repeat| repeat.as_str() == reason) => "held",
        _ if on_repeat == Some(OnRepeat::Hold) || was_decided() => "held",
        _ => "accepted",
    }
}

/// What the sender heard when it came again. Of a conflict that was settled nobody knows which copies came before that.
fn later_answer(event: &EventView) -> &'static str {
    match event.state.as_str() {
        "conflict" => "conflict",
        _ if was_conflict(event) => "counted",
        _ => "duplicate",
    }
}

fn offers(event: &EventView, deliveries: &[DeliveryView], remembered: bool) -> Vec<Offer> {
    let has = |state: &str| deliveries.iter().any(|one| one.state == state);
    let held = event.state == "held" || has("held");
    let offer = |kind: &str, name, hint, is_final| Offer {
        link: Link::below("/act", kind).with("key", &event.key),
        name,
        hint,
        is_final,
    };
    let mut offers = Vec::new();
    if has("dead") {
        offers.push(offer("replay", "Replay", "run the handlers that gave up once more", false));
    }
    if held {
        offers.push(offer("release", "Release", "run its handlers", false));
    }
    if event.state == "conflict" {
        let settle = |mut offer: Offer| {
            offer.link = offer.link.with("state", "conflict");
            offer
        };
        offers.push(settle(offer("release", "Release", "run the handlers for this body, too", false)));
        offers.push(settle(offer("discard", "Discard", "be told of it no more; it never runs", true)));
    }
    if held || has("dead") {
        offers.push(offer("discard", "Discard", "never run it", true));
    }
    if event.state != "conflict" && remembered {
        offers.push(offer("forget", "Forget", "a redelivery by the sender counts as new", true));
    }
    offers
}

impl Payload {
    fn new(payload: PayloadView, key: &str, url: &str, proof: &curl::Proof) -> Self {
        let body = payload.body.as_deref();
        let cut = body.and_then(|body| body.char_indices().nth(BODY_CHARS_MAX)).map(|(end, _)| end);
        let text = body.map(|body| body[..cut.unwrap_or(body.len())].to_owned());
        Self {
            size: bytes(payload.body_bytes),
            curl: curl::command(url, proof, &payload.headers, body, &format!("{key}.bin")),
            to_fill_in: proof.variables(),
            from_file: !body.is_some_and(curl::is_inline),
            tree: body.and_then(|body| tree::rows(body.as_bytes())),
            cut: cut.is_some(),
            text,
            remote: payload.remote,
            headers: payload.headers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(state: &str, reason: Option<&str>) -> EventView {
        let view = serde_json::json!({
            "source": "s", "event_id": "e", "key": "k", "type": "t", "body_sha256": "", "state": state, "arrivals": 1,
            "received_at": "", "last_arrival_at": "", "identity": "id", "reason": reason, "original": null,
        });
        serde_json::from_value(view).expect("an event")
    }

    #[test]
    fn the_sender_heard_what_was_true_then() {
        let repeated = Some("repeated_body");
        for (state, reason, on_repeat, expected) in [
            ("accepted", None, Some(OnRepeat::Hold), "accepted"),
            ("accepted", Some("no_id"), Some(OnRepeat::Run), "held"),
            ("accepted", repeated, Some(OnRepeat::Run), "accepted"),
            ("accepted", repeated, Some(OnRepeat::Hold), "held"),
            ("accepted", repeated, None, "accepted"),
            ("held", repeated, Some(OnRepeat::Run), "held"),
            ("conflict", None, Some(OnRepeat::Run), "conflict"),
            ("accepted", Some(CONFLICT_RELEASED), Some(OnRepeat::Run), "conflict"),
            ("accepted", Some(CONFLICT_DISCARDED), Some(OnRepeat::Hold), "conflict"),
        ] {
            assert_eq!(
                first_answer(&event(state, reason), &[], on_repeat),
                expected,
                "{state} {reason:?} {on_repeat:?}"
            );
        }
        let discarded = |attempt: i64| {
            let view = serde_json::json!({
                "handler": "h", "state": "discarded", "attempt": attempt, "next_attempt_at": null, "finished_at": null,
                "last_error": null,
            });
            [serde_json::from_value::<DeliveryView>(view).expect("a delivery")]
        };
        let accepted = event("accepted", repeated);
        assert_eq!(first_answer(&accepted, &discarded(0), None), "held");
        assert_eq!(first_answer(&accepted, &discarded(2), Some(OnRepeat::Run)), "accepted");
        assert_eq!(later_answer(&event("conflict", None)), "conflict");
        assert_eq!(later_answer(&event("held", None)), "duplicate");
    }
}
