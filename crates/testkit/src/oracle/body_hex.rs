//! HMAC over the body alone, in hex, one signature in one header: payments, forges, build and mail services.

use ring::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256};
use serde_json::json;

use super::crypto::{hex1, hex256};
use super::{Case, Id};

pub(super) fn cases() -> Vec<Case> {
    [payments(), forges(), tools(), legacy()].concat()
}

/// HMAC-SHA256 of the body in this header, in hex.
macro_rules! plain {
    ($slug:literal, $header:literal, $prefix:literal, $draft:expr) => {
        Case::new($slug, $header, $draft, |ctx, capture| {
            let mac = hex256(&ctx.secret, &[&capture.body]);
            capture.set($header, format!(concat!($prefix, "{}"), mac));
        })
        .hmac(&HMAC_SHA256)
        .rejects("SHA-1 in the same header", |ctx, capture| {
            let mac = hex1(&ctx.secret, &[&capture.body]);
            capture.set($header, format!(concat!($prefix, "{}"), mac));
        })
    };
}

/// HMAC-SHA1 of the body in this header, in hex.
macro_rules! legacy {
    ($slug:literal, $header:literal, $prefix:literal, $draft:expr) => {
        Case::new($slug, $header, $draft, |ctx, capture| {
            let mac = hex1(&ctx.secret, &[&capture.body]);
            capture.set($header, format!(concat!($prefix, "{}"), mac));
        })
        .hmac(&HMAC_SHA1_FOR_LEGACY_USE_ONLY)
    };
}

fn payments() -> Vec<Case> {
    vec![
        plain!("razorpay", "X-Razorpay-Signature", "", |ctx| {
            let body = json!({"entity": "event", "account_id": "acc_1", "event": "payment.captured", "contains": ["payment"],
                "payload": {"payment": {"entity": {"id": "pay_1", "amount": 100, "status": "captured"}}}, "created_at": ctx.now});
            ctx.json(body).header("X-Razorpay-Event-Id", ctx.id("ev_")).event([&ctx.id("ev_")], ["payment.captured"])
        }),
        plain!("coinbase-commerce", "X-CC-Webhook-Signature", "", |ctx| {
            let body = json!({"id": "outer-1", "scheduled_for": "2027-01-15T08:00:00Z", "attempt_number": 1,
                "event": {"id": ctx.uuid(), "resource": "event", "type": "charge:confirmed", "api_version": "2018-03-22",
                    "created_at": "2027-01-15T07:59:59Z", "data": {"code": "66BEOV2A", "name": "The Sovereign"}}});
            ctx.json(body).event([&ctx.uuid()], ["charge:confirmed"])
        }),
        plain!("lemonsqueezy", "X-Signature", "", |ctx| {
            let updated = "2027-01-15T07:59:59.000000Z";
            let body = json!({"meta": {"event_name": "subscription_created", "webhook_id": "w-1"},
                "data": {"type": "subscriptions", "id": ctx.id(""), "attributes": {"status": "active", "updated_at": updated}}});
            let parts = Id::parts(["subscription_created", &ctx.id(""), updated]);
            ctx.json(body)
                .header("X-Event-Name", "subscription_created")
                .event_by(Id::OneOf(vec![parts, Id::Digest]), ["subscription_created"])
        }),
        plain!("gocardless", "Webhook-Signature", "", |ctx| {
            let (first, second) = (ctx.id("EVA"), ctx.id("EVB"));
            let body = json!({"events": [
                {"id": first, "created_at": "2027-01-15T07:59:59.000Z", "resource_type": "payments", "action": "confirmed",
                    "links": {"payment": "PM1"}, "details": {"origin": "gocardless", "cause": "payment_confirmed"}},
                {"id": second, "created_at": "2027-01-15T07:59:59.000Z", "resource_type": "mandates", "action": "created",
                    "links": {"mandate": "MD1"}}], "meta": {"webhook_id": "WB1"}});
            ctx.json(body).event([&first], ["payments.confirmed"]).event([&second], ["mandates.created"])
        }),
        plain!("checkout-com", "Cko-Signature", "", |ctx| {
            let body = json!({"id": ctx.id("evt_"), "type": "payment_approved", "version": "1.0.0",
                "created_on": "2027-01-15T07:59:59Z", "data": {"id": "pay_1", "amount": 1000, "currency": "GBP"}});
            ctx.json(body).event([&ctx.id("evt_")], ["payment_approved"])
        }),
        plain!("mollie", "X-Mollie-Signature", "sha256=", |ctx| {
            let body = json!({"resource": "event", "id": ctx.id("event_"), "type": "payment-link.paid", "entityId": "pl_1",
                "createdAt": "2027-01-15T07:59:59.0Z", "_embedded": {"entity": {"resource": "payment-link", "id": "pl_1"}}});
            ctx.json(body).event([&ctx.id("event_")], ["payment-link.paid"])
        }),
    ]
}

fn forges() -> Vec<Case> {
    vec![
        plain!("github", "X-Hub-Signature-256", "sha256=", |ctx| {
            let body = json!({"action": "opened", "number": 2, "pull_request": {"id": 279_147_437, "title": "Ünïcode \u{1F600}"},
                "repository": {"id": 186_853_002, "full_name": "Codertocat/Hello-World"}, "sender": {"login": "Codertocat"}});
            ctx.json(body)
                .header("X-GitHub-Event", "pull_request")
                .header("X-GitHub-Delivery", ctx.uuid())
                .header("X-GitHub-Hook-ID", "292430182")
                .event([&ctx.uuid()], ["pull_request.opened"])
        })
        .rejects("only the older SHA-1 header", |ctx, capture| {
            capture.remove("X-Hub-Signature-256");
            let mac = hex1(&ctx.secret, &[&capture.body]);
            capture.set("X-Hub-Signature", format!("sha1={mac}"));
        })
        .accepts("with the older header beside it", |ctx, capture| {
            capture.set("X-Hub-Signature", format!("sha1={}", hex1(&ctx.secret, &[&capture.body])));
        }),
        plain!("github", "X-Hub-Signature-256", "sha256=", |ctx| {
            let body = super::crypto::form(&[("payload", r#"{"ref":"refs/heads/main","after":"6113728f27ae"}"#)]);
            ctx.bytes("application/x-www-form-urlencoded", body)
                .header("X-GitHub-Event", "push")
                .header("X-GitHub-Delivery", ctx.uuid())
                .event([&ctx.uuid()], ["push"])
        })
        .form("form")
        .unmeasured(),
        plain!("bitbucket-cloud", "X-Hub-Signature", "sha256=", |ctx| {
            let body = json!({"repository": {"uuid": "{r-1}", "full_name": "team/repo"}, "push": {"changes": [{"closed": false}]},
                "actor": {"nickname": "emma"}});
            ctx.json(body)
                .header("X-Event-Key", "repo:push")
                .header("X-Hook-UUID", "hook-1")
                .header("X-Request-UUID", ctx.uuid())
                .header("X-Attempt-Number", "1")
                .event([&ctx.uuid()], ["repo:push"])
        }),
        plain!("gitea-forgejo", "X-Gitea-Signature", "", |ctx| {
            let body = json!({"ref": "refs/heads/develop", "before": "28e1879d", "after": "bffeb741", "commits": [],
                "repository": {"id": 140, "full_name": "gitea/webhooks"}});
            ctx.json(body)
                .header("X-Gitea-Event", "push")
                .header("X-Gitea-Delivery", ctx.uuid())
                .event([&ctx.uuid()], ["push"])
        }),
        plain!("gitea-forgejo", "X-Forgejo-Signature", "", |ctx| {
            ctx.json(json!({"ref": "refs/heads/main", "repository": {"id": 140}}))
                .header("X-Forgejo-Event", "push")
                .header("X-Forgejo-Delivery", ctx.uuid())
                .event([&ctx.uuid()], [])
        })
        .form("forgejo headers alone"),
        plain!("jira-cloud", "X-Hub-Signature", "sha256=", |ctx| {
            let body = json!({"timestamp": ctx.now * 1000, "webhookEvent": "jira:issue_updated", "issue_event_type_name": "issue_generic",
                "issue": {"id": "99291", "key": "JRA-20002", "fields": {"summary": "I feel the need for speed"}}});
            ctx.json(body)
                .header("X-Atlassian-Webhook-Identifier", ctx.uuid())
                .event([&ctx.uuid()], ["jira:issue_updated"])
        })
        .rejects("the prefix sha1", |ctx, capture| {
            capture.set("X-Hub-Signature", format!("sha1={}", hex1(&ctx.secret, &[&capture.body])));
        }),
    ]
}

fn tools() -> Vec<Case> {
    vec![
        plain!("sentry", "Sentry-Hook-Signature", "", |ctx| {
            let body = json!({"action": "created", "installation": {"uuid": "i-1"}, "actor": {"type": "application", "id": "sentry"},
                "data": {"issue": {"id": "1170820242", "title": "TypeError"}}});
            ctx.json(body)
                .header("Sentry-Hook-Resource", "issue")
                .header("Sentry-Hook-Timestamp", ctx.seconds())
                .header("Request-ID", ctx.uuid())
                .event([&ctx.uuid()], ["issue.created"])
        })
        .accepts("an old timestamp that nobody signed", |_, capture| capture.set("Sentry-Hook-Timestamp", "1000000000")),
        plain!("linear", "Linear-Signature", "", |ctx| {
            let body = json!({"action": "update", "type": "Issue", "createdAt": "2027-01-15T07:59:59.000Z", "webhookId": "w-1",
                "data": {"id": "i-1", "title": "Fix it", "updatedAt": "2027-01-15T07:59:59.000Z"}, "webhookTimestamp": ctx.now * 1000});
            ctx.json(body)
                .header("Linear-Delivery", ctx.uuid())
                .header("Linear-Event", "Issue")
                .header("Linear-Timestamp", ctx.millis())
                .event([&ctx.uuid()], ["Issue.update"])
        })
        .window(60)
        .accepts("an old Linear-Timestamp that nobody signed", |_, capture| capture.set("Linear-Timestamp", "1000000000000"))
        .rejects("old, with a fresh Linear-Timestamp", |ctx, capture| {
            capture.at += 61;
            capture.set("Linear-Timestamp", ((ctx.now + 61) * 1000).to_string());
        }),
        plain!("dropbox", "X-Dropbox-Signature", "", |ctx| {
            let body = json!({"list_folder": {"accounts": [ctx.id("dbid:AAH4f99T0taONIb-Ou")]}, "delta": {"users": [12345]}});
            ctx.json(body).event_by(Id::Arrival, [""])
        }),
        plain!("notion", "X-Notion-Signature", "sha256=", |ctx| {
            let body = json!({"id": ctx.uuid(), "timestamp": "2027-01-15T07:59:59.000Z", "workspace_id": "w-1", "attempt_number": 1,
                "type": "page.created", "entity": {"id": "p-1", "type": "page"}, "data": {"parent": {"id": "p-0", "type": "page"}}});
            ctx.json(body).event([&ctx.uuid()], ["page.created"])
        })
        .secrets("secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl", "secret_of_somebody_else_entirely_0123456789"),
        plain!("onfido", "X-SHA2-Signature", "", |ctx| {
            let completed = "2027-01-15T07:59:59Z";
            let body = json!({"payload": {"resource_type": "check", "action": "check.completed",
                "object": {"id": ctx.uuid(), "status": "complete", "completed_at_iso8601": completed, "href": "https://api.eu.onfido.com/v3.6/checks/1"}}});
            ctx.json(body).event(["check.completed", &ctx.uuid(), completed], ["check.completed"])
        }),
        plain!("easypost", "X-Hmac-Signature", "hmac-sha256-hex=", |ctx| {
            let body = json!({"id": ctx.id("evt_"), "object": "Event", "description": "tracker.updated", "mode": "test", "status": "pending",
                "result": {"id": "trk_1", "status": "in_transit", "updated_at": "2027-01-15T07:59:59Z", "weight": 17.0}});
            ctx.json(body).event([&ctx.id("evt_")], ["tracker.updated"])
        }),
        plain!("pusher", "X-Pusher-Signature", "", |ctx| {
            let time = (ctx.now * 1000 + i64::from(ctx.number)).to_string();
            let body = json!({"time_ms": ctx.now * 1000 + i64::from(ctx.number),
                "events": [{"channel": "presence-room", "name": "channel_occupied"}, {"channel": "presence-hall", "name": "channel_vacated"}]});
            let id = |name: &str, channel: &str| Id::OneOf(vec![Id::parts([&time, name, channel]), Id::Digest]);
            ctx.json(body)
                .header("X-Pusher-Key", "278d425bdf160c739803")
                .event_by(id("channel_occupied", "presence-room"), ["channel_occupied"])
                .event_by(id("channel_vacated", "presence-hall"), ["channel_vacated"])
        })
        .setting("app_key", "278d425bdf160c739803")
        .rejects("another app key", |_, capture| capture.set("X-Pusher-Key", "0000005bdf160c739803"))
        .rejects("without an app key", |_, capture| capture.remove("X-Pusher-Key")),
    ]
}

fn legacy() -> Vec<Case> {
    vec![
        legacy!("vercel", "x-vercel-signature", "", |ctx| {
            let body = json!({"id": ctx.id("evt_"), "type": "deployment.succeeded", "createdAt": ctx.now * 1000, "region": "sfo1",
                "payload": {"deployment": {"id": "dpl_1", "name": "my-project"}}});
            ctx.json(body).event([&ctx.id("evt_")], ["deployment.succeeded"])
        }),
        legacy!("intercom", "X-Hub-Signature", "sha1=", |ctx| {
            let body = json!({"type": "notification_event", "app_id": "a86dr8yl", "id": ctx.id("notif_"), "topic": "conversation.user.created",
                "delivery_status": "pending", "delivery_attempts": 1, "created_at": ctx.now, "data": {"type": "notification_event_data", "item": {"id": "123"}}});
            ctx.json(body).event([&ctx.id("notif_")], ["conversation.user.created"])
        }),
        legacy!("segment", "X-Signature", "", |ctx| {
            let body = json!({"messageId": ctx.id("ajs-"), "type": "track", "event": "Order Completed", "userId": "u-1",
                "timestamp": "2027-01-15T07:59:59.000Z", "properties": {"revenue": 39.95}});
            ctx.json(body).event([&ctx.id("ajs-")], ["track", "Order Completed", "track.Order Completed"])
        }),
    ]
}
