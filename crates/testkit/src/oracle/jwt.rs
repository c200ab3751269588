//! Signed tokens that carry a hash of the body, the URL, or nothing but the sender's name.

use ring::hmac::HMAC_SHA256;
use serde_json::{Value, json};

use super::crypto::{base64, base64url, hex, mac, p256_fixed, rsa256, sha256};
use super::public_key::{P256, P256_OTHER};
use super::{Capture, Case, Ctx, Id};

pub(super) fn cases() -> Vec<Case> {
    let mut all = vec![plaid(), netlify(), messagebird(), qstash(), monday(), pubsub()];
    all.push(pubsub().form("JWKS").key_pair(RSA_JWKS, RSA, RSA_OTHER));
    all.push(plaid().form("PEM").key_pair(include_str!("keys/p256_first.pub.pem"), P256, P256_OTHER));
    all
}

pub(super) const RSA: &str = include_str!("keys/rsa_first.pem");
pub(super) const RSA_OTHER: &str = include_str!("keys/rsa_second.pem");
const RSA_PUBLIC: &str = include_str!("keys/rsa_first.pub.pem");
const RSA_JWKS: &str = include_str!("keys/rsa_first.jwks.json");
const P256_JWK: &str = include_str!("keys/p256_first.jwk.json");
const P256_KID: &str = "6c5516e1-92dc-479e-a8ff-5a51992e0001";
const RSA_KID: &str = "7d680d8c70d44e947133cbd499ebc1a61c3d5abc";

fn token(head: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let signed = format!("{}.{}", base64url(head.to_string().as_bytes()), base64url(claims.to_string().as_bytes()));
    let signature = base64url(&sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn hs256(secret: &str, claims: &Value) -> String {
    token(&json!({"alg": "HS256", "typ": "JWT"}), claims, |signed| mac(HMAC_SHA256, secret.as_bytes(), &[signed]))
}

/// The token without a signature, whose head says that none is needed.
fn unsigned(token_text: &str) -> String {
    let claims = token_text.split('.').nth(1).unwrap_or_default();
    format!("{}.{claims}.", base64url(br#"{"alg":"none","typ":"JWT"}"#))
}

/// The same claims under another algorithm, keyed by what the attacker can know: the public key.
fn confused(token_text: &str, public: &str) -> String {
    let claims = token_text.split('.').nth(1).unwrap_or_default();
    let signed = format!("{}.{claims}", base64url(br#"{"alg":"HS256","typ":"JWT"}"#));
    format!("{signed}.{}", base64url(&mac(HMAC_SHA256, public.as_bytes(), &[signed.as_bytes()])))
}

fn plaid() -> Case {
    let draft = |ctx: &Ctx| {
        let body = json!({"webhook_type": "TRANSACTIONS", "webhook_code": "SYNC_UPDATES_AVAILABLE", "item_id": ctx.id("wz666MBjYWTp2PDzz"),
            "initial_update_complete": true, "environment": "production"});
        ctx.json(body).event_by(Id::Arrival, ["TRANSACTIONS.SYNC_UPDATES_AVAILABLE"])
    };
    Case::new("plaid", "Plaid-Verification", draft, |ctx, capture| {
        let claims = json!({"iat": ctx.now, "request_body_sha256": hex(&sha256(&capture.body))});
        let head = json!({"alg": "ES256", "kid": P256_KID, "typ": "JWT"});
        capture.set("Plaid-Verification", token(&head, &claims, |signed| p256_fixed(&ctx.secret, signed)));
    })
    .key_pair(P256_JWK, P256, P256_OTHER)
    .window(300)
    .rejects("a token that says none", |_, capture| {
        capture.set("Plaid-Verification", unsigned(capture.value("Plaid-Verification")));
    })
    .rejects("the public key as an HMAC key", |_, capture| {
        capture.set(
            "Plaid-Verification",
            confused(capture.value("Plaid-Verification"), include_str!("keys/p256_first.pub.pem")),
        );
    })
    .rejects("no hash of the body", |ctx, capture| {
        let head = json!({"alg": "ES256", "kid": P256_KID, "typ": "JWT"});
        capture.set("Plaid-Verification", token(&head, &json!({"iat": ctx.now}), |signed| p256_fixed(P256, signed)));
    })
}

fn netlify() -> Case {
    let draft = |ctx: &Ctx| {
        let body = json!({"id": ctx.id("5c6b1b1e"), "site_id": "s-1", "state": "ready", "name": "petsof", "updated_at": "2027-01-15T07:59:59.000Z"});
        ctx.json(body)
            .header("X-Netlify-Event", "deploy_created")
            .event([&ctx.id("5c6b1b1e"), "ready"], ["deploy_created"])
    };
    Case::new("netlify", "X-Webhook-Signature", draft, |ctx, capture| {
        let claims = json!({"iss": "netlify", "sha256": hex(&sha256(&capture.body))});
        capture.set("X-Webhook-Signature", hs256(&ctx.secret, &claims));
    })
    .rejects("a token that says none", |_, capture| {
        capture.set("X-Webhook-Signature", unsigned(capture.value("X-Webhook-Signature")));
    })
    .rejects("another issuer", |ctx, capture| {
        let claims = json!({"iss": "somebody", "sha256": hex(&sha256(&capture.body))});
        capture.set("X-Webhook-Signature", hs256(&ctx.secret, &claims));
    })
    .rejects("no hash of the body", |ctx, capture| {
        capture.set("X-Webhook-Signature", hs256(&ctx.secret, &json!({"iss": "netlify"})));
    })
}

fn messagebird_claims(ctx: &Ctx, url: &str, capture: &Capture) -> Value {
    json!({"iss": "MessageBird", "nbf": ctx.now, "exp": ctx.now + 60, "jti": ctx.uuid(),
        "url_hash": hex(&sha256(url.as_bytes())), "payload_hash": hex(&sha256(&capture.body))})
}

fn messagebird() -> Case {
    let draft = |ctx: &Ctx| {
        let body = json!({"id": ctx.id("e8077d803532"), "status": "delivered", "recipient": "31612345678", "statusDatetime": "2027-01-15T07:59:59+00:00"});
        ctx.json(body).event([&ctx.id("e8077d803532"), "delivered"], ["delivered"])
    };
    Case::new("messagebird", "MessageBird-Signature-JWT", draft, |ctx, capture| {
        capture.set("MessageBird-Signature-JWT", hs256(&ctx.secret, &messagebird_claims(ctx, &ctx.url(), capture)));
    })
    .signs_url()
    // The token lives for a minute; a few seconds of skew are allowed on both sides.
    .window_of(60, Some(120), Some(60))
    .rejects("a token that says none", |_, capture| {
        capture.set("MessageBird-Signature-JWT", unsigned(capture.value("MessageBird-Signature-JWT")));
    })
    .rejects("signed for another URL", |ctx, capture| {
        let claims = messagebird_claims(ctx, "https://elsewhere.example/in/messagebird", capture);
        capture.set("MessageBird-Signature-JWT", hs256(&ctx.secret, &claims));
    })
    .rejects("no hash of the body", |ctx, capture| {
        let mut claims = messagebird_claims(ctx, &ctx.url(), capture);
        claims.as_object_mut().expect("claims").remove("payload_hash");
        capture.set("MessageBird-Signature-JWT", hs256(&ctx.secret, &claims));
    })
}

fn qstash_claims(ctx: &Ctx, url: &str, capture: &Capture) -> Value {
    json!({"iss": "Upstash", "sub": url, "exp": ctx.now + 300, "nbf": ctx.now, "iat": ctx.now, "jti": ctx.id("jwt_"),
        "body": base64url(&sha256(&capture.body))})
}

fn qstash() -> Case {
    let draft = |ctx: &Ctx| {
        ctx.json(json!({"hello": "world"}))
            .header("Upstash-Message-Id", ctx.id("msg_"))
            .header("Upstash-Retried", "0")
            .event([&ctx.id("msg_")], [""])
    };
    Case::new("qstash", "Upstash-Signature", draft, |ctx, capture| {
        capture.set("Upstash-Signature", hs256(&ctx.secret, &qstash_claims(ctx, &ctx.url(), capture)));
    })
    .secrets("sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r", "sig_0000w48mhY7kAjqNGcy6cr29RJ6r")
    .setting("next", "sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs")
    .signs_url()
    .window_of(300, Some(700), Some(400))
    .accepts("signed with the next key", |ctx, capture| {
        capture.set(
            "Upstash-Signature",
            hs256("sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs", &qstash_claims(ctx, &ctx.url(), capture)),
        );
    })
    .accepts("the hash with its padding", |ctx, capture| {
        let mut claims = qstash_claims(ctx, &ctx.url(), capture);
        claims["body"] = json!(format!("{}=", base64url(&sha256(&capture.body))));
        capture.set("Upstash-Signature", hs256(&ctx.secret, &claims));
    })
    .rejects("a token that says none", |_, capture| {
        capture.set("Upstash-Signature", unsigned(capture.value("Upstash-Signature")));
    })
    .rejects("signed for another URL", |ctx, capture| {
        let claims = qstash_claims(ctx, "https://elsewhere.example/in/qstash", capture);
        capture.set("Upstash-Signature", hs256(&ctx.secret, &claims));
    })
    .rejects("another issuer", |ctx, capture| {
        let mut claims = qstash_claims(ctx, &ctx.url(), capture);
        claims["iss"] = json!("somebody");
        capture.set("Upstash-Signature", hs256(&ctx.secret, &claims));
    })
}

/// The token names the sender and does not cover the body.
fn monday() -> Case {
    let draft = |ctx: &Ctx| {
        let body = json!({"event": {"userId": 9_603_417, "boardId": 1_771_812_698, "pulseId": 1_772_099_344, "type": "update_column_value",
            "changedAt": 1_799_999_999.1, "triggerUuid": ctx.id("645fc8d8709d35718f1ae00ceded91e9"), "subscriptionId": 73_759_690}});
        ctx.json(body).event([&ctx.id("645fc8d8709d35718f1ae00ceded91e9")], ["update_column_value"])
    };
    Case::new("monday", "Authorization", draft, |ctx, capture| {
        let claims = json!({"accountId": 1_825_529, "userId": 4_012_689, "aud": ctx.url(), "exp": ctx.now + 300, "iat": ctx.now, "shortLivedToken": "x"});
        capture.set("Authorization", hs256(&ctx.secret, &claims));
    })
    .signs_url()
    .body_uncovered()
    .window_of(0, Some(1000), None)
    .rejects("for another endpoint of the app", |ctx, capture| {
        let claims = json!({"aud": "https://elsewhere.example/hook", "exp": ctx.now + 300, "iat": ctx.now});
        capture.set("Authorization", hs256(&ctx.secret, &claims));
    })
    .rejects("for nobody", |ctx, capture| {
        capture.set("Authorization", hs256(&ctx.secret, &json!({"exp": ctx.now + 300, "iat": ctx.now})));
    })
    .accepts("another body, which nobody signs", |_, capture| capture.replace("9603417", "9603418"))
    .rejects("a token that says none", |_, capture| capture.set("Authorization", unsigned(capture.value("Authorization"))))
}

const AUDIENCE: &str = "https://hooks.example.com/in/google-pubsub";
const ACCOUNT: &str = "pusher@project.iam.gserviceaccount.com";

fn pubsub_claims(ctx: &Ctx) -> Value {
    json!({"aud": AUDIENCE, "azp": "113774264463038321964", "email": ACCOUNT, "email_verified": true, "exp": ctx.now + 3600, "iat": ctx.now,
        "iss": "https://accounts.google.com", "sub": "113774264463038321964"})
}

fn sign_pubsub(capture: &mut Capture, key: &str, claims: &Value) {
    let head = json!({"alg": "RS256", "kid": RSA_KID, "typ": "JWT"});
    capture.set("Authorization", format!("Bearer {}", token(&head, claims, |signed| rsa256(key, signed))));
}

macro_rules! with_claim {
    ($name:literal, $value:expr) => {
        |ctx, capture| {
            let mut claims = pubsub_claims(ctx);
            claims[$name] = json!($value);
            sign_pubsub(capture, RSA, &claims);
        }
    };
}

/// The token names the sender and does not cover the body.
fn pubsub() -> Case {
    let draft = |ctx: &Ctx| {
        let (subscription, id) = ("projects/p/subscriptions/s", ctx.number_id().to_string());
        let body = json!({"message": {"attributes": {"key": "value"}, "data": base64(b"Hello Cloud Pub/Sub!"), "messageId": id, "message_id": id,
            "publishTime": "2027-01-15T07:59:59.000Z"}, "subscription": subscription, "deliveryAttempt": 1});
        ctx.json(body).event([subscription, &id], [])
    };
    Case::new("google-pubsub", "Authorization", draft, |ctx, capture| {
        sign_pubsub(capture, &ctx.secret, &pubsub_claims(ctx))
    })
    .key_pair(RSA_PUBLIC, RSA, RSA_OTHER)
    .setting("audience", AUDIENCE)
    .setting("service_account", ACCOUNT)
    .body_uncovered()
    .window_of(3000, Some(4000), None)
    .accepts("another body, which nobody signs", |_, capture| capture.replace("\"value\"", "\"other\""))
    .rejects("another audience", with_claim!("aud", "https://elsewhere.example/"))
    .rejects("another issuer", with_claim!("iss", "https://accounts.example.com"))
    .rejects("another account", with_claim!("email", "somebody@project.iam.gserviceaccount.com"))
    .rejects("an account that is not verified", with_claim!("email_verified", false))
    .rejects("a token that says none", |_, capture| {
        let value = unsigned(capture.value("Authorization").trim_start_matches("Bearer "));
        capture.set("Authorization", format!("Bearer {value}"));
    })
    .rejects("the public key as an HMAC key", |_, capture| {
        let value = confused(capture.value("Authorization").trim_start_matches("Bearer "), RSA_PUBLIC);
        capture.set("Authorization", format!("Bearer {value}"));
    })
}
