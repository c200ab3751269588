//! Signatures as the vendors print them, so that two readings of ours cannot agree on a mistake.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use oncebox_verify::{Request, Secret, Source, SourceSpec, Verdict};

struct Vector {
    provider: &'static str,
    secret: &'static str,
    public_url: &'static str,
    target: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
    at: i64,
}

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("content-type", "application/json");
const CALL: &str = "CallSid=CA1234567890ABCDE&Digits=1234&From=%2B14158675309&To=%2B18005551212&Caller=%2B14158675309";

impl Vector {
    /// A vector without a URL.
    fn new(
        provider: &'static str,
        secret: &'static str,
        headers: &'static [(&'static str, &'static str)],
        body: &'static str,
        at: i64,
    ) -> Self {
        Self { provider, secret, public_url: "https://hooks.example.com", target: "/in/src", headers, body, at }
    }

    /// The address as the vendor knows it; behind a proxy the path that arrives is our own.
    fn twilio(target: &'static str, headers: &'static [(&'static str, &'static str)], body: &'static str) -> Self {
        let (public_url, at) = ("https://mycompany.com/myapp.php", 1_800_000_000);
        Self { provider: "twilio", secret: "12345", public_url, target, headers, body, at }
    }

    /// As printed it is accepted; with one byte more, or another secret, it is not.
    fn check(&self) {
        assert!(
            matches!(self.judge(self.secret, self.body), Verdict::Accept(_)),
            "{}: {:?}",
            self.provider,
            self.judge(self.secret, self.body)
        );
        assert!(
            matches!(self.judge(self.secret, &self.body.replacen('1', "2", 1)), Verdict::Reject(_)),
            "{} with another body",
            self.provider
        );
        let other = self.secret.replacen(['1', '4', '7', 'S', '9'], "0", 1);
        assert!(matches!(self.judge(&other, self.body), Verdict::Reject(_)), "{} with another secret", self.provider);
    }

    fn judge(&self, secret: &str, body: &str) -> Verdict {
        let mut spec =
            SourceSpec::named("src", self.provider).unwrap_or_else(|| panic!("no provider {}", self.provider));
        spec.secrets = vec![Secret::new(secret)];
        spec.settings.insert("public_url".to_owned(), Secret::new(self.public_url));
        let mut headers = HeaderMap::new();
        for (name, value) in self.headers {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let body = Bytes::copy_from_slice(body.as_bytes());
        let request = Request { method: Method::POST, target: self.target.to_owned(), headers, body };
        Source::build(spec).unwrap().judge(&request, None, self.at * 1000)
    }
}

#[test]
fn github_documentation() {
    let headers = &[
        ("x-hub-signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-github-event", "push"),
    ];
    let vector = Vector::new("github", "It's a Secret to Everybody", headers, "Hello, World!", 1_800_000_000);
    assert!(matches!(vector.judge(vector.secret, vector.body), Verdict::Accept(_)));
    assert!(matches!(vector.judge(vector.secret, "Hello, World?"), Verdict::Reject(_)));
}

#[test]
fn slack_documentation() {
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V\
        &channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=\
        &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
        &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let headers = &[
        FORM,
        ("x-slack-signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
        ("x-slack-request-timestamp", "1531420618"),
    ];
    Vector::new("slack", "8f742231b10e8888abcd99yyyzzz85a5", headers, body, 1_531_420_618).check();
}

#[test]
fn standard_webhooks_and_svix_libraries() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let body = r#"{"test": 2432232314}"#;
    let standard = &[
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ];
    let svix = &[
        ("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("svix-timestamp", "1614265330"),
        ("svix-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ];
    for (provider, headers) in [("standard-webhooks", standard), ("svix", standard), ("svix", svix)] {
        let vector = Vector::new(provider, secret, headers, body, 1_614_265_330);
        assert!(matches!(vector.judge(secret, body), Verdict::Accept(_)), "{provider}");
        assert!(matches!(vector.judge(secret, r#"{"test":2432232314}"#), Verdict::Reject(_)), "{provider}");
    }
}

#[test]
fn twilio_form() {
    let headers = &[FORM, ("x-twilio-signature", "RSOYDt4T1cUTdK1PDd93/VVr8B8=")];
    Vector::twilio("/in/src?foo=1&bar=2", headers, CALL).check();
    // The vendor may sign the address with its default port.
    let headers = &[FORM, ("x-twilio-signature", "kvajT1Ptam85bY51eRf/AJRuM3w=")];
    Vector::twilio("/in/src?foo=1&bar=2", headers, CALL).check();
    // A name that repeats gives its distinct values, sorted.
    let headers = &[FORM, ("x-twilio-signature", "IK+Dwps556ElfBT0I3Rgjkr1wJU=")];
    let body = "Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234";
    Vector::twilio("/in/src?foo=1&bar=2", headers, body).check();
}

#[test]
fn twilio_form_at_an_origin() {
    let headers = &[FORM, ("x-twilio-signature", "RSOYDt4T1cUTdK1PDd93/VVr8B8=")];
    for (public_url, target) in [
        ("https://mycompany.com", "/myapp.php?foo=1&bar=2"),
        ("https://mycompany.com", "https://mycompany.com/myapp.php?foo=1&bar=2"),
    ] {
        Vector { public_url, ..Vector::twilio(target, headers, CALL) }.check();
    }
}

#[test]
fn twilio_json() {
    let body = r#"{"property": "value", "boolean": true}"#;
    for (target, signature) in [
        (
            "/in/src?foo=1&bar=2&bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620",
            &[JSON, ("x-twilio-signature", "a9nBmqA0ju/hNViExpshrM61xv4=")],
        ),
        (
            "/in/src?bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620",
            &[JSON, ("x-twilio-signature", "y77kIzt2vzLz71DgmJGsen2scGs=")],
        ),
    ] {
        let vector = Vector::twilio(target, signature, body);
        assert!(matches!(vector.judge("12345", body), Verdict::Accept(_)), "{:?}", vector.judge("12345", body));
        assert!(matches!(vector.judge("12345", r#"{"property": "value", "boolean": false}"#), Verdict::Reject(_)));
    }
}

#[test]
fn adyen_library() {
    let body = r#"{"live":"false","notificationItems":[{"NotificationRequestItem":{"additionalData":{"hmacSignature":"coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="},"amount":{"currency":"EUR","value":1130},"pspReference":"7914073381342284","eventCode":"AUTHORISATION","eventDate":"2014-08-06T13:45:43+00:00","merchantAccountCode":"TestMerchant","merchantReference":"TestPayment-1407325143704","paymentMethod":"visa","success":"true"}}]}"#;
    let secret = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";
    Vector::new("adyen-standard", secret, &[JSON], body, 1_800_000_000).check();
}
