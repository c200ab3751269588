//! HMAC-SHA256 over the body alone, in base64.

use ring::hmac::HMAC_SHA256;
use serde_json::json;

use super::crypto::{base64, base256, hex256, mac};
use super::{Case, Ctx, Id};

pub(super) fn cases() -> Vec<Case> {
    [shops(), forms(), batches()].concat()
}

macro_rules! plain {
    ($slug:literal, $header:literal, $prefix:literal, $draft:expr) => {
        Case::new($slug, $header, $draft, |ctx, capture| {
            let mac = base256(&ctx.secret, &[&capture.body]);
            capture.set($header, format!(concat!($prefix, "{}"), mac));
        })
        .hmac(&HMAC_SHA256)
        .rejects("hex in place of base64", |ctx, capture| {
            let mac = hex256(&ctx.secret, &[&capture.body]);
            capture.set($header, format!(concat!($prefix, "{}"), mac));
        })
    };
}

const ADYEN: &str = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";

fn shops() -> Vec<Case> {
    vec![
        Case::new(
            "adyen-platform",
            "HmacSignature",
            |ctx| {
                let body = json!({"type": "balancePlatform.transfer.updated", "environment": "test", "timestamp": "2027-01-15T08:59:59+01:00",
                    "data": {"id": ctx.id("48"), "sequenceNumber": 3, "status": "captured", "balancePlatform": "YOUR_PLATFORM"}});
                let kind = "balancePlatform.transfer.updated";
                ctx.json(body).header("Protocol", "HmacSHA256").event([&ctx.id("48"), kind, "3"], [kind])
            },
            |ctx, capture| {
                let key = data_encoding::HEXUPPER.decode(ctx.secret.as_bytes()).expect("a hex secret");
                capture.set("HmacSignature", base64(&mac(HMAC_SHA256, &key, &[&capture.body])));
            },
        )
        .secrets(ADYEN, "00002DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056")
        .hmac(&HMAC_SHA256)
        .rejects("keyed by the text of the secret", |ctx, capture| {
            capture.set("HmacSignature", base256(&ctx.secret, &[&capture.body]));
        }),
        plain!("shopify", "X-Shopify-Hmac-Sha256", "", |ctx| {
            ctx.json(json!({"id": ctx.number_id(), "email": "jon@example.com", "updated_at": "2027-01-15T07:59:59-05:00", "total_price": "403.00"}))
                .header("X-Shopify-Topic", "orders/create")
                .header("X-Shopify-Webhook-Id", ctx.uuid())
                .header("X-Shopify-Event-Id", "98880550-7158-44d4-b7cd-2c97c8a091b5")
                .header("X-Shopify-Shop-Domain", "example.myshopify.com")
                .header("X-Shopify-Triggered-At", "2027-01-15T07:59:59.000000000Z")
                .event([&ctx.uuid()], ["orders/create"])
        })
        .accepts("an old time that nobody signed", |_, capture| capture.set("X-Shopify-Triggered-At", "2001-01-01T00:00:00Z")),
        plain!("shopify-events", "Shopify-Hmac-Sha256", "", |ctx| {
            ctx.json(json!({"product": {"id": "gid://shopify/Product/1"}, "fields_changed": ["title"]}))
                .header("Shopify-Topic", "Product")
                .header("Shopify-Action", "update")
                .header("Shopify-Webhook-Id", ctx.uuid())
                .header("Shopify-Resource-Id", "gid://shopify/Product/1")
                .event([&ctx.uuid()], [])
        }),
        plain!("woocommerce", "X-WC-Webhook-Signature", "", |ctx| {
            ctx.json(json!({"id": ctx.number_id(), "status": "processing", "date_modified_gmt": "2027-01-15T07:59:59", "total": "29.35"}))
                .header("X-WC-Webhook-Topic", "order.updated")
                .header("X-WC-Webhook-Resource", "order")
                .header("X-WC-Webhook-ID", "142")
                .header("X-WC-Webhook-Delivery-ID", ctx.id("d"))
                .event([&ctx.id("d")], ["order.updated"])
        }),
        plain!("xero", "x-xero-signature", "", |ctx| {
            let (first, second, when) = (ctx.uuid(), ctx.id("c-"), "2027-01-15T07:59:59.000");
            let event = |id: &str, category: &str, kind: &str| json!({"resourceUrl": "https://api.xero.com/api.xro/2.0/X/1", "resourceId": id,
                "eventDateUtc": when, "eventType": kind, "eventCategory": category, "tenantId": "t-1", "tenantType": "ORGANISATION"});
            let body = json!({"events": [event(&first, "INVOICE", "UPDATE"), event(&second, "CONTACT", "CREATE")],
                "firstEventSequence": 1, "lastEventSequence": 2, "entropy": "S0m3r4nd0mt3xt"});
            ctx.json(body)
                .event([&first, "UPDATE", when], ["INVOICE.UPDATE"])
                .event([&second, "CREATE", when], ["CONTACT.CREATE"])
        }),
    ]
}

fn forms() -> Vec<Case> {
    vec![
        plain!("typeform", "Typeform-Signature", "sha256=", |ctx| {
            let body = json!({"event_id": ctx.id("LtWXD3crgy"), "event_type": "form_response",
                "form_response": {"form_id": "lT4Z3j", "token": "a3a12ec67a1365927098a606107fac15", "answers": [{"type": "number", "number": 42}]}});
            ctx.json(body).event([&ctx.id("LtWXD3crgy")], ["form_response"])
        }),
        plain!("tally", "Tally-Signature", "", |ctx| {
            let body = json!({"eventId": ctx.uuid(), "eventType": "FORM_RESPONSE", "createdAt": "2027-01-15T07:59:59.000Z",
                "data": {"responseId": "2wgx4n", "formId": "VwbNEw", "fields": []}});
            ctx.json(body).event([&ctx.uuid()], ["FORM_RESPONSE"])
        }),
        docusign(),
    ]
}

/// One header per live key; any of them may be the one we know.
fn docusign() -> Case {
    plain!("docusign-connect", "X-DocuSign-Signature-1", "", |ctx| {
        let (envelope, when) = (ctx.uuid(), "2027-01-15T07:59:59.0000000Z");
        let body = json!({"event": "envelope-completed", "apiVersion": "v2.1", "generatedDateTime": when, "retryCount": 0,
            "data": {"accountId": "a-1", "envelopeId": envelope, "envelopeSummary": {"status": "completed"}}});
        ctx.json(body).event([&envelope, "envelope-completed", when], ["envelope-completed"])
    })
    .accepts("the second of two keys", |ctx, capture| {
        capture.set("X-DocuSign-Signature-1", base256("the older key", &[&capture.body]));
        capture.set("X-DocuSign-Signature-2", base256(&ctx.secret, &[&capture.body]));
    })
    .accepts("the last of many keys", |ctx, capture| {
        for number in 1..=60 {
            let key = if number == 60 { ctx.secret.clone() } else { format!("key {number}") };
            capture.set(&format!("X-DocuSign-Signature-{number}"), base256(&key, &[&capture.body]));
        }
    })
    .rejects("more keys than there can be", |ctx, capture| {
        for number in 1..=101 {
            capture.set(&format!("X-DocuSign-Signature-{number}"), base256(&ctx.secret, &[&capture.body]));
        }
    })
    .rejects("two keys, both wrong", |_, capture| {
        capture.set("X-DocuSign-Signature-1", base256("the older key", &[&capture.body]));
        capture.set("X-DocuSign-Signature-2", base256("another key", &[&capture.body]));
    })
}

fn batches() -> Vec<Case> {
    vec![
        plain!("line", "X-Line-Signature", "", |ctx| {
            let (first, second) = (ctx.id("01FZ"), ctx.id("02FZ"));
            let event = |id: &str, kind: &str| {
                json!({"type": kind, "mode": "active", "timestamp": ctx.now * 1000, "webhookEventId": id,
                "source": {"type": "user", "userId": "U4af4980629"}, "deliveryContext": {"isRedelivery": false}, "replyToken": "nHuyWiB7yP5Zw52F"})
            };
            ctx.json(
                json!({"destination": "xxxxxxxxxx", "events": [event(&first, "message"), event(&second, "follow")]}),
            )
            .event([&first], ["message"])
            .event([&second], ["follow"])
        }),
        plain!("x-twitter", "x-twitter-webhooks-signature", "sha256=", |ctx| {
            let id = ctx.number_id().to_string();
            let body = json!({"for_user_id": "2244994945", "tweet_create_events": [{"created_at": "Fri Jan 15 07:59:59 +0000 2027",
                "id": ctx.number_id(), "id_str": id, "text": "hello", "user": {"id_str": "1"}}]});
            let one = Id::OneOf(vec![Id::parts([&id]), Id::parts(["tweet_create_events", &id]), Id::Digest]);
            ctx.json(body).event_by(one, ["tweet_create_events"])
        }),
        plain!("quickbooks", "intuit-signature", "", |ctx| {
            let (first, second) = (ctx.uuid(), ctx.id("b-"));
            let event = |id: &str, kind: &str| {
                json!({"specversion": "1.0", "id": id, "source": "intuit.dsnBgbseACLLRZNxo2dfc4evmEJdxde58xeeYcZliOU=",
                "type": kind, "datacontenttype": "application/json", "time": "2027-01-15T07:59:59Z", "intuitentityid": "1234",
                "intuitaccountid": "310687", "data": {}})
            };
            ctx.json(json!([event(&first, "qbo.customer.created.v1"), event(&second, "qbo.invoice.updated.v1")]))
                .event([&first], ["qbo.customer.created.v1"])
                .event([&second], ["qbo.invoice.updated.v1"])
        }),
        plain!("quickbooks", "intuit-signature", "", |ctx| {
            let (id, when) = (ctx.id(""), "2027-01-15T07:59:59.000Z");
            let entity =
                |operation: &str| json!({"name": "Customer", "id": id, "operation": operation, "lastUpdated": when});
            let body = json!({"eventNotifications": [{"realmId": "1185883450",
                "dataChangeEvent": {"entities": [entity("Create"), entity("Update")]}}]});
            ctx.json(body)
                .event(["1185883450", "Customer", &id, "Create", when], [])
                .event(["1185883450", "Customer", &id, "Update", when], [])
        })
        .form("legacy"),
        plain!("ably", "X-Ably-Signature", "", ably)
            .setting("app_key", "xVLyHw.DQrNxQ")
            .rejects("another key id", |_, capture| capture.set("X-Ably-Key", "xVLyHw.000000"))
            .rejects("without a key id", |_, capture| capture.remove("X-Ably-Key")),
    ]
}

/// Messages lie two lists deep.
fn ably(ctx: &Ctx) -> super::Capture {
    let (first, second) = (ctx.id("ABcDe:0:"), ctx.id("ABcDe:1:"));
    let item = |id: &str| {
        json!({"webhookId": "w-1", "source": "channel.message", "timestamp": ctx.now * 1000, "serial": "a7bcdEFghIjklm",
        "name": "channel.message", "data": {"channelId": "chat", "site": "eu-west-1-A", "messages": [{"id": id, "clientId": "c", "name": "hello", "data": "hi"}]}})
    };
    ctx.json(json!({"items": [item(&first), item(&second)]}))
        .header("X-Ably-Version", "1.2")
        .header("X-Ably-Key", "xVLyHw.DQrNxQ")
        .event([&first], ["channel.message"])
        .event([&second], ["channel.message"])
}
