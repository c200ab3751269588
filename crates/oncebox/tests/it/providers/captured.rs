//! What whoever saw one genuine request may not do with it: what is signed stays, everything else is theirs to choose.
//!
//! Each test keeps a signature that the vendor made and changes what it does not cover. The vendor's own deliveries,
//! retries included, must pass as before.

use std::fmt::Write as _;

use oncebox::gateway::ingest::Answer;
use oncebox::gateway::store::Inserted;
use oncebox_verify::Secret;
use testkit::TestDatabase;
use testkit::oracle::crypto::crc32;
use testkit::oracle::{Capture, ORIGIN};
use testkit::sender::Signed;

use super::keys_wrong::case;
use super::spec;
use crate::ingest::{Inbox, outcome};
use crate::world::NOW;

/// The usual delivery of a provider, changed before it is signed, so many seconds after the test's clock began.
fn genuine(slug: &str, number: u32, later: i64, change: impl FnOnce(&mut Capture)) -> Signed {
    let case = case(slug);
    let mut ctx = case.ctx(number);
    ctx.now = NOW / 1000 + later;
    let mut capture = (case.draft)(&ctx);
    change(&mut capture);
    (case.sign)(&ctx, &mut capture);
    Signed { headers: capture.headers, body: capture.body }
}

async fn inbox(db: TestDatabase, slug: &str) -> Inbox {
    let mut spec = spec(&case(slug)).unwrap();
    // The whole address, so that the path of the test's requests does not count.
    spec.settings.insert("public_url".to_owned(), Secret::new(format!("{ORIGIN}/in/{slug}")));
    Inbox::start_as(db, spec).await
}

/// The word for what became of a request.
async fn sent(inbox: &Inbox, signed: &Signed) -> &'static str {
    match inbox.send(signed).await {
        Answer::Rejected(no) => no.reason.as_str(),
        answer => match outcome(answer) {
            Inserted::Accepted(_) => "accepted",
            Inserted::Repeated(_) => "repeated",
            Inserted::Held(_) => "held",
            Inserted::Duplicate(_) => "duplicate",
            Inserted::Conflict(_) | Inserted::ConflictAgain(_) => "conflict",
        },
    }
}

/// Another body with this checksum: the case of 64 letters is chosen until it fits, which is a system of linear equations.
fn with_checksum(checksum: u32, make: impl Fn(&str) -> String) -> Vec<u8> {
    const LETTERS: usize = 64;
    let text =
        |upper: u64| -> String { (0..LETTERS).map(|bit| if upper >> bit & 1 == 1 { 'A' } else { 'a' }).collect() };
    let value = |upper: u64| crc32(make(&text(upper)).as_bytes());
    let plain = value(0);
    let mut rows: Vec<(u32, u64)> = Vec::new();
    let reduce = |rows: &[(u32, u64)], mut row: (u32, u64)| {
        for pivot in rows {
            if row.0 ^ pivot.0 < row.0 {
                row = (row.0 ^ pivot.0, row.1 ^ pivot.1);
            }
        }
        row
    };
    for bit in 0..LETTERS {
        let row = reduce(&rows, (value(1 << bit) ^ plain, 1 << bit));
        if row.0 != 0 {
            rows.push(row);
            rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.0));
        }
    }
    let (rest, upper) = reduce(&rows, (checksum ^ plain, 0));
    assert_eq!(rest, 0, "64 letters are enough");
    let body = make(&text(upper)).into_bytes();
    assert_eq!(crc32(&body), checksum);
    body
}

/// The request with another payment in it, under the same signature.
fn forged_payment(signed: &Signed, id: &str) -> Signed {
    let make = |letters: &str| {
        let mut body = String::new();
        let _ = write!(body, r#"{{"id":"{id}","event_type":"PAYMENT.CAPTURE.COMPLETED","summary":"{letters}"}}"#);
        body
    };
    Signed { headers: signed.headers.clone(), body: with_checksum(crc32(&signed.body), make) }
}

testkit::contract! {
    async fn a_paypal_transmission_brings_one_payment(db: TestDatabase) {
        let inbox = inbox(db, "paypal").await;
        let first = genuine("paypal", 1, 0, |_| {});
        assert_eq!(sent(&inbox, &first).await, "accepted");
        assert_eq!(sent(&inbox, &first).await, "duplicate");
        for n in 0..3 {
            assert_eq!(sent(&inbox, &forged_payment(&first, &format!("WH-FORGED-{n}"))).await, "held");
        }
        assert_eq!(sent(&inbox, &forged_payment(&first, "WH-FORGED-0")).await, "duplicate", "of what is held");
        // A retry is a transmission of its own, and it is used up as well.
        let retry = genuine("paypal", 1, 60, |capture| capture.set("PAYPAL-TRANSMISSION-ID", "t-2"));
        assert_eq!(sent(&inbox, &retry).await, "duplicate");
        assert_eq!(sent(&inbox, &forged_payment(&retry, "WH-FORGED-9")).await, "held");
        let other = genuine("paypal", 2, 0, |capture| capture.set("PAYPAL-TRANSMISSION-ID", "t-3"));
        assert_eq!(sent(&inbox, &other).await, "accepted");
        let world = inbox.finish().await;
        assert_eq!(world.query("select state, count(*) from {events} group by state order by state"), [["accepted", "2"], ["held", "4"]]);
        world.check();
    }

    async fn a_paypal_transmission_that_never_ran_is_used_up(db: TestDatabase) {
        let inbox = inbox(db, "paypal").await;
        let under = |number, id: &'static str, change: fn(&mut Capture)| {
            genuine("paypal", number, 0, move |capture| {
                capture.set("PAYPAL-TRANSMISSION-ID", id);
                change(capture);
            })
        };
        assert_eq!(sent(&inbox, &under(1, "t-1", |_| {})).await, "accepted");
        let other_bytes = under(1, "t-2", |capture| capture.body.push(b' '));
        assert_eq!(sent(&inbox, &other_bytes).await, "conflict");
        assert_eq!(sent(&inbox, &forged_payment(&other_bytes, "WH-FORGED-1")).await, "held");
        let no_id = under(2, "t-3", |capture| capture.body = b"{\"event_type\":\"PAYMENT.SALE.COMPLETED\"}".to_vec());
        assert_eq!(sent(&inbox, &no_id).await, "held");
        assert_eq!(sent(&inbox, &forged_payment(&no_id, "WH-FORGED-2")).await, "held");
        inbox.finish().await.check();
    }

    async fn what_is_held_for_want_of_an_id_runs_under_no_invented_one(db: TestDatabase) {
        let inbox = inbox(db, "github").await;
        let mut no_id = genuine("github", 1, 0, |_| {});
        no_id.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("x-github-delivery"));
        assert_eq!(sent(&inbox, &no_id).await, "held");
        assert_eq!(sent(&inbox, &no_id.clone().with_header("X-GitHub-Delivery", "invented")).await, "held");
        inbox.finish().await.check();
    }

    async fn an_old_paypal_transmission_is_refused(db: TestDatabase) {
        let inbox = inbox(db, "paypal").await;
        assert_eq!(sent(&inbox, &genuine("paypal", 1, -3 * 86_400, |_| {})).await, "accepted", "the last retry");
        assert_eq!(sent(&inbox, &genuine("paypal", 2, -4 * 86_400, |_| {})).await, "too_old");
        assert_eq!(sent(&inbox, &genuine("paypal", 2, 3600, |_| {})).await, "too_new");
        inbox.finish().await.check();
    }

    async fn a_linear_body_runs_once_whatever_its_id(db: TestDatabase) {
        renamed_is_held(db, "linear", "Linear-Delivery").await;
    }

    async fn a_sanity_body_of_one_moment_runs_once_whatever_its_id(db: TestDatabase) {
        renamed_is_held(db, "sanity", "idempotency-key").await;
    }

    async fn a_zendesk_body_of_one_moment_runs_once_whatever_its_id(db: TestDatabase) {
        renamed_is_held(db, "zendesk", "X-Zendesk-Webhook-Invocation-Id").await;
    }

    async fn a_qstash_token_runs_once_whatever_its_id(db: TestDatabase) {
        renamed_is_held(db, "qstash", "Upstash-Message-Id").await;
    }

    async fn a_mailgun_token_brings_one_event(db: TestDatabase) {
        let inbox = inbox(db, "mailgun").await;
        let first = genuine("mailgun", 1, 0, |_| {});
        let named = |signed: &Signed, id: &str| {
            let body = String::from_utf8(signed.body.clone()).unwrap();
            Signed { body: body.replace("Ase7i2zsRYeDXztHGENqRA00000001", id).into_bytes(), ..signed.clone() }
        };
        assert_eq!(sent(&inbox, &first).await, "accepted");
        assert_eq!(sent(&inbox, &first).await, "duplicate");
        for id in ["invented-1", "invented-2"] {
            assert_eq!(sent(&inbox, &named(&first, id)).await, "held");
        }
        // Signed at another second: the token stays what it is in these samples.
        assert_eq!(sent(&inbox, &genuine("mailgun", 2, 1, |_| {})).await, "held");
        let world = inbox.finish().await;
        assert_eq!(world.query("select distinct reason from {events} where state = 'held'"), [["repeated_delivery"]]);
        world.check();
    }

    async fn an_old_dropbox_sign_hash_is_refused(db: TestDatabase) {
        let inbox = inbox(db, "dropbox-sign").await;
        assert_eq!(sent(&inbox, &genuine("dropbox-sign", 1, -31 * 3600, |_| {})).await, "accepted", "the last retry");
        assert_eq!(sent(&inbox, &genuine("dropbox-sign", 2, -40 * 3600, |_| {})).await, "too_old");
        assert_eq!(sent(&inbox, &genuine("dropbox-sign", 3, 3600, |_| {})).await, "too_new");
        inbox.finish().await.check();
    }

    async fn a_shopify_body_runs_for_topics_that_were_sent_before(db: TestDatabase) {
        topics_are_held(db, "shopify", "X-Shopify-Webhook-Id", "X-Shopify-Topic", "orders/paid").await;
    }

    async fn a_shopify_events_body_runs_for_topics_that_were_sent_before(db: TestDatabase) {
        topics_are_held(db, "shopify-events", "Shopify-Webhook-Id", "Shopify-Topic", "Order").await;
    }

    async fn a_woocommerce_body_runs_for_topics_that_were_sent_before(db: TestDatabase) {
        topics_are_held(db, "woocommerce", "X-WC-Webhook-Delivery-ID", "X-WC-Webhook-Topic", "order.created").await;
    }

    async fn a_monday_token_for_another_address_is_refused(db: TestDatabase) {
        let inbox = inbox(db, "monday").await;
        assert_eq!(sent(&inbox, &genuine("monday", 1, 0, |_| {})).await, "accepted");
        let mut elsewhere = case("monday").ctx(2);
        (elsewhere.now, elsewhere.slug) = (NOW / 1000, "another");
        let mut capture = (case("monday").draft)(&elsewhere);
        (case("monday").sign)(&elsewhere, &mut capture);
        let signed = Signed { headers: capture.headers, body: capture.body };
        assert_eq!(sent(&inbox, &signed).await, "mismatch");
        inbox.finish().await.check();
    }
}

/// A body with what was signed beside it is one event, under whichever id it comes.
async fn renamed_is_held(db: TestDatabase, slug: &str, id: &str) {
    let inbox = inbox(db, slug).await;
    let first = genuine(slug, 1, 0, |_| {});
    assert_eq!(sent(&inbox, &first).await, "accepted");
    assert_eq!(sent(&inbox, &first).await, "duplicate");
    for n in 0..3 {
        assert_eq!(sent(&inbox, &first.clone().with_header(id, &format!("invented-{n}"))).await, "held");
    }
    assert_eq!(sent(&inbox, &genuine(slug, 2, 3, |_| {})).await, "accepted", "another event");
    // Linear writes the time into the body, so a retry has other bytes.
    if slug != "linear" {
        let name = first.headers.iter().find(|(name, _)| name == id).unwrap().1.clone();
        let retry = |capture: &mut Capture| capture.set(id, name);
        let number = if slug == "zendesk" { 1 } else { 3 };
        let retry = genuine(slug, number, 4, retry);
        assert_eq!(sent(&inbox, &retry).await, "duplicate", "signed again by the vendor");
        assert_eq!(
            sent(&inbox, &retry.with_header(id, "invented-9")).await,
            "held",
            "what the retry signed is used up"
        );
    }
    let world = inbox.finish().await;
    assert_eq!(world.query("select distinct reason from {events} where state = 'held'"), [["repeated_delivery"]]);
    world.check();
}

/// Topics may share a body, but nobody signs them: only those that came with a body of their own before may.
async fn topics_are_held(db: TestDatabase, slug: &str, id: &str, topic: &str, known: &str) {
    let inbox = inbox(db, slug).await;
    let first = genuine(slug, 1, 0, |_| {});
    let under = |name: &str, word: &str| first.clone().with_header(id, name).with_header(topic, word);
    assert_eq!(sent(&inbox, &first).await, "accepted");
    assert_eq!(sent(&inbox, &first.clone().with_header(id, "again")).await, "held", "the same topic");
    assert_eq!(sent(&inbox, &under("a", "invented")).await, "held", "a topic that never came");
    assert_eq!(sent(&inbox, &under("b", "invented")).await, "held", "not even the second time");
    let own = genuine(slug, 2, 0, |capture| {
        capture.body = [b"{\"own\":1,".as_slice(), &capture.body[1..]].concat();
        capture.set(topic, known);
    });
    assert_eq!(sent(&inbox, &own).await, "accepted", "a topic with a body of its own");
    assert_eq!(sent(&inbox, &under("c", known)).await, "accepted", "known topics may share a body");
    let world = inbox.finish().await;
    let reasons = world.query("select distinct reason from {events} where state = 'held' order by reason");
    assert_eq!(reasons, [["repeated_body"], ["repeated_topic"]]);
    world.check();
}
