//! From a message to the call that carries it, purely. What a message may choose ends at its destination's URL: a path
//! below it, a method, headers beside the destination's and ours.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::destination::DestinationSpec;
use crate::clock::UnixMillis;
use crate::outgoing::Call;
use crate::outgoing::forward::{IDEMPOTENCY_KEY, OF_CONNECTION, ONCEBOX_ATTEMPT, set, stamp};
use crate::store::ClaimedMessage;
use crate::trace::TRACEPARENT;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsendable {
    #[error("the path is not valid, or leads out of the destination's URL")]
    Path,
    #[error("the method is not valid")]
    Method,
    #[error("the headers are not a JSON object of strings")]
    Headers,
    #[error("a message may not set the header {0:?}")]
    Header(String),
}

pub(super) fn call(spec: &DestinationSpec, message: &ClaimedMessage, now: UnixMillis) -> Result<Call, Unsendable> {
    let target = spec.target.below(&message.path).ok_or(Unsendable::Path)?;
    let method = message.method.parse().map_err(|_invalid| Unsendable::Method)?;
    let mut headers = own_headers(&message.headers)?;
    if !message.body.is_empty() && !headers.contains_key(header::CONTENT_TYPE) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for name in spec.headers.keys() {
        headers.remove(name);
    }
    headers.extend(spec.headers.clone());
    // The message's own id, not the event's key: two messages of one event are two to whoever tells them by it.
    stamp(&mut headers, &message.fence.id.to_string(), &message.body, now, spec.signing.as_ref());
    set(&mut headers, IDEMPOTENCY_KEY, &message.idempotency_key);
    // A message that names a trace itself knows better than the event that it came from.
    if let Some(trace) = message.traceparent.filter(|_| !headers.contains_key(TRACEPARENT)) {
        trace.set(&mut headers);
    }
    set(&mut headers, ONCEBOX_ATTEMPT, &message.attempt.to_string());
    Ok(Call { method, target, headers, body: message.body.clone(), deadline: spec.timeout })
}

fn own_headers(json: &str) -> Result<HeaderMap, Unsendable> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(json).map_err(|_invalid| Unsendable::Headers)?;
    let mut headers = HeaderMap::new();
    for (name, value) in object {
        let value = value.as_str().ok_or(Unsendable::Headers)?;
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            // A message that sets what belongs to the connection is a mistake, not a wish.
            (Ok(known), Ok(value)) if !OF_CONNECTION.contains(&known) => drop(headers.insert(known, value)),
            _ => return Err(Unsendable::Header(name)),
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::delivery::retry::RetryPolicy;
    use crate::event::{LeaseToken, MessageKey};
    use crate::outgoing::forward::SigningKey;
    use crate::outgoing::{Outgoing, Policy, Settings, Target};
    use crate::store::MessageFence;
    use crate::trace::Traceparent;
    use oncebox_verify::Secret;

    fn spec(signing: Option<SigningKey>) -> DestinationSpec {
        let policy = Policy::Operator { allow: Vec::new() };
        let settings = Settings { policy, authorities: Vec::new(), hosts: HashMap::new() };
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer token"));
        DestinationSpec {
            name: "crm".into(),
            target: Target::parse("https://crm.example/api/").expect("a URL"),
            client: Outgoing::new(settings).expect("a client"),
            headers,
            signing,
            timeout: Duration::from_secs(10),
            concurrency: 1,
            rate: None,
            retry: RetryPolicy::default(),
            retry_on: Vec::new(),
            ordered: false,
        }
    }

    fn message(path: &str, headers: &str) -> ClaimedMessage {
        ClaimedMessage {
            fence: MessageFence { id: MessageKey::from_bytes([7; 16]), token: LeaseToken::from_bytes([8; 16]) },
            destination: "crm".to_owned(),
            idempotency_key: "crm/order-1".to_owned(),
            method: "PUT".to_owned(),
            path: path.to_owned(),
            headers: headers.to_owned(),
            body: Bytes::from_static(b"{}"),
            attempt: 3,
            attempts_before: 0,
            key: None,
            source: None,
            event_id: None,
            handler: None,
            step: None,
            has_order_key: false,
            traceparent: None,
        }
    }

    fn check(path: &str, headers: &str, expected: Result<&[(&str, &str)], Unsendable>) {
        let call = call(&spec(None), &message(path, headers), 1_731_700_000_123);
        let ours = ["webhook-id", "webhook-timestamp", "idempotency-key", "oncebox-attempt", "authorization"];
        let found = call.map(|call| {
            assert_eq!(call.headers["authorization"], "Bearer token");
            assert_eq!(call.headers["idempotency-key"], "crm/order-1");
            assert_eq!(call.headers["webhook-id"], "07070707-0707-0707-0707-070707070707");
            assert_eq!((&call.headers["oncebox-attempt"], call.method.as_str()), (&HeaderValue::from(3), "PUT"));
            let own = call.headers.iter().filter(|(name, _)| !ours.contains(&name.as_str()));
            own.map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned())).collect::<Vec<_>>()
        });
        let expected = expected.map(|headers| {
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        });
        assert_eq!(found, expected, "{path} {headers}");
    }

    #[test]
    fn headers() {
        check("", "{}", Ok(&[("content-type", "application/json")]));
        check("", r#"{"Content-Type":"text/plain"}"#, Ok(&[("content-type", "text/plain")]));
        check(
            "",
            r#"{"authorization":"mine","idempotency-key":"mine","webhook-signature":"v1,x"}"#,
            Ok(&[("content-type", "application/json")]),
        );
        check("", r#"{"x":1}"#, Err(Unsendable::Headers));
        check("", "[]", Err(Unsendable::Headers));
        for name in ["host", "Content-Length", "transfer-encoding", "a b", ""] {
            check("", &format!("{{\"{name}\":\"x\"}}"), Err(Unsendable::Header(name.to_owned())));
        }
        check("", r#"{"x":"a\r\ny: b"}"#, Err(Unsendable::Header("x".to_owned())));
        check("../admin", "{}", Err(Unsendable::Path));
    }

    #[test]
    fn the_trace_of_the_event_goes_along() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        for (own, expected) in [("{}", trace), (r#"{"traceparent":"mine"}"#, "mine")] {
            let traced = ClaimedMessage { traceparent: Traceparent::parse(trace.as_bytes()), ..message("", own) };
            let call = call(&spec(None), &traced, 0).expect("a call");
            assert_eq!(call.headers["traceparent"], expected);
        }
    }

    #[test]
    fn signatures_are_made_of_the_message() {
        let key = SigningKey::new(&Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
        let call = call(&spec(Some(key.clone())), &message("", "{}"), 1_731_700_000_123).expect("a call");
        let id = "07070707-0707-0707-0707-070707070707";
        assert_eq!(call.headers["webhook-signature"], key.sign(id, 1_731_700_000, b"{}"));
    }

    proptest! {
        #[test]
        fn whatever_is_stored_no_line_is_added(path in ".{0,20}", headers in ".{0,40}", value: String) {
            let spec = spec(None);
            let json = serde_json::json!({ "x": value }).to_string();
            for headers in [headers, json] {
                if let Ok(call) = call(&spec, &message(&path, &headers), 0) {
                    prop_assert!(call.headers.values().all(|value| !value.as_bytes().contains(&b'\n')));
                }
            }
        }
    }
}
