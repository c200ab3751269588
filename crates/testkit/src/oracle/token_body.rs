//! Shared tokens in the body or the URL.

use serde_json::json;

use super::crypto::form;
use super::{Case, Ctx, Id, QUERY_FIELD};

pub(super) fn cases() -> Vec<Case> {
    vec![figma(), graph(), event_grid(), mailchimp()]
}

fn figma() -> Case {
    let draft = |ctx: &Ctx| {
        let (when, file) = ("2027-01-15T07:59:59Z", ctx.id("zH5ipJ7Vfwqe"));
        let body = json!({"event_type": "FILE_UPDATE", "file_key": file, "file_name": "f", "passcode": ctx.secret, "timestamp": when, "webhook_id": "22"});
        let mut capture = ctx.json(body).event(["22", "FILE_UPDATE", when, &file], ["FILE_UPDATE"]);
        capture.inner_signature = ctx.secret.clone();
        capture
    };
    Case::new("figma", "", draft, |_, _| {})
        .inner()
        .body_uncovered()
        .rejects("no passcode", |_, capture| capture.replace("\"passcode\"", "\"other\""))
        .rejects("the passcode twice, a wrong one first", |_, capture| {
            capture.replace("\"passcode\"", "\"passcode\":\"x\",\"passcode\"")
        })
}

/// Every element carries the secret; one without it spoils the whole request.
fn graph() -> Case {
    let draft = |ctx: &Ctx| {
        let (first, second) = (ctx.uuid(), ctx.id("n-"));
        let notice = |id: &str, state: &str| {
            json!({"id": id, "subscriptionId": "s-1", "clientState": state, "changeType": "updated", "resource": "Users/1/Messages/2",
            "subscriptionExpirationDateTime": "2027-01-16T08:00:00Z", "tenantId": "t-1", "resourceData": {"id": "2", "@odata.etag": "W/\"C\""}})
        };
        ctx.json(json!({"value": [notice(&first, &ctx.secret), notice(&second, &ctx.secret)]}))
            .event([&first], ["updated"])
            .event([&second], ["updated"])
    };
    Case::new("microsoft-graph", "", draft, |ctx, capture| capture.inner_signature = ctx.secret.clone())
        .inner()
        .body_uncovered()
        .rejects("one notice with another state", |ctx, capture| {
            let text = String::from_utf8(capture.body.clone()).expect("text");
            capture.body = text.replacen(&ctx.secret, "another", 1).into_bytes();
        })
        .rejects("one notice without a state", |_, capture| {
            let text = String::from_utf8(capture.body.clone()).expect("text");
            capture.body = text.replacen("\"clientState\"", "\"other\"", 1).into_bytes();
        })
}

/// The facts say "query key" and leave its name open, so the test asks the source for it.
fn event_grid() -> Case {
    let draft = |ctx: &Ctx| {
        let (first, second, topic) = (
            ctx.uuid(),
            ctx.id("g-"),
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a",
        );
        let event = |id: &str| {
            json!({"id": id, "topic": topic, "subject": "/blobServices/default/containers/c/blobs/b", "eventType": "Microsoft.Storage.BlobCreated",
            "eventTime": "2027-01-15T07:59:59.0000000Z", "data": {"api": "PutBlockList"}, "dataVersion": "", "metadataVersion": "1"})
        };
        ctx.json(json!([event(&first), event(&second)]))
            .header("aeg-event-type", "Notification")
            .event([&first, topic], ["Microsoft.Storage.BlobCreated"])
            .event([&second, topic], ["Microsoft.Storage.BlobCreated"])
    };
    Case::new("azure-event-grid", "", draft, |ctx, capture| {
        capture.url = format!("{}?{QUERY_FIELD}={}", ctx.url(), ctx.secret);
        capture.inner_signature = ctx.secret.clone();
    })
    .inner()
    .body_uncovered()
    .rejects("no key", |ctx, capture| capture.url = ctx.url())
    .rejects("the key twice, a wrong one first", |ctx, capture| {
        capture.url = format!("{}?{QUERY_FIELD}=x&{QUERY_FIELD}={}", ctx.url(), ctx.secret)
    })
}

/// No signature at all: the token at the end of the URL is all there is.
fn mailchimp() -> Case {
    let draft = |ctx: &Ctx| {
        let (id, when) = (ctx.id("8a25ff1d98"), "2027-01-15 07:59:59");
        let body = form(&[
            ("type", "subscribe"),
            ("fired_at", when),
            ("data[id]", &id),
            ("data[email]", "api@example.com"),
            ("data[list_id]", "a6b5da1054"),
        ]);
        ctx.bytes("application/x-www-form-urlencoded", body)
            .event_by(Id::parts(["subscribe", &id, when]), ["subscribe"])
    };
    Case::new("mailchimp", "", draft, |ctx, capture| {
        capture.url = format!("{}/{}", ctx.url(), ctx.secret);
        capture.inner_signature = ctx.secret.clone();
    })
    .by_path()
    .body_uncovered()
}
