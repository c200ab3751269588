//! Signatures over the URL, alone, with the body, or with the fields of a form.

use ring::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256};
use serde_json::json;

use super::crypto::{base1, base64, base256, form, form_encode, hex, mac, sha1, sha256};
use super::{Capture, Case, Ctx};

const FORM: &str = "application/x-www-form-urlencoded";

pub(super) fn cases() -> Vec<Case> {
    [url_and_body(), pairs(), vec![braintree()]].concat()
}

fn url_and_body() -> Vec<Case> {
    vec![
        Case::new(
            "square",
            "x-square-hmacsha256-signature",
            |ctx| {
                let body = json!({"merchant_id": "6SSW7HV8K2ST5", "type": "payment.updated", "event_id": ctx.uuid(), "created_at": "2027-01-15T07:59:59Z",
                    "data": {"type": "payment", "id": "KkAkhdMsgzn59SM8A89WgKwekxLZY", "object": {"payment": {"id": "p", "version": 3}}}});
                ctx.json(body).event([&ctx.uuid()], ["payment.updated"])
            },
            |ctx, capture| {
                let mac = base256(&ctx.secret, &[ctx.url().as_bytes(), &capture.body]);
                capture.set("x-square-hmacsha256-signature", mac);
            },
        )
        .signs_url()
        .hmac(&HMAC_SHA256)
        .rejects("the body without the URL", |ctx, capture| {
            let mac = base256(&ctx.secret, &[&capture.body]);
            capture.set("x-square-hmacsha256-signature", mac);
        })
        .rejects("only the older SHA-1 header", |ctx, capture| {
            capture.remove("x-square-hmacsha256-signature");
            capture.set("x-square-signature", base1(&ctx.secret, &[ctx.url().as_bytes(), &capture.body]));
        }),
        Case::new(
            "trello",
            "X-Trello-Webhook",
            |ctx| {
                let body = json!({"action": {"id": ctx.id("51f9424bcd6e040f3c"), "type": "updateCard", "date": "2027-01-15T07:59:59.000Z", "data": {"card": {"id": "c"}}},
                    "model": {"id": "4d5ea62fd76aa1136000000c", "name": "Trello Development"}});
                ctx.json(body).event([&ctx.id("51f9424bcd6e040f3c")], ["updateCard"])
            },
            |ctx, capture| {
                let mac = base1(&ctx.secret, &[&capture.body, ctx.url().as_bytes()]);
                capture.set("X-Trello-Webhook", mac);
            },
        )
        .signs_url()
        .hmac(&HMAC_SHA1_FOR_LEGACY_USE_ONLY)
        .rejects("the body without the URL", |ctx, capture| {
            let mac = base1(&ctx.secret, &[&capture.body]);
            capture.set("X-Trello-Webhook", mac);
        }),
    ]
}

/// The URL and every name and value, sorted by name.
fn sign_pairs<T: AsRef<str>>(ctx: &Ctx, header: &str, fields: &[(&str, T)], capture: &mut Capture) {
    let mut sorted: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_ref())).collect();
    sorted.sort_unstable();
    let pairs: String = sorted.iter().flat_map(|(name, value)| [*name, *value]).collect();
    capture.set(header, base1(&ctx.secret, &[capture.url.as_bytes(), pairs.as_bytes()]));
}

fn status_fields(ctx: &Ctx) -> Vec<(&'static str, String)> {
    let fixed =
        [("MessageStatus", "delivered"), ("To", "+15558675310"), ("From", "+14017122661"), ("Body", "a b&c=d é")];
    let mut fields = vec![("MessageSid", ctx.id("SM"))];
    fields.extend(fixed.map(|(name, value)| (name, value.to_owned())));
    if ctx.filler_bytes > 0 {
        fields.extend(LOCATION.map(|(name, value)| (name, value.to_owned())));
        let missing = ctx.filler_bytes.saturating_sub(form(&fields).len() + "&Text=".len());
        fields.push(("Text", "some words ".chars().cycle().take(missing).collect()));
    }
    fields
}

/// What comes with an incoming message besides.
const LOCATION: [(&str, &str); 14] = [
    ("AccountSid", "AC0123456789abcdef0123456789abcdef"),
    ("ApiVersion", "2010-04-01"),
    ("FromCity", "SAN FRANCISCO"),
    ("FromCountry", "US"),
    ("FromState", "CA"),
    ("FromZip", "94107"),
    ("NumMedia", "0"),
    ("NumSegments", "1"),
    ("SmsSid", "SM0123456789abcdef0123456789abcdef"),
    ("SmsStatus", "received"),
    ("ToCity", "MOUNTAIN VIEW"),
    ("ToCountry", "US"),
    ("ToState", "CA"),
    ("ToZip", "94043"),
];

fn call_fields(sid: &str) -> [(&str, &str); 4] {
    [("CallSid", sid), ("CallStatus", "completed"), ("SequenceNumber", "2"), ("Caller", "+14158675310")]
}

fn pairs() -> Vec<Case> {
    vec![
        Case::new(
            "twilio",
            "X-Twilio-Signature",
            |ctx| {
                ctx.bytes(FORM, form(&status_fields(ctx)))
                    .header("I-Twilio-Idempotency-Token", ctx.uuid())
                    .event([&ctx.uuid()], ["delivered"])
            },
            |ctx, capture| sign_pairs(ctx, "X-Twilio-Signature", &status_fields(ctx), capture),
        )
        .signs_url()
        .hmac(&HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        Case::new(
            "twilio",
            "X-Twilio-Signature",
            |ctx| ctx.bytes(FORM, form(&status_fields(ctx))).event([&ctx.id("SM"), "delivered"], ["delivered"]),
            |ctx, capture| sign_pairs(ctx, "X-Twilio-Signature", &status_fields(ctx), capture),
        )
        .signs_url()
        .hmac(&HMAC_SHA1_FOR_LEGACY_USE_ONLY)
        .form("message without token"),
        Case::new(
            "twilio",
            "X-Twilio-Signature",
            |ctx| {
                ctx.bytes(FORM, form(&call_fields(&ctx.id("CA"))))
                    .event([&ctx.id("CA"), "completed", "2"], ["completed"])
            },
            |ctx, capture| sign_pairs(ctx, "X-Twilio-Signature", &call_fields(&ctx.id("CA")), capture),
        )
        .signs_url()
        .form("call without token"),
        event_streams(),
        mandrill(),
    ]
}

/// JSON: the query carries the body's hash, the signature covers the URL with it.
fn event_streams() -> Case {
    let draft = |ctx: &Ctx| {
        let (first, second) = (ctx.id("EZa"), ctx.id("EZb"));
        let event = |id: &str, kind: &str| {
            json!({"specversion": "1.0", "type": kind, "source": "/2010-04-01/Accounts/AC1/Messages/SM1", "id": id,
            "dataschema": "https://events-schemas.twilio.com/Messaging.MessageStatus/1", "datacontenttype": "application/json",
            "time": "2027-01-15T07:59:59.000Z", "subject": "SM1", "data": {"messageSid": "SM1", "messageStatus": "SENT"}})
        };
        let (sent, delivered) = ("com.twilio.messaging.message.sent", "com.twilio.messaging.message.delivered");
        ctx.json(json!([event(&first, sent), event(&second, delivered)]))
            .event([&first], [sent])
            .event([&second], [delivered])
    };
    Case::new("twilio-event-streams", "X-Twilio-Signature", draft, |ctx, capture| {
        capture.url = format!("{}?bodySHA256={}", ctx.url(), hex(&sha256(&capture.body)));
        capture.set("X-Twilio-Signature", base1(&ctx.secret, &[capture.url.as_bytes()]));
    })
    .signs_url()
    .rejects("the URL without the body's hash", |ctx, capture| {
        capture.url = ctx.url();
        capture.set("X-Twilio-Signature", base1(&ctx.secret, &[capture.url.as_bytes()]));
    })
    .rejects("another hash than the signed one", |ctx, capture| {
        capture.body.push(b' ');
        capture.url = format!("{}?bodySHA256={}", ctx.url(), hex(&sha256(&capture.body)));
    })
}

fn mandrill_events(ctx: &Ctx) -> String {
    let message = ctx.id("exampleaaaaaaaaaaaaaaaa");
    let event = |kind: &str| json!({"event": kind, "ts": ctx.now, "_id": message, "msg": {"_id": message, "state": "sent", "subject": "Grüße"}});
    ctx.filled(json!([event("send"), event("open")])).to_string()
}

/// The message's id is in every event about it: event and time belong to the key.
fn mandrill() -> Case {
    let draft = |ctx: &Ctx| {
        let (message, time) = (ctx.id("exampleaaaaaaaaaaaaaaaa"), ctx.seconds());
        ctx.bytes(FORM, form(&[("mandrill_events", &mandrill_events(ctx))]))
            .event([&message, "send", &time], ["send"])
            .event([&message, "open", &time], ["open"])
    };
    Case::new("mandrill", "X-Mandrill-Signature", draft, |ctx, capture| {
        sign_pairs(ctx, "X-Mandrill-Signature", &[("mandrill_events", &mandrill_events(ctx))], capture);
    })
    .signs_url()
    .hmac(&HMAC_SHA1_FOR_LEGACY_USE_ONLY)
}

const PUBLIC: &str = "integration_public_key";

/// `public|hex` pairs over the payload field, keyed by the SHA-1 of the private key.
fn braintree() -> Case {
    let draft = |ctx: &Ctx| {
        let (time, subject) = (ctx.rfc3339(""), ctx.id("sub"));
        let xml = format!(
            "<notification>\n  <timestamp type=\"datetime\">{time}</timestamp>\n  <kind>subscription_charged_successfully</kind>\n  \
             <subject>\n    <subscription>\n      <id>{subject}</id>\n      <status>Active</status>\n    </subscription>\n  </subject>\n</notification>\n"
        );
        let payload = format!("{}\n", base64(xml.as_bytes()));
        let kind = "subscription_charged_successfully";
        let mut capture = ctx.bytes(FORM, form(&[("bt_payload", &payload)])).event([kind, &subject, &time], [kind]);
        capture.inner_signature = payload;
        capture
    };
    Case::new("braintree", "", draft, |ctx, capture| {
        let payload = std::mem::take(&mut capture.inner_signature);
        let digest = hex(&mac(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &sha1(ctx.secret.as_bytes()), &[payload.as_bytes()]));
        capture.inner_signature = form_encode(&format!("{PUBLIC}|{digest}"));
        let signature = format!("bt_signature={}&", capture.inner_signature);
        capture.body.splice(0..0, signature.into_bytes());
    })
    .inner()
    .setting("public_key", PUBLIC)
    .accepts("somebody else's pair first", |_, capture| {
        let good = capture.inner_signature.clone();
        capture.replace(&good, &format!("{}{good}", form_encode(&format!("another_key|{}&", "0".repeat(40)))));
    })
    .rejects("the right digest under another public key", |_, capture| capture.replace(PUBLIC, "another_key"))
    .rejects("no signature field", |_, capture| {
        let good = format!("bt_signature={}&", capture.inner_signature);
        capture.replace(&good, "");
    })
}
