//! HMAC over a time and the body, both in one header: `t=…,v1=…` and its relatives.

use ring::hmac::HMAC_SHA256;
use serde_json::json;

use super::crypto::{base64url, hex256, mac};
use super::{Case, Id};

pub(super) fn cases() -> Vec<Case> {
    [vec![stripe()], commas(), relatives()].concat()
}

/// `t=…,v1=…` over `{time}.{body}`, in hex.
macro_rules! comma {
    ($slug:literal, $header:literal, $time:ident, $between:literal, $version:literal, $draft:expr) => {
        Case::new($slug, $header, $draft, |ctx, capture| {
            let time = ctx.$time();
            let mac = hex256(&ctx.secret, &[time.as_bytes(), b".", &capture.body]);
            capture.set($header, format!(concat!("t={}", $between, $version, "={}"), time, mac));
        })
        .hmac(&HMAC_SHA256)
        .rejects("the right digest as version 9", |_, capture| {
            let value = capture.value($header).replace(concat!($version, "="), "v9=");
            capture.set($header, value);
        })
        .rejects("another time than the signed one", |ctx, capture| {
            let time = ctx.$time();
            let later = format!("{}1{}", &time[..8], &time[9..]);
            capture.set($header, capture.value($header).replace(&time, &later));
        })
        .rejects("no time", |_, capture| {
            let (_, mac) = capture.value($header).split_once($between).expect("two items");
            capture.set($header, mac.to_owned());
        })
    };
}

fn stripe() -> Case {
    comma!("stripe", "Stripe-Signature", seconds, ",", "v1", |ctx| {
            let body = json!({"id": ctx.id("evt_"), "object": "event", "api_version": "2024-06-20", "created": ctx.now, "type": "invoice.paid",
                "livemode": false, "data": {"object": {"id": "in_1", "object": "invoice", "amount_due": 2000}}, "pending_webhooks": 1});
            ctx.json(body).event([&ctx.id("evt_")], ["invoice.paid"])
        })
        .secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        .window(300)
        .accepts("an older secret's v1 first and a v0", |ctx, capture| {
            let time = ctx.seconds();
            let new = hex256(&ctx.secret, &[time.as_bytes(), b".", &capture.body]);
            let old = hex256("old", &[time.as_bytes(), b".", &capture.body]);
            capture.set("Stripe-Signature", format!("t={time},v1={old},v1={new},v0={old}"));
        })
        .rejects("a good v0 beside a bad v1", |ctx, capture| {
            let time = ctx.seconds();
            let good = hex256(&ctx.secret, &[time.as_bytes(), b".", &capture.body]);
            let bad = hex256("old", &[time.as_bytes(), b".", &capture.body]);
            capture.set("Stripe-Signature", format!("t={time},v1={bad},v0={good}"));
        })
        .rejects("keyed by the decoded secret", |ctx, capture| {
            let key = data_encoding::BASE64.decode(&ctx.secret.as_bytes()[6..]).expect("the secret is base64");
            let digest = mac(HMAC_SHA256, &key, &[ctx.seconds().as_bytes(), b".", &capture.body]);
            capture.set("Stripe-Signature", format!("t={},v1={}", ctx.seconds(), super::crypto::hex(&digest)));
        })
}

fn commas() -> Vec<Case> {
    vec![
        comma!("calendly", "Calendly-Webhook-Signature", seconds, ",", "v1", |ctx| {
            let (uri, created) = (format!("https://api.calendly.com/scheduled_events/E/invitees/{}", ctx.id("I")), "2027-01-15T07:59:59.000000Z");
            let body = json!({"event": "invitee.created", "created_at": created, "created_by": "https://api.calendly.com/users/U",
                "payload": {"uri": uri, "updated_at": created, "email": "test@example.com", "status": "active"}});
            ctx.json(body).event(["invitee.created", &uri, created], ["invitee.created"])
        })
        .window_of(180, Some(301), Some(301)),
        comma!("mux", "Mux-Signature", seconds, ",", "v1", |ctx| {
            let body = json!({"type": "video.asset.ready", "id": ctx.uuid(), "created_at": "2027-01-15T07:59:59.000000Z", "object": {"type": "asset", "id": "a-1"},
                "data": {"id": "a-1", "status": "ready"}, "attempts": []});
            ctx.json(body).event([&ctx.uuid()], ["video.asset.ready"])
        })
        .window(300)
        .accepts("an older secret's v1 first", |ctx, capture| {
            let time = ctx.seconds();
            let new = hex256(&ctx.secret, &[time.as_bytes(), b".", &capture.body]);
            let old = hex256("old", &[time.as_bytes(), b".", &capture.body]);
            capture.set("Mux-Signature", format!("t={time},v1={old},v1={new}"));
        }),
        comma!("elevenlabs", "ElevenLabs-Signature", seconds, ",", "v0", |ctx| {
            let body = json!({"type": "post_call_transcription", "event_timestamp": ctx.now,
                "data": {"agent_id": "a-1", "conversation_id": ctx.id("conv_"), "status": "done", "transcript": []}});
            ctx.json(body).event(["post_call_transcription", &ctx.id("conv_")], ["post_call_transcription"])
        })
        // How far into the future is the receiver's choice (rule 3 suggests five minutes).
        .window_of(1800, Some(1801), Some(1801)),
        comma!("workos", "WorkOS-Signature", millis, ", ", "v1", |ctx| {
            let body = json!({"id": ctx.id("event_"), "event": "dsync.user.created", "created_at": "2027-01-15T07:59:59.000Z",
                "data": {"id": "directory_user_1", "state": "active", "first_name": "Ren\u{e9}"}});
            ctx.json(body).event([&ctx.id("event_")], ["dsync.user.created"])
        })
        .window(180),
        comma!("persona", "Persona-Signature", seconds, ",", "v1", |ctx| {
            let body = json!({"data": {"type": "event", "id": ctx.id("evt_"), "attributes": {"name": "inquiry.completed", "created-at": "2027-01-15T07:59:59.000Z",
                "payload": {"data": {"type": "inquiry", "id": "inq_1", "attributes": {"status": "completed"}}}}}});
            ctx.json(body).event([&ctx.id("evt_")], ["inquiry.completed"])
        })
        .window_of_ours()
        .accepts("an older secret's group first", |ctx, capture| {
            let time = ctx.seconds();
            let new = hex256(&ctx.secret, &[time.as_bytes(), b".", &capture.body]);
            let old = hex256("old", &[time.as_bytes(), b".", &capture.body]);
            capture.set("Persona-Signature", format!("t={time},v1={old} t={time},v1={new}"));
        })
        .rejects("a time of one group for the digest of another", |ctx, capture| {
            let (then, now) = ((ctx.now - 9000).to_string(), ctx.seconds());
            let stale = hex256(&ctx.secret, &[then.as_bytes(), b".", &capture.body]);
            let wrong = hex256("old", &[now.as_bytes(), b".", &capture.body]);
            capture.set("Persona-Signature", format!("t={now},v1={wrong} t={then},v1={stale}"));
        }),
    ]
}

fn relatives() -> Vec<Case> {
    vec![
        Case::new(
            "sanity",
            "sanity-webhook-signature",
            |ctx| {
                ctx.json(json!({"_id": "drafts.1", "_type": "post", "_rev": "r1", "title": "hello"}))
                    .header("idempotency-key", ctx.uuid())
                    .header("sanity-operation", "update")
                    .header("sanity-document-id", "drafts.1")
                    .event([&ctx.uuid()], ["update"])
            },
            |ctx, capture| {
                let time = ctx.millis();
                let digest = mac(HMAC_SHA256, ctx.secret.as_bytes(), &[time.as_bytes(), b".", &capture.body]);
                capture.set("sanity-webhook-signature", format!("t={time},v1={}", base64url(&digest)));
            },
        )
        .hmac(&HMAC_SHA256)
        .window_of_ours(),
        Case::new(
            "paddle",
            "Paddle-Signature",
            |ctx| {
                let body = json!({"event_id": ctx.id("evt_"), "event_type": "transaction.completed", "occurred_at": "2027-01-15T07:59:59.000000Z",
                    "notification_id": "ntf_1", "data": {"id": "txn_1", "status": "completed"}});
                ctx.json(body).event([&ctx.id("evt_")], ["transaction.completed"])
            },
            |ctx, capture| {
                let mac = hex256(&ctx.secret, &[ctx.seconds().as_bytes(), b":", &capture.body]);
                capture.set("Paddle-Signature", format!("ts={};h1={mac}", ctx.seconds()));
            },
        )
        .hmac(&HMAC_SHA256)
        // Five seconds in the vendor's own code; behind a proxy more is needed (rule 5).
        .window_of(5, Some(301), Some(301))
        .accepts("an older secret's h1 first", |ctx, capture| {
            let time = ctx.seconds();
            let new = hex256(&ctx.secret, &[time.as_bytes(), b":", &capture.body]);
            let old = hex256("old", &[time.as_bytes(), b":", &capture.body]);
            capture.set("Paddle-Signature", format!("ts={time};h1={old};h1={new}"));
        })
        .rejects("the digest under another name", |_, capture| {
            capture.set("Paddle-Signature", capture.value("Paddle-Signature").replace("h1=", "h9="));
        }),
        recurly(),
        revolut(),
    ]
}

/// The time stands first, then one digest per live key.
fn recurly() -> Case {
    let draft = |ctx: &super::Ctx| {
        let body = json!({"id": ctx.id("qx"), "object_type": "account", "event_type": "updated", "event_time": "2027-01-15T07:59:59Z",
            "site_id": "s1", "account_code": "a-1", "uuid": "u-1"});
        ctx.json(body).event([&ctx.id("qx")], ["updated"])
    };
    Case::new("recurly", "recurly-signature", draft, |ctx, capture| {
        let mac = hex256(&ctx.secret, &[ctx.millis().as_bytes(), b".", &capture.body]);
        capture.set("recurly-signature", format!("{},{mac}", ctx.millis()));
    })
    .hmac(&HMAC_SHA256)
    .window(300)
    .accepts("an older key's digest first", |ctx, capture| {
        let new = hex256(&ctx.secret, &[ctx.millis().as_bytes(), b".", &capture.body]);
        let old = hex256("old", &[ctx.millis().as_bytes(), b".", &capture.body]);
        capture.set("recurly-signature", format!("{},{old},{new}", ctx.millis()));
    })
    .rejects("no time", |_, capture| {
        let (_, mac) = capture.value("recurly-signature").split_once(',').expect("two items");
        capture.set("recurly-signature", mac.to_owned());
    })
}

fn revolut() -> Case {
    let draft = |ctx: &super::Ctx| {
        let order = ctx.uuid();
        let id = Id::OneOf(vec![Id::parts(["ORDER_COMPLETED", &order]), Id::Digest]);
        ctx.json(json!({"event": "ORDER_COMPLETED", "order_id": order, "merchant_order_ext_ref": "Test #3928"}))
            .event_by(id, ["ORDER_COMPLETED"])
    };
    Case::new("revolut", "Revolut-Signature", draft, |ctx, capture| {
        let mac = hex256(&ctx.secret, &[b"v1.", ctx.millis().as_bytes(), b".", &capture.body]);
        capture.set("Revolut-Request-Timestamp", ctx.millis());
        capture.set("Revolut-Signature", format!("v1={mac}"));
    })
    .hmac(&HMAC_SHA256)
    .window(300)
    .accepts("an older secret's v1 first", |ctx, capture| {
        let old = hex256("old", &[b"v1.", ctx.millis().as_bytes(), b".", &capture.body]);
        capture.set("Revolut-Signature", format!("v1={old},{}", capture.value("Revolut-Signature")));
    })
    .rejects("the right digest as version 9", |_, capture| {
        capture.set("Revolut-Signature", capture.value("Revolut-Signature").replace("v1=", "v9="));
    })
    .rejects("a later time than the signed one", |ctx, capture| {
        capture.set("Revolut-Request-Timestamp", ((ctx.now + 1) * 1000).to_string());
    })
    .rejects("the time twice", |ctx, capture| {
        capture.headers.push(("Revolut-Request-Timestamp".to_owned(), ctx.millis()))
    })
}
