//! The description language, through descriptions of vendors that the catalogue does not hold yet.

use data_encoding::{BASE64, HEXLOWER};

use super::*;
use crate::likely_cause;

const BODY: &[u8] = br#"{"id":"e1","type":"t","at":"1731700000000","sig":{"ts":"1731700000","token":"abc"}}"#;

/// A description that signs and verifies, and refuses other bytes and other times.
fn check(keys: &str, secret: &str) {
    let keys = format!("{keys}\nid = \"json:/id\"\ntype = \"json:/type\"");
    let source = custom(&keys, &[secret]).unwrap_or_else(|problems| panic!("{problems:?}: {keys}"));
    let request = sign(&source, &[("x-id", "7")], BODY);
    assert_eq!(line(&source, &request), "accept e1 t", "{keys}");
    let timed = source.description().ts.is_some();
    if timed {
        assert_eq!(line_at(&source, &request, NOW + 8_000_000_000), "window too_old", "{keys}");
    }
    if source.description().body_covered() {
        let mut changed = request.clone();
        changed.body = Bytes::from([BODY, b" "].concat());
        assert_eq!(line(&source, &changed), "signature mismatch", "{keys}");
    }
    let other = custom(&keys, &["b3RoZXI="]).or_else(|_| custom(&keys, &["00ff"])).unwrap();
    assert_eq!(line(&other, &request), "signature mismatch", "{keys}");
}

#[test]
fn algorithms_encodings_and_keys() {
    let header = "sig = { header = ['x-s'] }";
    check(&format!("mac = 'hmac-sha256'\nmsg = '{{body}}'\n{header}"), "s");
    check(&format!("mac = 'hmac-sha1'\nmsg = '{{body}}'\n{header}"), "s");
    check(&format!("mac = 'hmac-sha512'\nenc = 'base64'\nmsg = '{{body}}'\n{header}"), "s");
    check(&format!("mac = 'hmac-sha256'\nenc = 'base64url'\nmsg = '{{body}}'\n{header}"), "s");
    check(&format!("mac = 'hmac-sha256'\nkey = 'hex'\nmsg = '{{body}}'\n{header}"), "c0ffee");
    check(&format!("mac = 'hmac-sha256'\nkey = 'base64'\nmsg = '{{body}}'\n{header}"), "c2VjcmV0");
    check(&format!("mac = 'sha1'\nmsg = '{{body}}{{secret}}'\n{header}"), "s");
    check(&format!("mac = 'sha256'\nmsg = '{{body}}{{secret}}'\n{header}"), "s");
    check(&format!("mac = 'equal'\n{header}"), "token");
    check("mac = 'basic'", "user:password");
}

#[test]
fn messages() {
    let start = "mac = 'hmac-sha256'\nsig = { header = ['x-s'], item = 'v1=' }";
    check(&format!("{start}\nmsg = '{{url}}{{body}}'"), "s");
    check(&format!("{start}\nmsg = '{{method}}{{url|decode}}{{body}}'"), "s");
    check(&format!("{start}\nmsg = '{{header:x-none|x-id}}.{{body}}'"), "s");
    check(&format!("{start}\nmsg = '{{json:/sig/ts}}{{json:/sig/token}}'"), "s");
}

#[test]
fn times() {
    let start = "mac = 'hmac-sha256'\nmsg = '{ts}.{body}'";
    check(&format!("{start}\nsig = {{ header = ['x-s'] }}\nts = {{ header = ['x-t'], unit = 'ms' }}"), "s");
    check(&format!("{start}\nsig = {{ header = ['x-s'] }}\nts = {{ header = ['x-t'], unit = 'rfc3339' }}"), "s");
    check(&format!("{start}\nsig = {{ header = ['x-s'], split = ',' }}\nts = {{ position = 1, unit = 'ms' }}"), "s");
    check(&format!("{start}\nsig = {{ header = ['x-s'], split = ';', item = 'h1=' }}\nts = {{ item = 'ts=' }}"), "s");
    check(
        &format!(
            "{start}\nsig = {{ header = ['x-s'], group = ' ', split = ',', item = 'v1=' }}\nts = {{ item = 't=' }}"
        ),
        "s",
    );
    let linear = "mac = 'hmac-sha256'\nmsg = '{body}'\nsig = { header = ['x-s'] }";
    check(&format!("{linear}\nts = {{ json = '/at', unit = 'ms', past = 60 }}"), "s");
}

#[test]
fn groups_have_their_own_time() {
    let keys = "mac = 'hmac-sha256'\nmsg = '{ts}.{body}'\nid = 'json:/id'\nts = { item = 't=' }
        sig = { header = ['x-s'], group = ' ', split = ',', item = 'v1=' }";
    let (old, new) = (custom(keys, &["old"]).unwrap(), custom(keys, &["new"]).unwrap());
    let mut request = sign_at(&old, &[], BODY, NOW - 10_000);
    let both = format!("{} {}", header(&request, "x-s"), header(&sign(&new, &[], BODY), "x-s"));
    set(&mut request, "x-s", &both);
    assert_eq!(line(&old, &request), "accept e1");
    assert_eq!(line(&new, &request), "accept e1");
}

#[test]
fn several_headers_and_second_keys() {
    let keys = "mac = 'hmac-sha256'\nenc = 'base64'\nmsg = '{body}'\nid = 'json:/id'\nsig = { header = ['x-sig-*'] }";
    let (one, two) = (custom(keys, &["one"]).unwrap(), custom(keys, &["two"]).unwrap());
    let mut request = sign(&one, &[], BODY);
    set(&mut request, "x-sig-2", header(&sign(&two, &[], BODY), "x-sig-1").to_owned().as_str());
    assert_eq!((line(&one, &request), line(&two, &request)), ("accept e1".to_owned(), "accept e1".to_owned()));

    let mut boxed = spec("custom", &["primary"]);
    let keys = "mac = 'hmac-sha256'\nmsg = '{body}'\nid = 'json:/id'\nrequire_value = { x-version = '1' }
        sig = { header = ['x-primary'] }\nsig2 = { header = ['x-secondary'], key_param = 'secondary' }";
    for (key, value) in &keys.parse::<toml::Table>().unwrap() {
        boxed.description.set(key, value).unwrap();
    }
    let second = spec_with_secret(&boxed, "second");
    boxed.settings.insert("secondary".to_owned(), Secret::new("second"));
    let source = Source::build(boxed).unwrap();
    let mut request = sign(&second, &[], BODY);
    let signature = request.headers.remove("x-primary").unwrap();
    request.headers.insert("x-secondary", signature);
    match source.judge(&request, None, NOW) {
        Verdict::Accept(accepted) => assert_eq!(accepted.secret, 2),
        other => panic!("{other:?}"),
    }
    set(&mut request, "x-version", "2");
    assert_eq!(line(&source, &request), "signature required_header");
}

fn spec_with_secret(spec: &SourceSpec, secret: &str) -> Source {
    Source::build(SourceSpec { secrets: vec![Secret::new(secret)], ..spec.clone() }).unwrap()
}

#[test]
fn signatures_in_body_and_query() {
    let keys = "mac = 'equal'\nid = 'json:/id'\nsig = { json = '/passcode' }";
    let figma = custom(keys, &["pass"]).unwrap();
    assert_eq!(line(&figma, &request(&[], br#"{"id":1,"passcode":"pass"}"#)), "accept 1");
    assert_eq!(line(&figma, &request(&[], br#"{"id":1,"passcode":"past"}"#)), "signature mismatch");
    assert_eq!(line(&figma, &request(&[], br#"{"id":1}"#)), "signature missing_signature");
    assert_eq!(line(&figma, &request(&[], br#"{"passcode":"pass","passcode":"x"}"#)), "signature too_many_signatures");
    let query = custom("mac = 'equal'\nid = 'json:/id'\nsig = { query = 'code' }", &["pass"]).unwrap();
    let mut request = request(&[], br#"{"id":1}"#);
    assert_eq!(line(&query, &request), "signature missing_signature");
    request.target = "/in/src?code=pass".to_owned();
    assert_eq!(line(&query, &request), "accept 1");
}

#[test]
fn public_keys() {
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING as P256, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
    let random = ring::rand::SystemRandom::new();
    let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let message = [b"1731700000", BODY].concat();
    let (public, signature) = (pair.public_key().as_ref(), pair.sign(&message));
    check_public("mac = 'ed25519'\nkey = 'hex'", HEXLOWER.encode(public), HEXLOWER.encode(signature.as_ref()));

    let document = EcdsaKeyPair::generate_pkcs8(&P256, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&P256, document.as_ref(), &random).unwrap();
    let (public, signature) = (pair.public_key().as_ref(), pair.sign(&random, &message).unwrap());
    let keys = "mac = 'ecdsa-p256'\nenc = 'base64'\nkey = 'base64'";
    check_public(keys, BASE64.encode(public), BASE64.encode(signature.as_ref()));
}

/// Verifies what the vendor's private key signed; the public key as an HMAC key must not do.
fn check_public(keys: &str, public: String, signature: String) {
    let keys = format!(
        "{keys}\nmsg = '{{ts}}{{body}}'\nsig = {{ header = ['x-s'] }}\nts = {{ header = ['x-t'] }}\nid = 'json:/id'"
    );
    let source = custom(&keys, &[&public]).unwrap();
    let mut signed = request(&[("x-s", &signature), ("x-t", "1731700000")], BODY);
    assert_eq!(line(&source, &signed), "accept e1");
    signed.body = Bytes::from_static(b"{}");
    assert_eq!(line(&source, &signed), "signature mismatch");
    let confused = keys.replace("ed25519", "hmac-sha256").replace("ecdsa-p256", "hmac-sha256");
    let forged = sign(&custom(&confused, &[&public]).unwrap(), &[], BODY);
    assert_eq!(line(&source, &forged), "signature mismatch");
    let draft = Draft { target: String::new(), headers: HeaderMap::new(), body: Bytes::new() };
    assert_eq!(source.sign(draft, NOW).unwrap_err(), SignError::PrivateKey);
}

#[test]
fn credentials_are_known() {
    let token = custom("mac = 'equal'\nid = 'json:/id'\nsig = { header = ['x-token'] }", &["s"]).unwrap();
    let is_credential =
        |source: &Source, name: &'static str| source.description().is_credential(&HeaderName::from_static(name));
    assert!(is_credential(&token, "x-token") && is_credential(&token, "authorization"));
    assert!(!is_credential(&token, "x-other") && !is_credential(&source("github"), "x-hub-signature-256"));
    let query = custom("mac = 'equal'\nid = 'json:/id'\nsig = { query = 'code' }", &["s"]).unwrap();
    assert_eq!(query.description().credential_query(), Some("code"));
}

#[test]
fn handshakes_by_head() {
    let keys = "mac = 'hmac-sha1'\nmsg = '{body}{url}'\nid = 'json:/id'\nsig = { header = ['x-s'] }
        handshake = { method = 'HEAD', signed = false }";
    let source = custom(keys, &["s"]).unwrap();
    let head = Request { method: Method::HEAD, ..request(&[], b"") };
    assert_eq!(line(&source, &head), "reply ");
    assert_eq!(line(&source, &request(&[], b"")), "signature missing_signature");
    assert_eq!(custom(&keys.replace("HEAD", "POST"), &["s"]).unwrap_err().problems[0].key, "handshake");
}

#[test]
fn handshakes_by_get() {
    let keys = "mac = 'hmac-sha256'\nmsg = '{body}'\nid = 'json:/id'\nsig = { header = ['x-s'] }
        [handshake]\nmethod = 'GET'\nsigned = false\nwhen = 'query:hub.mode == subscribe'\nreply = 'query:hub.challenge'
        check = { 'query:hub.verify_token' = 'verify_token' }";
    assert_eq!(custom(keys, &["s"]).unwrap_err().problems[0].key, "verify_token");
    let mut meta = spec("custom", &["s"]);
    for (key, value) in &keys.parse::<toml::Table>().unwrap() {
        meta.description.set(key, value).unwrap();
    }
    meta.settings.insert("verify_token".to_owned(), Secret::new("tok"));
    let source = Source::build(meta).unwrap();
    assert_eq!(source.methods(), [Method::POST, Method::GET]);
    let get = |target: &str| {
        let request = Request { method: Method::GET, target: target.to_owned(), ..request(&[], b"") };
        line(&source, &request)
    };
    assert_eq!(get("/in/src?hub.mode=subscribe&hub.verify_token=tok&hub.challenge=42"), "reply 42");
    assert_eq!(get("/in/src?hub.mode=subscribe&hub.verify_token=no&hub.challenge=42"), "signature mismatch");
    assert_eq!(get("/in/src"), "signature missing_signature");
}

/// The likely cause that is named after a change.
fn cause(provider: &str, secret: &str, change: impl Fn(&mut Request), now: UnixMillis) -> String {
    let request = {
        let mut request = signed(&source(provider), "id1");
        change(&mut request);
        request
    };
    let source = Source::build(spec(provider, &[secret])).unwrap();
    match source.judge(&request, None, now) {
        Verdict::Reject(rejection) => likely_cause(&source, &request, &rejection, now).unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn likely_causes() {
    let spaced = |request: &mut Request| {
        let text = String::from_utf8(request.body.to_vec()).unwrap();
        request.body = text.replace("\":", "\": ").replace(",\"", ", \"").into();
    };
    let check = |found: String, words: &str| assert!(found.contains(words), "{found}");
    check(cause("stripe", SECRET, spaced, NOW), "without spaces");
    check(
        cause("github", SECRET, |request| request.body = [&request.body[..], b"\n"].concat().into(), NOW),
        "without the white space at its end",
    );
    check(
        cause("stripe", SECRET, |request| request.body = [&request.body[..], b" "].concat().into(), NOW),
        "without the white space at its end",
    );
    check(cause("stripe", SECRET, |_| {}, NOW + 900_000), "900 s ago");
    check(cause("stripe", SECRET, |_| {}, NOW - 900_000), "900 s in the future");
    check(cause("stripe", &SECRET[6..], |_| {}, NOW), "without its whsec_");
    check(cause("github", &format!("{SECRET}\n"), |_| {}, NOW), "white space");
    check(cause("github", SECRET, |request| drop(request.headers.remove("x-hub-signature-256")), NOW), "is missing");
    check(cause("twilio", "other", |_| {}, NOW), "public_url");
    let elsewhere = |public_url: &str| {
        let mut spec = spec("twilio", &[SECRET]);
        spec.settings.insert("public_url".to_owned(), Secret::new(public_url));
        let request = signed(&source("twilio"), "id1");
        let source = Source::build(spec).unwrap();
        match source.judge(&request, None, NOW) {
            Verdict::Reject(rejection) => likely_cause(&source, &request, &rejection, NOW).unwrap_or_default(),
            other => panic!("{other:?}"),
        }
    };
    check(elsewhere("http://hooks.example.com"), "its scheme (the vendor calls https, public_url says http");
    check(elsewhere("http://hooks.example.com:8080"), "its scheme and its port");
    check(elsewhere("https://hooks.example.com/proxied"), "its path");
    check(elsewhere("https://other.example.com"), "a wrong public_url");
    for provider in ["twilio", "square"] {
        let mut spec = spec(provider, &[SECRET]);
        spec.settings.insert("public_url".to_owned(), Secret::new("https://other.example.com"));
        let mut request = signed(&source(provider), "id1");
        request.target = format!("https://hooks.example.com{}", request.target);
        let source = Source::build(spec).unwrap();
        let Verdict::Reject(rejection) = source.judge(&request, None, NOW) else { panic!("{provider}") };
        let found = likely_cause(&source, &request, &rejection, NOW).unwrap_or_default();
        check(found, "differs from public_url in its host (the signature fits the URL as it was captured)");
    }
    let escaped = |request: &mut Request| {
        let text = String::from_utf8(request.body.to_vec()).unwrap();
        request.body = text.replacen("id1", "\\u0069d1", 1).into();
    };
    check(cause("stripe", SECRET, escaped, NOW), "letters and slashes as they are");
    check(cause("stripe", "sk_live_51H", |_| {}, NOW), "wrong kind: it looks like an API key of Stripe");
    check(cause("slack", "xoxb-17653672481", |_| {}, NOW), "the signing secret is among");
    check(cause("github", "https://hooks.example.com", |_| {}, NOW), "it looks like a URL");
    check(cause("stripe", "another", |_| {}, NOW), "no secret matches: a wrong secret, or a body");
    check(
        cause("static-token", "another", |_| {}, NOW),
        "no secret matches: the token that the sender sends is another",
    );
}
