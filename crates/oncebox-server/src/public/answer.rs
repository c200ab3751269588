//! The answers of the ingest path, as HTTP. Never 3xx, never 410.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Response};
use http_body_util::Full;
use oncebox::gateway::event::EventKey;
use oncebox::gateway::ingest::{Answer, Receipt, Unavailable};
use oncebox::gateway::store::Inserted;
use oncebox_verify::{Reason, Rejection, Reply};

use crate::http::problem::Problem;

const ONCEBOX_KEY: HeaderName = HeaderName::from_static("oncebox-key");
/// The status word, for senders whose success body is not ours.
const ONCEBOX_STATUS: HeaderName = HeaderName::from_static("oncebox-status");

/// Turns an answer into HTTP. `allow` lists the source's methods.
pub(crate) fn into_response(answer: Answer, allow: impl FnOnce() -> String) -> Response<Full<Bytes>> {
    match answer {
        Answer::Stored(receipt) => stored(receipt),
        Answer::Handshake(reply) => replied(reply),
        Answer::Rejected(rejection) => rejected(rejection, allow).into_response(),
        // Whoever keeps arrived secrets has taken his; nobody waits for this one.
        Answer::Secret(_) => Problem::unauthorized().into_response(),
        Answer::Unavailable(Unavailable::Overloaded) => {
            Problem::unavailable("too many requests wait to be stored").into_response()
        }
        Answer::Unavailable(Unavailable::StoreFailed) => {
            Problem::unavailable("the event could not be stored").into_response()
        }
        Answer::Unavailable(Unavailable::Unknown) => {
            Problem::unavailable("it is not known whether the event was stored").into_response()
        }
        Answer::Unavailable(Unavailable::VendorOutOfReach) => {
            Problem::unavailable("the vendor's key or confirmation cannot be reached").into_response()
        }
    }
}

/// What fails by itself is said; whatever is about who sent it has one answer.
fn rejected(rejection: Rejection, allow: impl FnOnce() -> String) -> Problem {
    match rejection.reason {
        Reason::Address => Problem::forbidden("this source takes nothing from your address").closing(),
        Reason::Method => Problem::method(allow()),
        Reason::TooLarge => Problem::too_large(),
        Reason::ContentEncoding => Problem::content_encoding(),
        Reason::TooSlow => Problem::too_slow(),
        Reason::BrokenBody => Problem::bad_request("the body broke off or is malformed").closing(),
        _ => Problem::unauthorized(),
    }
}

fn stored(receipt: Receipt) -> Response<Full<Bytes>> {
    let outcome = overall(&receipt.outcomes).copied();
    let mut response = match receipt.reply {
        Some(reply) => replied(reply),
        None => crate::http::json(if receipt.batch { listed(&receipt.outcomes) } else { single(&receipt.outcomes) }),
    };
    if let Some(outcome) = outcome {
        response.headers_mut().insert(ONCEBOX_KEY, header_of(outcome.key()));
        response.headers_mut().insert(ONCEBOX_STATUS, HeaderValue::from_static(outcome.as_str()));
    }
    response
}

/// The outcome that speaks for a request: whatever was new comes first.
fn overall(outcomes: &[Inserted]) -> Option<&Inserted> {
    outcomes.iter().min_by_key(|outcome| match outcome {
        Inserted::Accepted(_) | Inserted::Repeated(_) => 0,
        Inserted::Held(_) => 1,
        Inserted::Conflict(_) | Inserted::ConflictAgain(_) => 2,
        Inserted::Duplicate(_) => 3,
    })
}

/// Written by hand: a status word and a UUID need no escaping, and this is the busiest line of the program.
fn single(outcomes: &[Inserted]) -> String {
    overall(outcomes).map_or_else(|| r#"{"status":"accepted"}"#.to_owned(), one)
}

fn listed(outcomes: &[Inserted]) -> String {
    let status = overall(outcomes).map_or("accepted", |outcome| outcome.as_str());
    let events: Vec<String> = outcomes.iter().map(one).collect();
    format!(r#"{{"status":"{status}","events":[{}]}}"#, events.join(","))
}

fn one(outcome: &Inserted) -> String {
    format!(r#"{{"status":"{}","key":"{}"}}"#, outcome.as_str(), outcome.key())
}

fn replied(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    for (name, value) in reply.headers {
        headers.insert(name, value);
    }
    response
}

fn header_of(key: EventKey) -> HeaderValue {
    HeaderValue::try_from(key.to_string()).unwrap_or_else(|_| HeaderValue::from_static(""))
}
