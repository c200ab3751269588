//! A realistic event per provider, for `send`, for load tests and for trying a source before its vendor is set up.
//!
//! A provider without a sample of its own gets one made from its description: id, type and time where it says they
//! stand. Ids are handed in, since nothing here may roll dice.

mod built_in;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::UnixMillis;
use crate::digest::sha256;
use crate::provider::scheme::Unit;
use crate::provider::sign::Draft;
use crate::read::form;
use crate::source::Source;

mod described;

use described::described;

/// What a sample event should be.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Its id; see [`id_for`].
    pub id: &'a str,
    /// Its type; the provider's most common one when absent.
    pub event_type: Option<&'a str>,
    /// Bytes of padding in the body, for load tests.
    pub filler_bytes: usize,
}

/// The wanted type, or the provider's common one.
type Kind<'a> = &'a dyn Fn(&'static str) -> String;
const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

/// An id in the provider's style around something unique.
pub fn id_for(provider: &str, unique: &str) -> String {
    let prefix = match provider {
        "stripe" => "evt_",
        "slack" => "Ev",
        "standard-webhooks" | "svix" => "msg_",
        _ => "",
    };
    format!("{prefix}{unique}")
}

/// Settings without which the provider cannot be built, with values for development.
pub fn sample_settings(provider: &str) -> &'static [(&'static str, &'static str)] {
    match provider {
        "aws-sns" => &[("topic_arn", "arn:aws:sns:eu-central-1:000000000000:sample")],
        "google-pubsub" => &[("audience", "https://hooks.example.com"), ("service_account", "sample@example.com")],
        // Names the key pair; elsewhere it is a key of its own.
        "braintree" => &[("public_key", "development")],
        "meta-whatsapp" => &[("verify_token", "development")],
        "paypal" => &[("webhook_id", "WH-SAMPLE")],
        _ => &[],
    }
}

/// Headers, content type and body of a sample.
type Made = (Vec<(&'static str, String)>, &'static str, String);

/// Drafts an event as this source's provider would send it; [`Source::sign`] makes it a request.
pub fn sample(source: &Source, sample: &Sample<'_>, now: UnixMillis) -> Draft {
    let filler = "x".repeat(sample.filler_bytes);
    let kind = |common: &'static str| sample.event_type.unwrap_or(common).to_owned();
    let made = made(source.provider(), sample.id, &kind, now, &filler);
    let made = made.or_else(|| built_in::sample(source.provider(), sample.id, &kind, now.div_euclid(1000), &filler));
    match made {
        Some((headers, content_type, body)) => draft(source, headers, content_type, body),
        None => described(source, sample, now, &filler),
    }
}

fn made(provider: &str, id: &str, kind: Kind<'_>, now: UnixMillis, filler: &str) -> Option<Made> {
    let seconds = now.div_euclid(1000);
    let (headers, body) = match provider {
        "stripe" => (Vec::new(), stripe(id, &kind("invoice.paid"), seconds, filler)),
        "github" => {
            let kind = kind("push");
            let (event, action) =
                kind.split_once('.').map_or((kind.as_str(), None), |(event, action)| (event, Some(action)));
            let headers = vec![("x-github-delivery", id.to_owned()), ("x-github-event", event.to_owned())];
            (headers, github(id, action, filler))
        }
        "shopify" => {
            let headers = vec![
                ("x-shopify-webhook-id", id.to_owned()),
                ("x-shopify-topic", kind("orders/create")),
                ("x-shopify-shop-domain", "example.myshopify.com".to_owned()),
            ];
            (headers, shopify(id, now, filler))
        }
        "slack" => (Vec::new(), slack(id, &kind("app_mention"), seconds, filler)),
        "twilio" => {
            let headers = vec![("i-twilio-idempotency-token", id.to_owned())];
            return Some((headers, FORM, twilio(id, &kind("delivered"), filler)));
        }
        "standard-webhooks" | "svix" => {
            let name = if provider == "svix" { "svix-id" } else { "webhook-id" };
            let time = Unit::Rfc3339.format(now);
            let data = json!({ "id": format!("user_{}", short(id)), "filler": filler });
            (vec![(name, id.to_owned())], json!({ "type": kind("user.created"), "timestamp": time, "data": data }))
        }
        _ => return None,
    };
    Some((headers, JSON, body.to_string()))
}

fn stripe(id: &str, kind: &str, created: i64, filler: &str) -> Value {
    json!({
        "id": id, "object": "event", "api_version": "2025-09-30.clover", "created": created, "livemode": false,
        "pending_webhooks": 1, "request": { "id": null, "idempotency_key": null }, "type": kind,
        "data": { "object": {
            "id": format!("in_{}", short(id)), "object": "invoice", "customer": "cus_sample", "currency": "eur",
            "amount_due": 4200, "amount_paid": 4200, "status": "paid", "metadata": { "filler": filler },
        } },
    })
}

fn github(id: &str, action: Option<&str>, filler: &str) -> Value {
    let mut body = json!({
        "ref": "refs/heads/main", "before": short(&format!("{id}-")), "after": short(id),
        "repository": { "id": 1, "full_name": "octo/sample", "private": false },
        "sender": { "login": "octocat", "id": 583_231 },
        "head_commit": { "id": short(id), "message": format!("sample {filler}") },
    });
    if let (Some(action), Some(fields)) = (action, body.as_object_mut()) {
        fields.insert("action".to_owned(), action.into());
    }
    body
}

fn shopify(id: &str, now: UnixMillis, filler: &str) -> Value {
    let time = Unit::Rfc3339.format(now);
    json!({
        "id": u32::from_be_bytes(sha256(id.as_bytes())[..4].try_into().unwrap_or_default()), "name": "#1001",
        "created_at": time, "updated_at": time, "currency": "EUR", "total_price": "42.00", "note": filler,
        "line_items": [{ "id": 1, "title": "sample", "quantity": 1, "price": "42.00" }],
    })
}

fn slack(id: &str, kind: &str, seconds: i64, filler: &str) -> Value {
    let time = format!("{seconds}.000100");
    json!({
        "type": "event_callback", "event_id": id, "event_time": seconds, "team_id": "T0SAMPLE", "api_app_id": "A0SAMPLE",
        "event": { "type": kind, "user": "U0SAMPLE", "channel": "C0SAMPLE", "ts": time, "event_ts": time,
                   "text": format!("hello {filler}") },
    })
}

fn twilio(id: &str, status: &str, filler: &str) -> String {
    let sid = format!("SM{}", short(id));
    let fields = [
        ("AccountSid", "AC00000000000000000000000000000000"),
        ("ApiVersion", "2010-04-01"),
        ("Body", filler),
        ("From", "+15005550006"),
        ("MessageSid", &sid),
        ("MessageStatus", status),
        ("SmsSid", &sid),
        ("SmsStatus", status),
        ("To", "+15005550009"),
    ];
    fields.map(|(name, value)| format!("{name}={}", form::encode(value))).join("&")
}

fn draft(source: &Source, headers: Vec<(&str, String)>, content_type: &'static str, body: String) -> Draft {
    let mut map = HeaderMap::new();
    map.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in headers {
        // A value that no header can hold is left out; the source then says so itself.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(&value)) {
            map.insert(name, value);
        }
    }
    Draft { target: format!("/in/{}", source.name()), headers: map, body: Bytes::from(body) }
}

/// 32 hex digits that follow from the id.
fn short(id: &str) -> String {
    HEXLOWER.encode(&sha256(id.as_bytes())[..16])
}
