//! What a request becomes before any transaction: its events, or the answer that ends it.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rusqlite::Connection;

use super::*;
use crate::database::driver::rusqlite::{migrate, once as claimed};
use oncebox_verify::{Draft, OnRepeat, Secret, SourceSpec};

const NOW: UnixMillis = 1_731_700_000_000;

fn receiver(provider: &str, repeated_body: Option<OnRepeat>) -> Receiver {
    let mut spec = SourceSpec::named("hooks", provider).unwrap();
    spec.secrets = vec![Secret::new("a secret of some length")];
    spec.repeated_body = repeated_body;
    Receiver::new(Source::build(spec).unwrap(), Clock::manual(NOW))
}

fn signed(receiver: &Receiver, headers: &[(&str, &str)], body: &str) -> Request {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
    }
    let draft = Draft { target: "/in/hooks".to_owned(), headers: map, body: Bytes::from(body.to_owned()) };
    receiver.source().sign(draft, NOW).unwrap()
}

fn github(receiver: &Receiver, id: &str, body: &str) -> Request {
    signed(receiver, &[("x-github-delivery", id), ("x-github-event", "push")], body)
}

async fn event(receiver: &Receiver, request: &Request) -> Event {
    receiver.receive(request, None).await.unwrap().events.remove(0)
}

fn database() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate(&mut connection).unwrap();
    connection
}

#[tokio::test]
async fn answers_that_end_a_request() {
    let receiver = receiver("stripe", None);
    let good = signed(&receiver, &[], r#"{"id":"evt_1","type":"invoice.paid"}"#);
    let mut forged = good.clone();
    forged.body = Bytes::from_static(br#"{"id":"evt_2"}"#);
    let mut read = good.clone();
    read.method = Method::GET;
    let mut long = good.clone();
    long.body = vec![b' '; receiver.body_bytes_max() + 1].into();
    for (request, status) in [(forged, 401), (read, 405), (long, 413)] {
        let answer = receiver.receive(&request, None).await.unwrap_err();
        assert_eq!((answer.status().as_u16(), answer.outcome()), (status, Outcome::Refused));
    }
    let event = event(&receiver, &good).await;
    assert_eq!((event.id.as_str(), event.event_type.as_str(), &*event.source), ("evt_1", "invoice.paid", "hooks"));
}

#[tokio::test]
async fn an_event_without_an_id_is_not_among_those_that_run() {
    let receiver = receiver("stripe", None);
    let verified = receiver.receive(&signed(&receiver, &[], r#"{"type":"x"}"#), None).await.unwrap();
    assert!(verified.events.is_empty());
    assert_eq!(verified.held.len(), 1);
}

#[tokio::test]
async fn a_signed_id_has_the_mark_that_sql_makes() {
    let receiver = receiver("stripe", None);
    let mut connection = database();
    let mut tx = connection.transaction().unwrap();
    assert_eq!(claimed(&mut tx, "hooks", "evt_1").unwrap(), Once::Fresh);
    let event = event(&receiver, &signed(&receiver, &[], r#"{"id":"evt_1"}"#)).await;
    assert_eq!(event.once(&mut tx).await.unwrap(), Once::Duplicate);
}

#[tokio::test]
async fn known_bytes_under_an_unsigned_id_do_not_run_twice() {
    for (repeated_body, expected) in
        [(None, Once::Duplicate), (Some(OnRepeat::Duplicate), Once::Duplicate), (Some(OnRepeat::Run), Once::Fresh)]
    {
        let receiver = receiver("github", repeated_body);
        let mut connection = database();
        let mut tx = connection.transaction().unwrap();
        for (id, body, expected) in [
            ("1", r#"{"a":1}"#, Once::Fresh),
            ("1", r#"{"a":1}"#, Once::Duplicate),
            ("1", r#"{"a":2}"#, Once::Fresh),
            ("2", r#"{"a":1}"#, expected),
        ] {
            let event = event(&receiver, &github(&receiver, id, body)).await;
            assert_eq!(event.once(&mut tx).await.unwrap(), expected, "{id} {body} {repeated_body:?}");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_is_rejected() {
    let receiver = receiver("github", None);
    let event = event(&receiver, &github(&receiver, "1", "no json")).await;
    assert!(matches!(event.json::<serde_json::Value>(), Err(HandlerError::Reject(_))));
}
