//! The Standard Webhooks family: `{id}.{time}.{body}`, the id signed, the key in base64 behind `whsec_`.

use ring::hmac::HMAC_SHA256;
use serde_json::json;

use super::crypto::{base64, mac};
use super::{Capture, Case, Ctx, Id};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_AAAA9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(super) fn cases() -> Vec<Case> {
    [webhook(), svix(), variants()].concat()
}

macro_rules! family {
    ($slug:literal, $prefix:literal, $key:ident, $draft:expr) => {
        Case::new($slug, concat!($prefix, "-signature"), $draft, |ctx, capture| sign(ctx, capture, $prefix, $key))
            .secrets(SECRET, OTHER)
            .hmac(&HMAC_SHA256)
            .window(300)
            .accepts("an older key's signature first and an unknown version", |ctx, capture| {
                let old = base64(&mac(HMAC_SHA256, b"old", &[&capture.body]));
                let good = capture.value(concat!($prefix, "-signature")).to_owned();
                capture.set(concat!($prefix, "-signature"), format!("v1,{old} v9,{old} {good}"));
                let _ = ctx;
            })
            .rejects("the right digest as version 9", |_, capture| {
                let value = capture.value(concat!($prefix, "-signature")).replace("v1,", "v9,");
                capture.set(concat!($prefix, "-signature"), value);
            })
            .rejects("no version", |_, capture| {
                let value = capture.value(concat!($prefix, "-signature")).replace("v1,", "");
                capture.set(concat!($prefix, "-signature"), value);
            })
            .rejects("another id than the signed one", |_, capture| capture.set(concat!($prefix, "-id"), "msg_another"))
            .rejects("a later time than the signed one", |ctx, capture| {
                capture.set(concat!($prefix, "-timestamp"), (ctx.now + 1).to_string());
            })
            .rejects("no id", |_, capture| capture.remove(concat!($prefix, "-id")))
            .rejects("no time", |_, capture| capture.remove(concat!($prefix, "-timestamp")))
            .rejects("a dot moved from the id to the time", |ctx, capture| {
                let moved = format!("{}.{}", ctx.id("msg_"), ctx.seconds());
                capture.set(concat!($prefix, "-id"), moved);
                capture.set(concat!($prefix, "-timestamp"), "");
            })
    };
}

fn webhook() -> Vec<Case> {
    vec![
        family!("standard-webhooks", "webhook", behind_prefix, |ctx| {
            event(ctx, "webhook", "contact.created", json!({"id": "1f81eb52-5198-4599-803e-771906343485"}))
        }),
        family!("liveblocks", "webhook", behind_prefix, |ctx| {
            event(ctx, "webhook", "storageUpdated", json!({"projectId": "p-1", "roomId": "room", "updatedAt": "2027-01-15T07:59:59.000Z"}))
        }),
        family!("openai", "webhook", behind_prefix, |ctx| {
            let body = json!({"object": "event", "id": "evt_685343a1381c819085d44c354e1b330e", "type": "response.completed",
                "created_at": ctx.now, "data": {"id": "resp_abc123"}});
            ctx.json(body).header("webhook-id", ctx.id("msg_")).event([&ctx.id("msg_")], ["response.completed"])
        }),
        family!("gitlab", "webhook", behind_prefix, |ctx| {
            let body = json!({"object_kind": "merge_request", "event_type": "merge_request", "project": {"id": 1, "name": "Gitlab Test"},
                "object_attributes": {"id": 93, "iid": 16, "action": "open", "updated_at": "2027-01-15 07:59:59 UTC"}});
            ctx.json(body)
                .header("webhook-id", ctx.id("msg_"))
                .header("Idempotency-Key", ctx.id("msg_"))
                .header("X-Gitlab-Event", "Merge Request Hook")
                .header("X-Gitlab-Event-UUID", "13792a34-cac6-4fda-95a8-c58e00a3954e")
                .header("X-Gitlab-Webhook-UUID", "02affd2d-2cba-4033-917d-ec22d5dc4b38")
                .event([&ctx.id("msg_")], ["Merge Request Hook", "merge_request", "Merge Request Hook.merge_request"])
        })
        .rejects("only the weaker token header", |ctx, capture| {
            capture.remove("webhook-signature");
            capture.set("X-Gitlab-Token", ctx.secret.clone());
        }),
    ]
}

fn svix() -> Vec<Case> {
    vec![
        family!("svix", "svix", behind_prefix, |ctx| event(ctx, "svix", "invoice.paid", json!({"id": "in_1"}))),
        family!("svix", "webhook", behind_prefix, |ctx| event(ctx, "webhook", "invoice.paid", json!({"id": "in_1"})))
            .form("webhook headers"),
        family!("clerk", "svix", behind_prefix, |ctx| {
            event(
                ctx,
                "svix",
                "user.created",
                json!({"id": "user_29w83sxmDNGwOuEthce5gg56FcC", "updated_at": ctx.now * 1000}),
            )
        }),
        family!("resend", "svix", behind_prefix, |ctx| {
            event(
                ctx,
                "svix",
                "email.sent",
                json!({"email_id": "56761188-7520-42d8-8898-ff6fc54ce618", "to": ["a@example.com"]}),
            )
        }),
    ]
}

fn variants() -> Vec<Case> {
    vec![
        // The text of the whole secret is the key.
        family!("polar", "webhook", whole_text, |ctx| {
            event(ctx, "webhook", "order.created", json!({"id": "o-1", "modified_at": "2027-01-15T07:59:59Z"}))
        })
        .secrets("polar_whs_ovyN6cPrTv56AApvzCaJno08SSmGJmgbWilb33N2JuK", "polar_whs_AAAA6cPrTv56AApvzCaJno08SSmGJmgbWilb33N2JuK"),
        // A secret without the prefix is text.
        family!("openai", "webhook", whole_text, |ctx| event(ctx, "webhook", "batch.completed", json!({"id": "batch_1"})))
            .secrets("a-secret-in-plain-text!", "another-secret-in-plain-text!")
            .form("plain secret"),
        // The client secret wrapped in base64, so the key is the secret's text again.
        family!("bigcommerce", "webhook", whole_text, |ctx| {
            let body = json!({"scope": "store/order/statusUpdated", "store_id": "1025646", "producer": "stores/abcde", "created_at": ctx.now,
                "hash": ctx.id("dd70c0976e06b67aaf671e73f49dcb79"), "data": {"type": "order", "id": 250}});
            let id = Id::OneOf(vec![Id::parts([&ctx.id("dd70c0976e06b67aaf671e73f49dcb79")]), Id::parts([&ctx.id("msg_")])]);
            ctx.json(body).header("webhook-id", ctx.id("msg_")).event_by(id, ["store/order/statusUpdated"])
        })
        .secrets("9b1d6c0f7e3a4c5b8d2e1f0a9c8b7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c", "0000000f7e3a4c5b8d2e1f0a9c8b7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c"),
    ]
}

fn event(ctx: &Ctx, prefix: &str, kind: &str, data: serde_json::Value) -> Capture {
    let body = json!({"type": kind, "timestamp": ctx.rfc3339(".000"), "data": data});
    ctx.json(body).header(&format!("{prefix}-id"), ctx.id("msg_")).event([&ctx.id("msg_")], [kind])
}

fn sign(ctx: &Ctx, capture: &mut Capture, prefix: &str, key: fn(&str) -> Vec<u8>) {
    let (id, time) = (ctx.id("msg_"), ctx.seconds());
    let digest = mac(HMAC_SHA256, &key(&ctx.secret), &[id.as_bytes(), b".", time.as_bytes(), b".", &capture.body]);
    capture.set(&format!("{prefix}-timestamp"), time);
    capture.set(&format!("{prefix}-signature"), format!("v1,{}", base64(&digest)));
}

fn behind_prefix(secret: &str) -> Vec<u8> {
    let encoded = secret.strip_prefix("whsec_").expect("the secret begins with whsec_");
    data_encoding::BASE64.decode(encoded.as_bytes()).expect("a base64 secret")
}

fn whole_text(secret: &str) -> Vec<u8> {
    secret.as_bytes().to_vec()
}
