//! Shared tokens and passwords in a header: they name the sender and say nothing about the body.

use serde_json::json;

use super::crypto::base64;
use super::{Capture, Case, Ctx, Id};

pub(super) fn cases() -> Vec<Case> {
    [passwords(), headers(), generic()].concat()
}

/// `Authorization: Basic` with `user:password` as the secret.
macro_rules! basic {
    ($slug:literal, $draft:expr) => {
        Case::new($slug, "Authorization", $draft, |ctx, capture| {
            capture.set("Authorization", format!("Basic {}", base64(ctx.secret.as_bytes())));
        })
        .secrets("hooks:0pen-s3s4me", "hooks:0pen-s3s4mi")
        .body_uncovered()
        .accepts("another body, which nobody signs", |_, capture| capture.body.push(b' '))
        .rejects("the password alone", |_, capture| {
            capture.set("Authorization", format!("Basic {}", base64(b"0pen-s3s4me")))
        })
        .rejects("as a bearer token", |_, capture| capture.set("Authorization", "Bearer hooks:0pen-s3s4me"))
        .rejects("another user", |_, capture| {
            capture.set("Authorization", format!("Basic {}", base64(b"hook:0pen-s3s4me")))
        })
    };
}

/// The secret itself in this header.
macro_rules! token {
    ($slug:literal, $header:literal, $draft:expr) => {
        Case::new($slug, $header, $draft, |ctx, capture| capture.set($header, ctx.secret.clone()))
            .body_uncovered()
            .accepts("another body, which nobody signs", |_, capture| capture.body.push(b' '))
    };
}

fn passwords() -> Vec<Case> {
    vec![
        basic!("chargebee", |ctx| {
            let body = json!({"id": ctx.id("ev_"), "occurred_at": ctx.now, "source": "scheduled", "object": "event", "api_version": "v2",
                "event_type": "subscription_renewed", "webhook_status": "scheduled", "content": {"subscription": {"id": "s", "resource_version": 1}}});
            ctx.json(body).event([&ctx.id("ev_")], ["subscription_renewed"])
        }),
        basic!("azure-devops", |ctx| {
            let body = json!({"subscriptionId": "s-1", "notificationId": 27, "id": ctx.uuid(), "eventType": "workitem.updated", "publisherId": "tfs",
                "resource": {"id": 2, "rev": 4}, "createdDate": "2027-01-15T07:59:59.000Z"});
            ctx.json(body).event([&ctx.uuid()], ["workitem.updated"])
        }),
        basic!("postmark", |ctx| {
            let (message, when) = (ctx.uuid(), "2027-01-15T07:59:59.0000000Z");
            let body = json!({"RecordType": "Open", "MessageID": message, "ReceivedAt": when, "FirstOpen": true, "Recipient": "john@example.com"});
            ctx.json(body).event(["Open", &message, when], ["Open"])
        }),
        basic!("postmark", |ctx| {
            let message = ctx.uuid();
            let body = json!({"RecordType": "Bounce", "MessageID": message, "ID": 4_323_372_036_i64, "Type": "HardBounce", "BouncedAt": "2027-01-15T07:59:59Z"});
            ctx.json(body).event(["Bounce", &message, "4323372036"], ["Bounce"])
        })
        .form("bounce"),
        basic!("basic-auth", anything),
    ]
}

fn headers() -> Vec<Case> {
    vec![
        token!("telegram", "X-Telegram-Bot-Api-Secret-Token", |ctx| {
            let body = json!({"message": {"message_id": 1365, "chat": {"id": 1111, "type": "private"}, "date": ctx.now, "text": "/start"}, "update_id": ctx.number_id()});
            ctx.json(body).event([&ctx.number_id().to_string()], ["message"])
        }),
        token!("gitlab-token", "X-Gitlab-Token", |ctx| {
            ctx.json(json!({"object_kind": "push", "project": {"id": 15}, "checkout_sha": "da1560886d4f094c3e6c9ef40349f7d38b5d27d7"}))
                .header("X-Gitlab-Event", "Push Hook")
                .header("X-Gitlab-Event-UUID", "13792a34-cac6-4fda-95a8-c58e00a3954e")
                .header("X-Gitlab-Webhook-UUID", "02affd2d-2cba-4033-917d-ec22d5dc4b38")
                .header("Idempotency-Key", ctx.uuid())
                .event([&ctx.uuid()], ["Push Hook", "push", "Push Hook.push"])
        }),
        token!("okta", "Authorization", |ctx| {
            let (first, second) = (ctx.uuid(), ctx.id("o-"));
            let event = |id: &str, kind: &str| json!({"uuid": id, "published": "2027-01-15T07:59:59.000Z", "eventType": kind, "version": "0", "target": [{"id": "00u"}]});
            let body = json!({"eventType": "com.okta.event_hook", "eventTypeVersion": "1.0", "eventId": "e-1", "source": "https://example.okta.com/api/v1/eventHooks/1",
                "data": {"events": [event(&first, "user.lifecycle.create"), event(&second, "user.session.start")]}});
            ctx.json(body).event([&first], ["user.lifecycle.create"]).event([&second], ["user.session.start"])
        }),
        token!("auth0-logs", "Authorization", |ctx| {
            let (first, second) = (ctx.id("9002"), ctx.id("9003"));
            let event = |id: &str, kind: &str| json!({"log_id": id, "data": {"date": "2027-01-15T07:59:59.000Z", "type": kind, "user_id": "auth0|1", "log_id": id}});
            ctx.json(json!([event(&first, "s"), event(&second, "fp")])).event([&first], ["s"]).event([&second], ["fp"])
        }),
        token!("auth0-logs", "Authorization", |ctx| {
            let (first, second) = (ctx.id("9002"), ctx.id("9003"));
            let event = |id: &str, kind: &str| json!({"log_id": id, "data": {"date": "2027-01-15T07:59:59.000Z", "type": kind, "log_id": id}});
            let lines = format!("{}\n{}\n", event(&first, "s"), event(&second, "fp"));
            ctx.bytes("application/json", lines.into_bytes()).event([&first], ["s"]).event([&second], ["fp"])
        })
        .form("lines"),
        Case::new(
            "cloudevents-webhook",
            "Authorization",
            |ctx| {
                ctx.json(json!({"amount": 7}))
                    .header("ce-specversion", "1.0")
                    .header("ce-source", "/mycontext/4")
                    .header("ce-id", ctx.id("A234-"))
                    .header("ce-type", "com.example.someevent")
                    .event(["/mycontext/4", &ctx.id("A234-")], ["com.example.someevent"])
            },
            |ctx, capture| capture.set("Authorization", format!("Bearer {}", ctx.secret)),
        )
        .body_uncovered()
        .accepts("the token in the query", |ctx, capture| {
            capture.remove("Authorization");
            capture.url = format!("{}?access_token={}", ctx.url(), ctx.secret);
        })
        .rejects("a wrong token in the query", |ctx, capture| {
            capture.remove("Authorization");
            capture.url = format!("{}?access_token=x{}", ctx.url(), ctx.secret);
        }),
    ]
}

fn generic() -> Vec<Case> {
    vec![
        token!("static-token", "Authorization", anything),
        Case::new("static-token", "Authorization", anything, |ctx, capture| {
            capture.set("Authorization", format!("Bearer {}", ctx.secret))
        })
        .body_uncovered()
        .form("bearer"),
        // The operator chooses: a header of their own, or basic auth; the body is a template of theirs.
        token!("datadog", "Authorization", anything),
        Case::new(
            "custom",
            "X-Own-Signature",
            |ctx| {
                ctx.json(json!({"id": ctx.id("own_"), "kind": "thing.happened"}))
                    .event([&ctx.id("own_")], ["thing.happened"])
            },
            |ctx, capture| {
                let mac = super::crypto::hex256(&ctx.secret, &[ctx.seconds().as_bytes(), b"/", &capture.body]);
                capture.set("X-Own-Time", ctx.seconds());
                capture.set("X-Own-Signature", mac);
            },
        )
        .described(
            r#"
            mac = "hmac-sha256"
            enc = "hex"
            msg = "{ts}/{body}"
            sig = { header = "x-own-signature" }
            ts = { header = "x-own-time", unit = "s", past = 120, future = 60 }
            id = "json:/id"
            type = "json:/kind"
            "#,
        )
        .window_of(120, Some(121), Some(61)),
    ]
}

/// A body of the operator's own design.
fn anything(ctx: &Ctx) -> Capture {
    ctx.json(json!({"id": ctx.id("any_"), "type": "thing.happened"})).event_by(Id::Anything, [])
}
