//! Signatures inside the body that cover a part of it only: what is not covered is not promised.

use ring::hmac::HMAC_SHA256;
use serde_json::{Value, json};

use super::crypto::{base64, hex256, mac};
use super::{Capture, Case, Ctx};

pub(super) fn cases() -> Vec<Case> {
    vec![adyen(), mailgun(), dropbox_sign()]
}

const ADYEN: &str = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";

fn adyen_item(reference: &str, code: &str, success: &str) -> Value {
    json!({"additionalData": {"hmacSignature": ""}, "amount": {"currency": "EUR", "value": 1130}, "eventCode": code, "eventDate": "2027-01-15T08:59:59+01:00",
        "merchantAccountCode": "TestMerchant", "merchantReference": "TestPayment-1407325143704", "originalReference": "", "paymentMethod": "visa",
        "pspReference": reference, "reason": "", "success": success})
}

/// The eight values of an item, joined by colons.
fn sign_adyen(secret: &str, item: &mut Value) -> String {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let signed = [
        text("pspReference"),
        text("originalReference"),
        text("merchantAccountCode"),
        text("merchantReference"),
        item["amount"]["value"].to_string(),
        item["amount"]["currency"].as_str().unwrap_or_default().to_owned(),
        text("eventCode"),
        text("success"),
    ]
    .join(":");
    let key = data_encoding::HEXUPPER.decode(secret.as_bytes()).expect("a hex secret");
    let signature = base64(&mac(HMAC_SHA256, &key, &[signed.as_bytes()]));
    item["additionalData"]["hmacSignature"] = json!(signature);
    signature
}

fn adyen() -> Case {
    let draft = |ctx: &Ctx| {
        let reference = ctx.id("79140733");
        let items = [adyen_item(&reference, "AUTHORISATION", "true"), adyen_item(&reference, "CAPTURE", "false")];
        let items: Vec<Value> = items.into_iter().map(|item| json!({"NotificationRequestItem": item})).collect();
        ctx.json(json!({"live": "false", "notificationItems": items}))
            .event([&reference, "AUTHORISATION", "true"], ["AUTHORISATION"])
            .event([&reference, "CAPTURE", "false"], ["CAPTURE"])
    };
    Case::new("adyen-standard", "", draft, |ctx, capture| {
        let mut body: Value = serde_json::from_slice(&capture.body).expect("a JSON draft");
        for item in body["notificationItems"].as_array_mut().expect("a list") {
            capture.inner_signature = sign_adyen(&ctx.secret, &mut item["NotificationRequestItem"]);
        }
        capture.body = body.to_string().into_bytes();
    })
    .secrets(ADYEN, "00002DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056")
    .inner()
    .body_uncovered()
    .accepts("another date, which nobody signs", |_, capture| {
        capture.replace("2027-01-15T08:59:59", "2027-01-16T08:59:59")
    })
    .accepts("JSON with other white space, for only values are signed", |_, capture| {
        capture.replace("{\"live\":", "{ \"live\": ")
    })
    .rejects("another outcome", |_, capture| capture.replace("\"success\":\"false\"", "\"success\":\"true\""))
    .rejects("another amount", |_, capture| capture.replace("1130", "1131"))
    .rejects("another reference", |_, capture| capture.replace("79140733", "79140734"))
    .rejects("another merchant", |_, capture| capture.replace("TestMerchant", "BestMerchant"))
    .rejects("another event code", |_, capture| capture.replace("\"CAPTURE\"", "\"REFUND\""))
    .rejects("an empty batch", |_, capture| capture.body = br#"{"live":"false","notificationItems":[]}"#.to_vec())
    .rejects("no items", |_, capture| capture.body = br#"{"live":"false"}"#.to_vec())
    .rejects("one item without a signature", |_, capture| {
        let signed = format!("\"hmacSignature\":\"{}\"", capture.inner_signature);
        capture.replace(&signed, "\"other\":\"1\"");
    })
}

/// Time and token are signed, the event is not.
fn mailgun() -> Case {
    let draft = |ctx: &Ctx| {
        let id = ctx.id("Ase7i2zsRYeDXztHGENqRA");
        let body = json!({"signature": {"timestamp": ctx.seconds(), "token": "a8ce0edb2dd8301dee6c2405235584e45aa91d1e9f979f3de0", "signature": ""},
            "event-data": {"event": "delivered", "id": id, "timestamp": 1_799_999_999.37, "message": {"headers": {"message-id": "20130503182626@example.com"}}}});
        ctx.json(body).event([&id], ["delivered"])
    };
    Case::new("mailgun", "", draft, |ctx, capture| {
        let token = b"a8ce0edb2dd8301dee6c2405235584e45aa91d1e9f979f3de0";
        capture.inner_signature = hex256(&ctx.secret, &[ctx.seconds().as_bytes(), token]);
        let signature = format!("\"signature\":\"{}\"", capture.inner_signature);
        capture.replace("\"signature\":\"\"", &signature);
    })
    .inner()
    .body_uncovered()
    .hmac(&HMAC_SHA256)
    .window_of_ours()
    .accepts("another message, which nobody signs", |_, capture| capture.replace("20130503182626", "20130503182627"))
    .rejects("another token", |_, capture| capture.replace("a8ce0edb", "a8ce0edc"))
    .rejects("another time", |ctx, capture| capture.replace(&ctx.seconds(), &(ctx.now + 1).to_string()))
    .rejects("a byte moved from the token to the time", |ctx, capture| {
        capture.replace(&format!("{}\"", ctx.seconds()), &format!("{}a\"", ctx.seconds()));
        capture.replace("\"a8ce0edb", "\"8ce0edb");
    })
    .rejects("no signature at all", |_, capture| capture.replace("\"signature\":{", "\"other\":{"))
}

/// Time and type are signed, the document is not.
fn dropbox_sign() -> Case {
    let draft = |ctx: &Ctx| {
        let request = ctx.id("fa5c8a0b0f492d768749333ad6fcc214c111e967");
        let event = json!({"event": {"event_time": ctx.seconds(), "event_type": "signature_request_signed", "event_hash": "",
            "event_metadata": {"related_signature_id": "s"}}, "signature_request": {"signature_request_id": request, "title": "NDA"}});
        let boundary = "----------------------------5b7e3a4c5b8d";
        let body = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n{event}\r\n--{boundary}--\r\n"
        );
        ctx.bytes(&format!("multipart/form-data; boundary={boundary}"), body.into_bytes())
            .event(["signature_request_signed", &ctx.seconds(), &request], ["signature_request_signed"])
    };
    Case::new("dropbox-sign", "", draft, |ctx, capture: &mut Capture| {
        capture.inner_signature = hex256(&ctx.secret, &[ctx.seconds().as_bytes(), b"signature_request_signed"]);
        let signature = format!("\"event_hash\":\"{}\"", capture.inner_signature);
        capture.replace("\"event_hash\":\"\"", &signature);
    })
    .inner()
    .body_uncovered()
    .window_of(31 * 3600, Some(48 * 3600), Some(3600))
    .accepts("another title, which nobody signs", |_, capture| capture.replace("NDA", "NDB"))
    .rejects("another type", |_, capture| capture.replace("signature_request_signed", "signature_request_declined"))
    .rejects("another time", |ctx, capture| capture.replace(&ctx.seconds(), &(ctx.now + 1).to_string()))
}
