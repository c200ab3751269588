//! RSA under a certificate that the operator gives, so that nothing is fetched.

use serde_json::{Value, json};

use super::crypto::{base64, crc32, rsa256};
use super::jwt::{RSA, RSA_OTHER};
use super::{Capture, Case, Ctx};

pub(super) fn cases() -> Vec<Case> {
    vec![sns(), sns_version_one(), paypal()]
}

const TOPIC: &str = "arn:aws:sns:us-east-1:123456789012:orders";
const SNS: &str = include_str!("keys/sns.cert.pem");

fn notification(ctx: &Ctx, topic: &str) -> Value {
    json!({"Type": "Notification", "MessageId": ctx.uuid(), "TopicArn": topic, "Subject": "My First Message", "Message": "{\"order\":1}",
        "Timestamp": ctx.rfc3339(".000"), "SignatureVersion": "2", "Signature": "",
        "SigningCertURL": "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem",
        "UnsubscribeURL": "https://sns.us-east-1.amazonaws.com/?Action=Unsubscribe"})
}

/// Name and value of the signed fields, each on a line of its own.
fn sign_sns(ctx: &Ctx, capture: &mut Capture, mut message: Value) {
    let mut signed = String::new();
    for name in ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"] {
        if let Some(value) = message[name].as_str() {
            signed.push_str(&format!("{name}\n{value}\n"));
        }
    }
    capture.inner_signature = base64(&rsa256(&ctx.secret, signed.as_bytes()));
    message["Signature"] = json!(capture.inner_signature);
    capture.body = message.to_string().into_bytes();
}

fn sns_draft(ctx: &Ctx, id: &str) -> Capture {
    ctx.bytes("text/plain; charset=UTF-8", Vec::new())
        .header("x-amz-sns-message-type", "Notification")
        .header("x-amz-sns-message-id", id)
        .header("x-amz-sns-topic-arn", TOPIC)
        .event([id], ["Notification"])
}

fn sns() -> Case {
    Case::new(
        "aws-sns",
        "",
        |ctx| sns_draft(ctx, &ctx.uuid()),
        |ctx, capture| sign_sns(ctx, capture, notification(ctx, TOPIC)),
    )
    .key_pair(SNS, RSA, RSA_OTHER)
    .setting("topic_arn", TOPIC)
    .inner()
    .body_uncovered()
    .window(3600)
    .accepts("another unsubscribe address, which nobody signs", |_, capture| {
        capture.replace("?Action=Unsubscribe", "?Action=Other")
    })
    .accepts("without a subject", |ctx, capture| {
        let mut message = notification(ctx, TOPIC);
        message.as_object_mut().expect("an object").remove("Subject");
        sign_sns(ctx, capture, message);
    })
    .rejects("another message", |_, capture| capture.replace("order", "0rder"))
    .rejects("another subject", |_, capture| capture.replace("My First", "My Worst"))
    .rejects("a subject taken away", |_, capture| capture.replace("\"Subject\":\"My First Message\",", ""))
    .rejects("another time", |_, capture| capture.replace(":00.000Z", ":01.000Z"))
    .rejects("another id", |_, capture| capture.replace("7c9e6679", "7c9e6670"))
    .rejects("another topic, rightly signed by somebody's own topic", |ctx, capture| {
        sign_sns(ctx, capture, notification(ctx, "arn:aws:sns:us-east-1:999999999999:orders"));
    })
    .rejects("an unknown version", |_, capture| {
        capture.replace("\"SignatureVersion\":\"2\"", "\"SignatureVersion\":\"3\"")
    })
    .rejects("the digest of version 2 called version 1", |_, capture| {
        capture.replace("\"SignatureVersion\":\"2\"", "\"SignatureVersion\":\"1\"");
    })
}

/// Made once with `openssl dgst -sha1 -sign`: `ring` makes no RSA signatures over SHA-1.
const VERSION_ONE: &str = "AGTJNYf/xcWWIGiiLraJQrM3vi60eMx8jrwNuYC4nL1bTais5i7CSlVc55+ADjNHcOS9pT/urpgFIQ0PVHaqOCZDHiQIc5D5XTofSVDvnN76+08k\
    Bx5tZD7GsxMS3YTHDIPXfZ1RO04KT3NduKh8JJkyZD/ouripIcBD8r738C/XslZra37By6mGEj35XpzuYSgc9r3AxRWoFYta07z/esaScBX695Z/gnpw9XqzdoLay6yXAF7kIFFB\
    lN1l99xXsetoFGL5NSFwczFKB9BBBtABBjofnDGlj/wQeN49IFw9yns0i1Et+I5pJD2GS9hiVGnCw0jEUvfRNhfgXgBSoA==";

fn sns_version_one() -> Case {
    let draft = |ctx: &Ctx| {
        let mut message = notification(ctx, TOPIC);
        let id = "165545c9-2a5c-472c-8df2-7ff2be2b3b1b";
        message["MessageId"] = json!(id);
        message["Message"] = json!("hello from version one");
        message["Subject"] = json!("Version one");
        message["SignatureVersion"] = json!("1");
        message["Signature"] = json!(VERSION_ONE);
        let mut capture = sns_draft(ctx, id);
        capture.body = message.to_string().into_bytes();
        capture.inner_signature = VERSION_ONE.to_owned();
        capture
    };
    Case::new("aws-sns", "", draft, |ctx, capture| {
        if ctx.secret != RSA {
            capture.replace("hello from version one", "hello from somebody else");
        }
    })
    .form("version 1")
    .key_pair(SNS, RSA, RSA_OTHER)
    .setting("topic_arn", TOPIC)
    .inner()
    .body_uncovered()
    .window(3600)
    .rejects("the digest of version 1 called version 2", |_, capture| {
        capture.replace("\"SignatureVersion\":\"1\"", "\"SignatureVersion\":\"2\"");
    })
}

const WEBHOOK: &str = "8PT597110X687430LKGECATA";

fn sign_paypal(ctx: &Ctx, capture: &mut Capture, webhook: &str) {
    let message =
        format!("{}|{}|{webhook}|{}", capture.value("PAYPAL-TRANSMISSION-ID"), ctx.rfc3339(""), crc32(&capture.body));
    capture.set("PAYPAL-TRANSMISSION-SIG", base64(&rsa256(&ctx.secret, message.as_bytes())));
}

fn paypal() -> Case {
    let draft = |ctx: &Ctx| {
        let body = json!({"id": ctx.id("WH-2WR32451HC0233532-"), "event_version": "1.0", "create_time": "2027-01-15T07:59:59.000Z", "resource_type": "capture",
            "event_type": "PAYMENT.CAPTURE.COMPLETED", "resource": {"id": "2GG279541U471931P", "update_time": "2027-01-15T07:59:59Z", "status": "COMPLETED"}});
        ctx.json(body)
            .header("PAYPAL-TRANSMISSION-ID", "69cd13f0-d67a-11e5-baa3-778b53f4ae55")
            .header("PAYPAL-TRANSMISSION-TIME", ctx.rfc3339(""))
            .header("PAYPAL-CERT-URL", "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270")
            .header("PAYPAL-AUTH-ALGO", "SHA256withRSA")
            .event([&ctx.id("WH-2WR32451HC0233532-")], ["PAYMENT.CAPTURE.COMPLETED"])
    };
    Case::new("paypal", "PAYPAL-TRANSMISSION-SIG", draft, |ctx, capture| sign_paypal(ctx, capture, WEBHOOK))
        .key_pair(include_str!("keys/paypal.cert.pem"), RSA, RSA_OTHER)
        .setting("webhook_id", WEBHOOK)
        .window_of(3 * 86_400, Some(4 * 86_400), Some(86_400))
        .rejects("signed for another webhook", |ctx, capture| sign_paypal(ctx, capture, "0000000000000000LKGECATA"))
        .rejects("another transmission id", |_, capture| {
            capture.set("PAYPAL-TRANSMISSION-ID", "69cd13f0-0000-11e5-baa3-778b53f4ae55")
        })
        .rejects("another time than the signed one", |ctx, capture| {
            capture.set("PAYPAL-TRANSMISSION-TIME", super::crypto::rfc3339(ctx.now + 1, ""));
        })
        .rejects("another algorithm", |_, capture| capture.set("PAYPAL-AUTH-ALGO", "SHA1withRSA"))
}
