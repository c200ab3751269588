//! Ed25519 and ECDSA over a time and the body.

use serde_json::json;

use super::crypto::{base64, ed25519, hex, p256_der};
use super::{Case, Ctx};

pub(super) fn cases() -> Vec<Case> {
    vec![sendgrid(), discord(), telnyx()]
}

pub(super) const P256: &str = include_str!("keys/p256_first.pem");
pub(super) const P256_OTHER: &str = include_str!("keys/p256_second.pem");
/// The public halves of the pairs made from the words `discord` and `telnyx`, checked by a test below.
const DISCORD: &str = "a6fbf9fc39e1cd92a49b2e6860095d34a9047319ddd56904792e428da60f901b";
const TELNYX: &str = "e0czfzyCe4uREbvYZCLA6kbLf8x2mpdYhFZ738iGviw=";
const SENDGRID: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEyxLFM8ef0XudIB1IQKzR/BlrQYK3i+JQF5mcz4kU+BrnnVPTAcy+QoG9DWZLCRTXoLBm24D7naOeFtsBASKjuw==";

/// `[{…},{…}]` ending in a line break, as the vendor sends it.
fn sendgrid() -> Case {
    let draft = |ctx: &Ctx| {
        let (first, second) = (ctx.id("sg_a"), ctx.id("sg_b"));
        let event = |id: &str, kind: &str| json!({"email": "example@test.com", "timestamp": ctx.now, "event": kind, "sg_event_id": id, "sg_message_id": "14c5d75ce93.dfd"});
        let mut capture = ctx.json(json!([event(&first, "processed"), event(&second, "open")]));
        capture.body.extend_from_slice(b"\r\n");
        capture.event([&first], ["processed"]).event([&second], ["open"])
    };
    Case::new("sendgrid", "X-Twilio-Email-Event-Webhook-Signature", draft, |ctx, capture| {
        let message = [ctx.seconds().as_bytes(), &capture.body].concat();
        capture.set("X-Twilio-Email-Event-Webhook-Timestamp", ctx.seconds());
        capture.set("X-Twilio-Email-Event-Webhook-Signature", base64(&p256_der(&ctx.secret, &message)));
    })
    .key_pair(SENDGRID, P256, P256_OTHER)
    .window_of_ours()
    .rejects("a byte moved from the body to the time", |_, capture| {
        let first = char::from(capture.body.remove(0));
        let time = format!("{}{first}", capture.value("X-Twilio-Email-Event-Webhook-Timestamp"));
        capture.set("X-Twilio-Email-Event-Webhook-Timestamp", time);
    })
    .rejects("the public key as an HMAC key", |ctx, capture| {
        let mac = super::crypto::base256(SENDGRID, &[ctx.seconds().as_bytes(), &capture.body]);
        capture.set("X-Twilio-Email-Event-Webhook-Signature", mac);
    })
}

fn discord() -> Case {
    let draft = |ctx: &Ctx| {
        let body = json!({"id": ctx.id("7713"), "application_id": "1", "type": 2, "token": "A_UNIQUE_TOKEN", "data": {"id": "2", "name": "cardsearch"}, "version": 1});
        ctx.json(body).event([&ctx.id("7713")], ["2"])
    };
    Case::new("discord-interactions", "X-Signature-Ed25519", draft, |ctx, capture| {
        let message = [ctx.seconds().as_bytes(), &capture.body].concat();
        capture.set("X-Signature-Timestamp", ctx.seconds());
        capture.set("X-Signature-Ed25519", hex(ed25519(&ctx.secret).sign(&message).as_ref()));
    })
    .key_pair(DISCORD, "discord", "somebody else")
    .window_of_ours()
    .rejects("the public key as an HMAC key", |ctx, capture| {
        let mac = super::crypto::hex256(DISCORD, &[ctx.seconds().as_bytes(), &capture.body]);
        capture.set("X-Signature-Ed25519", mac);
    })
}

fn telnyx() -> Case {
    let draft = |ctx: &Ctx| {
        let body = json!({"data": {"record_type": "event", "event_type": "message.received", "id": ctx.uuid(), "occurred_at": "2027-01-15T07:59:59.000Z",
            "payload": {"id": "m-1", "text": "hi"}}, "meta": {"attempt": 1, "delivered_to": "https://example.com/webhooks"}});
        ctx.json(body).event([&ctx.uuid()], ["message.received"])
    };
    Case::new("telnyx", "telnyx-signature-ed25519", draft, |ctx, capture| {
        let message = [ctx.seconds().as_bytes(), b"|", &capture.body].concat();
        capture.set("telnyx-timestamp", ctx.seconds());
        capture.set("telnyx-signature-ed25519", base64(ed25519(&ctx.secret).sign(&message).as_ref()));
    })
    .key_pair(TELNYX, "telnyx", "somebody else")
    .window(300)
}

#[cfg(test)]
mod tests {
    use ring::signature::KeyPair;

    use super::*;

    #[test]
    fn the_public_halves_belong_to_the_private_ones() {
        assert_eq!(hex(ed25519("discord").public_key().as_ref()), DISCORD);
        assert_eq!(base64(ed25519("telnyx").public_key().as_ref()), TELNYX);
        assert_eq!(base64(&super::super::crypto::pem(include_str!("keys/p256_first.pub.pem"))), SENDGRID);
    }
}
