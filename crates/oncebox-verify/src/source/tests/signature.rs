//! Signatures and time: everything that must be refused, and the little that must not.

use super::*;

/// Changes a signed request and judges it.
fn check(provider: &str, change: impl Fn(&mut Request), expected: &str) {
    let source = source(provider);
    let mut request = signed(&source, "id1");
    change(&mut request);
    assert_eq!(line(&source, &request), expected, "{provider}");
}

fn signature_header(provider: &str) -> &'static str {
    match provider {
        "stripe" => "stripe-signature",
        "github" => "x-hub-signature-256",
        "shopify" => "x-shopify-hmac-sha256",
        "slack" => "x-slack-signature",
        "twilio" => "x-twilio-signature",
        "svix" => "svix-signature",
        _ => "webhook-signature",
    }
}

#[test]
fn a_right_signature_is_accepted() {
    for provider in PROVIDERS {
        let source = source(provider);
        let accepted = line(&source, &signed(&source, "id1"));
        assert!(accepted.starts_with("accept id1 "), "{provider}: {accepted}");
    }
}

#[test]
fn missing_blank_and_bare_signatures() {
    for provider in PROVIDERS {
        let name = signature_header(provider);
        check(provider, |request| drop(request.headers.remove(name)), "signature missing_signature");
        check(provider, |request| set(request, name, ""), "signature missing_signature");
        check(provider, |request| set(request, name, "  "), "signature missing_signature");
    }
    check("github", |request| set(request, "x-hub-signature-256", "sha256="), "signature malformed_signature");
    check("slack", |request| set(request, "x-slack-signature", "v0="), "signature malformed_signature");
    check("svix", |request| set(request, "svix-signature", "v1,"), "signature malformed_signature");
    check("stripe", |request| set(request, "stripe-signature", "t=1731700000,v1="), "signature malformed_signature");
}

#[test]
fn a_part_of_a_signature_or_more_than_one_is_no_signature() {
    check("github", |request| cut(request, "x-hub-signature-256", 2), "signature mismatch");
    check("github", |request| cut(request, "x-hub-signature-256", 62), "signature mismatch");
    check("github", |request| extend(request, "x-hub-signature-256", "00"), "signature mismatch");
    check("github", |request| extend(request, "x-hub-signature-256", " "), "signature malformed_signature");
    check("shopify", |request| extend(request, "x-shopify-hmac-sha256", "AAAA"), "signature malformed_signature");
}

fn cut(request: &mut Request, name: &'static str, count: usize) {
    let value = header(request, name).to_owned();
    set(request, name, &value[..value.len() - count]);
}

fn extend(request: &mut Request, name: &'static str, more: &str) {
    let value = format!("{}{more}", header(request, name));
    set(request, name, &value);
}

#[test]
fn hex_is_read_in_either_case_and_base64_only_in_its_one_form() {
    let upper = |request: &mut Request| {
        let value = header(request, "x-hub-signature-256").to_owned();
        set(request, "x-hub-signature-256", &format!("sha256={}", value[7..].to_uppercase()));
    };
    check("github", upper, "accept id1 push");
    check("shopify", |request| cut(request, "x-shopify-hmac-sha256", 1), "signature malformed_signature");
    let url_safe = |request: &mut Request| {
        let value = header(request, "x-shopify-hmac-sha256").replace('+', "-").replace('/', "_");
        set(request, "x-shopify-hmac-sha256", &format!("_{}", &value[1..]));
    };
    check("shopify", url_safe, "signature malformed_signature");
}

#[test]
fn no_weaker_scheme_is_fallen_back_to() {
    let older = |request: &mut Request| {
        let value = header(request, "stripe-signature").replace("v1=", "v0=");
        set(request, "stripe-signature", &value);
    };
    check("stripe", older, "signature malformed_signature");
    let mixed = |request: &mut Request| {
        let value = header(request, "stripe-signature").replace("v1=", "v0=");
        set(request, "stripe-signature", &format!("{value},v1={}", "0".repeat(64)));
    };
    check("stripe", mixed, "signature mismatch");
    let sha1 = |request: &mut Request| {
        request.headers.remove("x-hub-signature-256");
        set(request, "x-hub-signature", "sha1=0000000000000000000000000000000000000000");
    };
    check("github", sha1, "signature missing_signature");
    check("svix", |request| set(request, "svix-signature", "v1a,AAAA v9,AAAA"), "signature malformed_signature");
}

#[test]
fn several_signatures_up_to_eight() {
    let wrong = format!(",v1={}", "0".repeat(64));
    check("stripe", |request| extend(request, "stripe-signature", &wrong.repeat(7)), "accept id1 invoice.paid");
    check("stripe", |request| extend(request, "stripe-signature", &wrong.repeat(8)), "signature too_many_signatures");
    check("stripe", |request| extend(request, "stripe-signature", ",v0=x,v9=y,,z"), "accept id1 invoice.paid");
    let last = |request: &mut Request| {
        let value = format!("v1,{}= v1a,x {}", "A".repeat(43), header(request, "svix-signature"));
        set(request, "svix-signature", &value);
    };
    check("svix", last, "accept id1 user.created");
}

#[test]
fn a_second_line_of_the_header_is_refused() {
    for provider in PROVIDERS {
        let name = signature_header(provider);
        let twice = |request: &mut Request| {
            let value = request.headers.get(name).unwrap().clone();
            request.headers.append(name, value);
        };
        check(provider, twice, "signature too_many_signatures");
    }
}

#[test]
fn every_secret_is_tried_and_named() {
    for (position, secrets) in [(1, [SECRET, "b2xk"]), (2, ["b2xk", SECRET])] {
        let rotated = Source::build(spec("svix", &secrets)).unwrap();
        match rotated.judge(&signed(&source("svix"), "id1"), None, NOW) {
            Verdict::Accept(accepted) => assert_eq!(accepted.secret, position),
            other => panic!("{other:?}"),
        }
    }
    let other = Source::build(spec("svix", &["b2xk"])).unwrap();
    assert_eq!(line(&other, &signed(&source("svix"), "id1")), "signature mismatch");
}

#[test]
fn other_bytes_are_refused() {
    for provider in PROVIDERS {
        let change = |change: fn(&[u8]) -> Vec<u8>| {
            check(provider, |request| request.body = change(&request.body).into(), "signature mismatch");
        };
        change(|body| [body, b" "].concat());
        change(|body| [b"\xef\xbb\xbf", body].concat());
        change(|body| [body, b"\r\n"].concat());
        change(|body| body.iter().map(|byte| if *byte == b'e' { b'f' } else { *byte }).collect());
        change(|_| Vec::new());
    }
    check("stripe", |request| set(request, "content-type", "text/plain; charset=latin1"), "accept id1 invoice.paid");
}

#[test]
fn the_window_includes_its_edges() {
    for provider in ["stripe", "slack", "svix", "standard-webhooks"] {
        let source = source(provider);
        let request = signed(&source, "id1");
        for (seconds, expected) in
            [(300, "accept"), (-300, "accept"), (301, "window too_old"), (-301, "window too_new")]
        {
            let judged = line_at(&source, &request, NOW + seconds * 1000);
            assert!(judged.starts_with(expected), "{provider} {seconds}: {judged}");
        }
        let mut stale = request.clone();
        stale.body = Bytes::from_static(b"{}");
        assert_eq!(line_at(&source, &stale, NOW + 900_000), "signature mismatch");
    }
    let mut wide = spec("stripe", &[SECRET]);
    wide.tolerance = Some(Duration::from_secs(3600));
    let wide = Source::build(wide).unwrap();
    assert_eq!(line_at(&wide, &signed(&wide, "id1"), NOW + 3_600_000), "accept id1 invoice.paid");
    assert_eq!(line_at(&wide, &signed(&wide, "id1"), NOW + 3_601_000), "window too_old");
}

#[test]
fn timestamps_have_one_form() {
    let wrong = ["", "-1", "+1", "1e9", "1.5", " 1731700000", "17317000001731700000", "1731700000000", "1731700000.0"];
    for time in wrong {
        let bad = "window bad_timestamp";
        check("slack", |request| set(request, "x-slack-request-timestamp", time), bad);
        check("svix", |request| set(request, "svix-timestamp", time), bad);
        let stripe = |request: &mut Request| {
            let value = header(request, "stripe-signature").replace("t=1731700000", &format!("t={time}"));
            set(request, "stripe-signature", &value);
        };
        check("stripe", stripe, bad);
    }
    check("slack", |request| drop(request.headers.remove("x-slack-request-timestamp")), "window bad_timestamp");
    let twice = |request: &mut Request| {
        request.headers.append("svix-timestamp", HeaderValue::from_static("1731700000"));
    };
    check("svix", twice, "window bad_timestamp");
    check("stripe", |request| extend(request, "stripe-signature", ",t=1731700000"), "window bad_timestamp");
    let untimed = |request: &mut Request| {
        let value = header(request, "stripe-signature").replace("t=1731700000,", "");
        set(request, "stripe-signature", &value);
    };
    check("stripe", untimed, "window bad_timestamp");
}

#[test]
fn a_signed_id_cannot_be_changed() {
    check("svix", |request| set(request, "svix-id", "id2"), "signature mismatch");
    check("svix", |request| drop(request.headers.remove("svix-id")), "signature malformed_signature");
    let twice = |request: &mut Request| {
        request.headers.append("svix-id", HeaderValue::from_static("id1"));
    };
    check("svix", twice, "signature malformed_signature");
}

#[test]
fn other_methods_are_refused() {
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::OPTIONS, Method::TRACE] {
        check("stripe", |request| request.method = method.clone(), "method method");
    }
}
