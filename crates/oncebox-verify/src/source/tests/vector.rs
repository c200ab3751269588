//! Vectors that vendors publish, so that we do not only agree with ourselves.

use super::*;

fn check(provider: &str, secret: &str, headers: &[(&str, &str)], body: &str, now: UnixMillis, expected: &str) {
    let source = Source::build(spec(provider, &[secret])).unwrap();
    let mut request = request(headers, body.as_bytes());
    assert_eq!(line_at(&source, &request, now), expected, "{provider}");
    request.body = Bytes::from(format!("{body} "));
    assert_eq!(line_at(&source, &request, now), "signature mismatch", "{provider}");
}

#[test]
fn github_documentation() {
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let headers = [("x-hub-signature-256", signature), ("x-github-delivery", "d1"), ("x-github-event", "push")];
    check("github", "It's a Secret to Everybody", &headers, "Hello, World!", NOW, "accept d1 push");
}

#[test]
fn slack_documentation() {
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V\
        &channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=\
        &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
        &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let headers = [
        ("x-slack-signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
        ("x-slack-request-timestamp", "1531420618"),
    ];
    let expected = "accept 398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c /webhook-collect";
    check("slack", "8f742231b10e8888abcd99yyyzzz85a5", &headers, body, 1_531_420_618_000, expected);
}

#[test]
fn standard_webhooks_reference() {
    let headers = [
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ];
    let body = r#"{"test": 2432232314}"#;
    let expected = "accept msg_p5jXN8AQM9LWM0D4loKWxJek";
    check("standard-webhooks", SECRET, &headers, body, 1_614_265_330_000, expected);
    check("svix", SECRET, &headers, body, 1_614_265_330_000, expected);
}
