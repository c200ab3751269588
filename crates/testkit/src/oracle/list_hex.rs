//! HMAC over the body in hex where the header may list several signatures, or the key or the batch is special.

use ring::hmac::HMAC_SHA256;
use serde_json::json;

use super::crypto::{hex, hex256, mac};
use super::{Case, Id};

pub(super) fn cases() -> Vec<Case> {
    [lists(), batches()].concat()
}

/// HMAC-SHA256 of the body as `v1=…` in a list with commas.
macro_rules! listed {
    ($slug:literal, $header:literal, $draft:expr) => {
        Case::new($slug, $header, $draft, |ctx, capture| {
            capture.set($header, format!("v1={}", hex256(&ctx.secret, &[&capture.body])));
        })
        .hmac(&HMAC_SHA256)
        .accepts("an older key's signature first", |ctx, capture| {
            let (old, new) = (hex256("old", &[&capture.body]), hex256(&ctx.secret, &[&capture.body]));
            capture.set($header, format!("v1={old},v1={new}"));
        })
        .rejects("the right digest as version 9", |ctx, capture| {
            capture.set($header, format!("v9={}", hex256(&ctx.secret, &[&capture.body])));
        })
        .rejects("no version", |ctx, capture| {
            capture.set($header, hex256(&ctx.secret, &[&capture.body]));
        })
        .rejects("nine signatures", |ctx, capture| {
            let wrong = format!("v1={},", hex256("old", &[&capture.body])).repeat(8);
            capture.set($header, format!("{wrong}v1={}", hex256(&ctx.secret, &[&capture.body])));
        })
    };
}

fn lists() -> Vec<Case> {
    vec![
        listed!("circleci", "circleci-signature", |ctx| {
            let body = json!({"type": "workflow-completed", "id": ctx.uuid(), "happened_at": "2027-01-15T07:59:59.000Z",
                "webhook": {"id": "w-1", "name": "hook"}, "workflow": {"id": "f-1", "status": "success"}});
            ctx.json(body).event([&ctx.uuid()], ["workflow-completed"])
        }),
        listed!("pagerduty-v3", "X-PagerDuty-Signature", |ctx| {
            let body = json!({"event": {"id": ctx.id("01BW"), "event_type": "incident.triggered", "resource_type": "incident",
                "occurred_at": "2027-01-15T07:59:59.000Z", "data": {"id": "PGR0VU2", "type": "incident", "title": "A little bump"}}});
            ctx.json(body).event([&ctx.id("01BW")], ["incident.triggered"])
        }),
        listed!("fingerprint", "FPJS-Event-Signature", |ctx| {
            let body = json!({"requestId": ctx.id("1708102555327."), "visitorId": "3HNey93AkBW6CRbxV6xP", "timestamp": ctx.now * 1000,
                "ip": "61.127.217.15", "incognito": false});
            ctx.json(body).event([&ctx.id("1708102555327.")], [""])
        }),
    ]
}

const AIRTABLE: &str = "6t3cKdiDBs38HZIk2ZcGJ9eXr1dFZLdSKC4eMG4BTLE=";

fn batches() -> Vec<Case> {
    vec![
        Case::new(
            "airtable",
            "X-Airtable-Content-MAC",
            |ctx| {
                let body = json!({"base": {"id": "app00000000000000"}, "webhook": {"id": ctx.id("ach")},
                    "timestamp": ctx.rfc3339(".000")});
                ctx.json(body).event_by(Id::Arrival, [""])
            },
            |ctx, capture| {
                let key = data_encoding::BASE64.decode(ctx.secret.as_bytes()).expect("a base64 secret");
                capture.set(
                    "X-Airtable-Content-MAC",
                    format!("hmac-sha256={}", hex(&mac(HMAC_SHA256, &key, &[&capture.body]))),
                );
            },
        )
        .secrets(AIRTABLE, "AAAAKdiDBs38HZIk2ZcGJ9eXr1dFZLdSKC4eMG4BTLE=")
        .hmac(&HMAC_SHA256)
        .rejects("keyed by the text of the secret", |ctx, capture| {
            capture.set("X-Airtable-Content-MAC", format!("hmac-sha256={}", hex256(&ctx.secret, &[&capture.body])));
        }),
        Case::new(
            "asana",
            "X-Hook-Signature",
            |ctx| {
                let (task, created) = (ctx.id("12"), "2027-01-15T07:59:59.000Z");
                let event = |action: &str| {
                    json!({"user": {"gid": "12345", "resource_type": "user"}, "created_at": created,
                    "action": action, "resource": {"gid": task, "resource_type": "task"}, "parent": null,
                    "change": {"field": "due_at", "action": "changed"}})
                };
                ctx.json(json!({"events": [event("changed"), event("undeleted")]}))
                    .event(["12345", &task, "changed", created, "due_at"], ["task.changed"])
                    .event(["12345", &task, "undeleted", created, "due_at"], ["task.undeleted"])
            },
            |ctx, capture| capture.set("X-Hook-Signature", hex256(&ctx.secret, &[&capture.body])),
        )
        .hmac(&HMAC_SHA256),
        meta(),
    ]
}

/// Messages by their own id, statuses by id and status, in any entry.
fn meta() -> Case {
    let draft = |ctx: &super::Ctx| {
        let (message, status) = (ctx.id("wamid.A"), ctx.id("wamid.B"));
        let metadata = json!({"display_phone_number": "15550783881", "phone_number_id": "106540352242922"});
        let body = json!({"object": "whatsapp_business_account", "entry": [
            {"id": "102290129340398", "changes": [{"field": "messages", "value": {"messaging_product": "whatsapp", "metadata": metadata,
                "messages": [{"from": "16505551234", "id": message, "timestamp": ctx.seconds(), "type": "text", "text": {"body": "Gr\u{fc}\u{df}e"}}]}}]},
            {"id": "102290129340398", "changes": [{"field": "messages", "value": {"messaging_product": "whatsapp", "metadata": metadata,
                "statuses": [{"id": status, "status": "delivered", "timestamp": ctx.seconds(), "recipient_id": "16505551234"},
                    {"id": status, "status": "read", "timestamp": ctx.seconds(), "recipient_id": "16505551234"}]}}]}]});
        let kind = ["whatsapp_business_account.messages"];
        ctx.json(body).event([&message], kind).event([&status, "delivered"], kind).event([&status, "read"], kind)
    };
    Case::new("meta-whatsapp", "X-Hub-Signature-256", draft, |ctx, capture| {
        capture.set("X-Hub-Signature-256", format!("sha256={}", hex256(&ctx.secret, &[&capture.body])));
    })
    .hmac(&HMAC_SHA256)
    .setting("verify_token", "meatyhamhock")
    .rejects("only the older SHA-1 header", |ctx, capture| {
        capture.remove("X-Hub-Signature-256");
        capture.set("X-Hub-Signature", format!("sha1={}", super::crypto::hex1(&ctx.secret, &[&capture.body])));
    })
}
