//! What is refused by the head alone, and what has to wait for its body.

use super::*;

/// What the head of a request says, in a word and a reason.
fn head(source: &Source, request: &Request) -> String {
    match source.judge_head(request, None, NOW) {
        HeadVerdict::ReadOn => "read".to_owned(),
        HeadVerdict::HandshakeOrElse(no) => format!("handshake or {}", no.reason.as_str()),
        HeadVerdict::Refused(no) => format!("{} {}", no.step.as_str(), no.reason.as_str()),
    }
}

fn built(provider: &str) -> Source {
    let mut spec = spec(provider, &[SECRET]);
    for setting in ["verify_token", "webhook_id", "public_key", "topic_arn"] {
        spec.settings.insert(setting.to_owned(), Secret::new("arn:aws:sns:eu-west-1:123456789012:orders"));
    }
    Source::build(spec).unwrap_or_else(|problems| panic!("{provider}: {problems:?}"))
}

#[test]
fn nothing_in_the_head_is_refused_unless_the_body_may_say_more() {
    for (provider, expected) in [
        ("stripe", "signature missing_signature"),
        ("github", "signature missing_signature"),
        ("slack", "signature missing_signature"),
        ("zoom", "signature missing_signature"),
        ("twilio", "signature missing_signature"),
        ("contentful", "signature missing_signature"),
        ("mandrill", "signature missing_signature"),
        ("static-token", "signature missing_signature"),
        // Their checks of the URL come without a signature, in the body.
        ("monday", "handshake or missing_signature"),
        ("notion", "handshake or missing_signature"),
        ("woocommerce", "handshake or missing_signature"),
        // By a header, which is not here.
        ("asana", "signature missing_signature"),
        // Signed in the body.
        ("mailgun", "read"),
        ("dropbox-sign", "read"),
        ("microsoft-graph", "read"),
    ] {
        assert_eq!(head(&built(provider), &request(&[], b"")), expected, "{provider}");
    }
}

#[test]
fn the_form_and_the_window_are_judged() {
    let seconds = NOW / 1000;
    let hex = "ab".repeat(32);
    let stripe = |header: &str| head(&built("stripe"), &request(&[("stripe-signature", header)], b""));
    assert_eq!(stripe(&format!("t={seconds},v1={hex}")), "read");
    assert_eq!(stripe(&format!("t={},v1={hex}", seconds - 301)), "window too_old");
    assert_eq!(stripe(&format!("t={},v1={hex}", seconds + 301)), "window too_new");
    assert_eq!(stripe(&format!("t=x,v1={hex}")), "window bad_timestamp");
    assert_eq!(stripe(&format!("v1={hex}")), "window bad_timestamp");
    assert_eq!(stripe(&format!("t={seconds},v1=zz")), "signature malformed_signature");
    assert_eq!(stripe(" "), "signature missing_signature");
    let slack = |time: i64| {
        let (time, signature) = (time.to_string(), format!("v0={hex}"));
        let headers = [("x-slack-request-timestamp", time.as_str()), ("x-slack-signature", signature.as_str())];
        head(&built("slack"), &request(&headers, b""))
    };
    assert_eq!((slack(seconds), slack(seconds - 3600)), ("read".to_owned(), "window too_old".to_owned()));
    let token = |value: &str| head(&built("static-token"), &request(&[("authorization", value)], b""));
    assert_eq!(token(&format!("Bearer {SECRET}")), "read");
    assert_eq!(token("Bearer other"), "signature mismatch");
    let asana = request(&[("x-hook-secret", "s")], b"");
    assert_eq!(head(&built("asana"), &asana), "handshake or missing_signature");
}

#[test]
fn the_token_in_the_url_is_compared_first() {
    let mut spec = spec("github", &[]);
    spec.path_token = Some(Secret::new("0123456789abcdef"));
    let source = Source::build(spec).unwrap();
    let head = |token| source.judge_head(&request(&[], b""), token, NOW);
    assert_eq!(head(Some("0123456789abcdef")), HeadVerdict::ReadOn);
    for token in [None, Some("other")] {
        assert!(matches!(head(token), HeadVerdict::Refused(_)), "{token:?}");
    }
}
