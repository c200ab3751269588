//! The dedup keys that look right and are wrong, one test each: which two deliveries are two events, and which are one.

use oncebox_verify::{Identified, IdentityKind, OnOtherBody, Secret, Source, SourceSpec, Verdict};
use testkit::oracle::crypto::{base1, form};
use testkit::oracle::{Capture, Case, cases};
use testkit::sender;

use super::{build, judge, request};

/// The case of a provider in its usual form.
pub(super) fn case(slug: &str) -> Case {
    cases().into_iter().find(|case| case.slug == slug && case.form.is_empty()).unwrap()
}

/// The draft changed and then signed, as if the vendor had sent it so.
pub(super) fn sent(case: &Case, number: u32, change: impl FnOnce(&mut Capture)) -> Capture {
    let ctx = case.ctx(number);
    let mut capture = (case.draft)(&ctx);
    change(&mut capture);
    (case.sign)(&ctx, &mut capture);
    capture
}

/// The events of a delivery that is as usual but for a change.
fn events(slug: &str, change: impl FnOnce(&mut Capture)) -> Vec<Identified> {
    let case = case(slug);
    let source = build(&case).unwrap_or_else(|problem| panic!("{slug}: {problem}"));
    accepted(slug, judge(&case, &source, &sent(&case, 1, change)))
}

fn accepted(slug: &str, verdict: Verdict) -> Vec<Identified> {
    match verdict {
        Verdict::Accept(accepted) => accepted.events,
        other => panic!("{slug} must be accepted: {other:?}"),
    }
}

fn is_one(first: &Identified, second: &Identified) -> bool {
    let same_bytes = first.body_sha256 == second.body_sha256;
    first.identity_kind != IdentityKind::Arrival
        && first.identity == second.identity
        && (same_bytes || second.on_other_body == OnOtherBody::Duplicate)
}

/// The usual delivery and the changed one are the same events.
#[track_caller]
fn one(slug: &str, change: impl FnOnce(&mut Capture)) {
    let (first, second) = (events(slug, |_| {}), events(slug, change));
    assert_eq!(first.len(), second.len(), "{slug}");
    for (first, second) in first.iter().zip(&second) {
        assert!(is_one(first, second), "{slug} must be one event:\n{first:?}\n{second:?}");
    }
}

/// The usual delivery and the changed one are other events.
#[track_caller]
fn two(slug: &str, change: impl FnOnce(&mut Capture)) {
    let (first, second) = (events(slug, |_| {}), events(slug, change));
    let (first, second) = (&first[0], &second[0]);
    let arrivals = first.identity_kind == IdentityKind::Arrival;
    assert!(arrivals || first.identity != second.identity, "{slug} must be two events:\n{first:?}\n{second:?}");
}

fn header(name: &'static str, value: &'static str) -> impl FnOnce(&mut Capture) {
    move |capture| capture.set(name, value)
}

fn body(from: &'static str, to: &'static str) -> impl FnOnce(&mut Capture) {
    move |capture| capture.replace(from, to)
}

#[test]
fn k01_shopify_event_id_names_the_action() {
    two("shopify", |capture| {
        capture.set("X-Shopify-Webhook-Id", "another");
        capture.set("X-Shopify-Topic", "orders/paid");
    });
    one("shopify", header("X-Shopify-Triggered-At", "2027-01-15T08:05:00.000000000Z"));
    one("shopify", header("X-Shopify-Event-Id", "another"));
}

#[test]
fn k02_twilio_sid_names_the_resource() {
    let url = "https://hooks.example.com/in/twilio";
    let case = case("twilio");
    let source = build(&case).unwrap();
    let find = |token: Option<&str>, status: &str| {
        let fields = [("MessageSid", "SM1"), ("MessageStatus", status)];
        let mut signed = sender::twilio(case.secret, url, token.unwrap_or_default(), &fields);
        if token.is_none() {
            signed = signed.without_header("I-Twilio-Idempotency-Token");
        }
        let mut capture = case.ctx(1).bytes("", signed.body);
        capture.headers = signed.headers;
        accepted("twilio", judge(&case, &source, &capture)).remove(0)
    };
    assert_ne!(find(None, "sent").identity, find(None, "delivered").identity);
    assert_ne!(find(Some("a"), "sent").identity, find(Some("b"), "delivered").identity);
    assert!(is_one(&find(Some("a"), "sent"), &find(Some("a"), "sent")));
    assert!(is_one(&find(None, "sent"), &find(None, "sent")));
}

#[test]
fn k03_paddle_notification_id_changes_on_replay() {
    one("paddle", body("ntf_1", "ntf_2"));
    two("paddle", body("evt_0", "evt_9"));
}

#[test]
fn k04_coinbase_outer_id_is_the_delivery() {
    one("coinbase-commerce", body("outer-1", "outer-2"));
    two("coinbase-commerce", body("7c9e6679", "8c9e6679"));
}

#[test]
fn k05_adyen_reference_is_shared_by_a_payments_events() {
    one("adyen-standard", body("2027-01-15T08:59:59", "2027-01-16T08:59:59"));
    two("adyen-standard", body("AUTHORISATION", "CANCELLATION"));
    two("adyen-standard", body("\"success\":\"true\"", "\"success\":\"false\""));
}

#[test]
fn k06_hubspot_event_id_is_not_unique() {
    for (from, to) in [
        ("\"objectId\":1246", "\"objectId\":1247"),
        ("\"subscriptionId\":25", "\"subscriptionId\":26"),
        ("\"portalId\":33", "\"portalId\":34"),
        ("1799999999995", "1799999999996"),
        ("4000000001", "4000000002"),
    ] {
        two("hubspot-v3", body(from, to));
    }
    one("hubspot-v3", body("\"attemptNumber\":0", "\"attemptNumber\":3"));
}

#[test]
fn k07_hook_ids_name_the_hook() {
    two("bitbucket-cloud", header("X-Request-UUID", "another"));
    one("bitbucket-cloud", header("X-Attempt-Number", "2"));
    one("bitbucket-cloud", header("X-Hook-UUID", "another"));
    two("gitlab-token", header("Idempotency-Key", "another"));
    one("gitlab-token", header("X-Gitlab-Event-UUID", "another"));
    one("gitlab", header("X-Gitlab-Webhook-UUID", "another"));
}

#[test]
fn k08_transmission_ids_name_the_send() {
    one("box", header("BOX-DELIVERY-ID", "another"));
    two("box", body("7c9e6679", "8c9e6679"));
    one("paypal", header("PAYPAL-TRANSMISSION-ID", "another"));
    two("paypal", body("WH-2WR", "WH-3WR"));
    one("zoom", header("x-zm-trackingid", "another"));
    two("zoom", body("1799999999993", "1799999999994"));
}

#[test]
fn k09_message_ids_name_the_mail() {
    two("postmark", body("07:59:59", "07:59:58"));
    one("postmark", |_| {});
    let sendgrid = events("sendgrid", |_| {});
    assert_ne!(sendgrid[0].identity, sendgrid[1].identity);
    one("sendgrid", |_| {});

    let case = case("mandrill");
    let source = build(&case).unwrap();
    let find = |event: &str, time: i64| {
        let list = format!(r#"[{{"event":"{event}","ts":{time},"_id":"m1","msg":{{"_id":"m1"}}}}]"#);
        let mut capture = case.ctx(1).bytes("application/x-www-form-urlencoded", form(&[("mandrill_events", &list)]));
        let parts = [capture.url.as_bytes(), b"mandrill_events", list.as_bytes()];
        let signature = base1(case.secret, &parts);
        capture.set("X-Mandrill-Signature", signature);
        accepted("mandrill", judge(&case, &source, &capture)).remove(0)
    };
    assert_ne!(find("open", 1).identity, find("click", 1).identity);
    assert_ne!(find("open", 1).identity, find("open", 2).identity);
    assert!(is_one(&find("open", 1), &find("open", 1)));
}

#[test]
fn k10_notices_that_something_changed_are_never_duplicates() {
    for slug in ["dropbox", "airtable", "plaid"] {
        two(slug, |_| {});
    }
    // The classic notices are not signed: the token in the path is all there is.
    let mut spec = SourceSpec::named("mollie", "mollie").unwrap();
    spec.path_token = Some(Secret::new("t0ken"));
    let source = Source::build(spec).unwrap();
    let case = case("mollie");
    let capture = case.ctx(1).bytes("application/x-www-form-urlencoded", b"id=tr_7UhSN1zuXS".to_vec());
    let (request, _) = request(&case, &capture);
    let found = accepted("mollie", source.judge(&request, Some("t0ken"), capture.at * 1000)).remove(0);
    assert!(found.identity_kind == IdentityKind::Arrival && found.held.is_none(), "{found:?}");
}

#[test]
fn k11_dropbox_sign_hash_covers_second_and_type() {
    two("dropbox-sign", body("fa5c8a0b", "fa5c8a0c"));
    one("dropbox-sign", |_| {});
}

#[test]
fn k12_a_retry_may_edit_the_body() {
    one("notion", body("\"attempt_number\":1", "\"attempt_number\":2"));
    one("hubspot-v3", body("\"attemptNumber\":0", "\"attemptNumber\":1"));
    one("line", body("\"isRedelivery\":false", "\"isRedelivery\":true"));
    one("coinbase-commerce", body("\"attempt_number\":1", "\"attempt_number\":2"));
    one("telnyx", body("\"attempt\":1", "\"attempt\":2"));
    one("intercom", body("\"delivery_attempts\":1", "\"delivery_attempts\":2"));
    one("google-pubsub", body("\"deliveryAttempt\":1", "\"deliveryAttempt\":2"));
    one("mux", body("\"attempts\":[]", "\"attempts\":[{\"response_status_code\":500}]"));
}

#[test]
fn k13_stripe_object_id_names_the_resource() {
    two("stripe", body("evt_0", "evt_9"));
    one("stripe", |_| {});
}

#[test]
fn k14_github_keeps_its_id_and_gitea_does_not() {
    one("github", |_| {});
    two("github", header("X-GitHub-Delivery", "another"));
    let (first, second) =
        (events("gitea-forgejo", |_| {}), events("gitea-forgejo", header("X-Gitea-Delivery", "another")));
    assert_ne!(first[0].identity, second[0].identity);
    // A replay under a fresh id can be seen by its bytes.
    assert!(first[0].fingerprint.is_some() && first[0].fingerprint == second[0].fingerprint);
}

#[test]
fn k15_docusign_reports_a_state() {
    two("docusign-connect", body("07:59:59.0", "08:00:59.0"));
    two("docusign-connect", body("envelope-completed", "envelope-sent"));
    one("docusign-connect", |_| {});
}

#[test]
fn k16_a_batch_holds_many_events() {
    let batches = [
        "line",
        "gocardless",
        "sendgrid",
        "hubspot-v3",
        "adyen-standard",
        "meta-whatsapp",
        "quickbooks",
        "xero",
        "okta",
    ];
    for slug in batches {
        let found = events(slug, |_| {});
        assert!(found.len() > 1, "{slug}");
        for (position, event) in found.iter().enumerate() {
            assert!(found[..position].iter().all(|before| before.identity != event.identity), "{slug}");
            assert!(event.body.starts_with(b"{") && event.body.ends_with(b"}"), "{slug}: {:?}", event.body);
        }
        one(slug, |_| {});
    }
}
