//! Signatures, times and identities as an attacker would send them: the documented answer, and nothing stored.

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, HEXLOWER, HEXUPPER};
use serde_json::json;
use testkit::http;
use testkit::oracle::crypto::{base64url, p256_fixed, rsa256};
use testkit::oracle::{Capture, Case, Ctx, Place, cases};
use testkit::sender::{self, Signed, hmac_sha256};
use testkit::{TestDatabase, contract};

use crate::chance::number;
use crate::world::{
    CUSTOM, GITHUB, PATIENCE, SHOPIFY, SLACK, STANDARD, STRIPE, World, custom, github, now, stripe, wait_until,
};

/// Ids of D13: enough to see a table or a label set grow. `ONCEBOX_TEST_IDS` sets another number.
const UNVERIFIED_IDS: usize = 20_000;
/// Senders that sign tokens, and the algorithm of each.
const TOKENS: [(&str, &str); 3] = [("plaid", "ES256"), ("google-pubsub", "RS256"), ("netlify", "HS256")];

contract! {
    async fn signatures_that_are_not_exactly_right_are_401(db: TestDatabase) {
        let world = World::start(db);
        let time = now();
        let body = stripe("evt_1").body;
        let mac = hmac_sha256(STRIPE.as_bytes(), &[time.to_string().as_bytes(), b".", &body]);
        let (hex, sha1) = (HEXLOWER.encode(&mac), "0123456789abcdef0123456789abcdef01234567");
        let other = HEXLOWER.encode(&hmac_sha256(b"whsec_other", &[time.to_string().as_bytes(), b".", &body]));
        let nine = format!("t={time}{}", format!(",v1={other}").repeat(8));
        world.expect_nothing_stored(|| {
            for header in [
                // S1, S2: empty, blank, only the scheme
                String::new(), "   ".into(), "v1=".into(), format!("t={time}"), format!("t={time},v1="), ",,,".into(),
                // S4: cut, prefix, extra bytes
                format!("t={time},v1={}", &hex[..62]), format!("t={time},v1={}", &hex[..63]),
                format!("t={time},v1={hex}00"), format!("t={time},v1={hex}0"),
                // S5: another encoding
                format!("t={time},v1={}", BASE64.encode(&mac)), format!("t={time},v1=0x{hex}"),
                // S6: another scheme
                format!("t={time},v0={hex}"), format!("t={time},v0={hex},v1={other}"), format!("t={time},v9={hex}"),
                format!("t={time},sha1={sha1}"), format!("t={time},V1={hex}"),
                // S8: nine signatures, the right one last
                format!("{nine},v1={hex}"),
                // S14: times that are not exactly ten digits
                format!("v1={hex}"), format!("t={time},t={time},v1={hex}"), format!("t=-{time},v1={hex}"),
                format!("t=+{time},v1={hex}"), format!("t= {time},v1={hex}"), format!("t={time}.0,v1={hex}"),
                format!("t={time}000,v1={hex}"), format!("t=00000000000{time},v1={hex}"), format!("t=1e9,v1={hex}"),
                format!("t=,v1={hex}"), "t=١٧٠٠٠٠٠٠٠٠,v1=00".into(),
            ] {
                let answer = http::post(world.addr(), "/in/stripe", &[("stripe-signature", &header)], &body);
                assert_eq!(answer.status, 401, "{header}");
            }
            let good = format!("t={time},v1={hex}");
            let twice = [("stripe-signature", good.as_str()), ("stripe-signature", good.as_str())];
            assert_eq!(http::post(world.addr(), "/in/stripe", &twice, &body).status, 401, "two lines");
            assert_eq!(http::post(world.addr(), "/in/stripe", &[], &body).status, 401, "no line");
        });
        // S8: eight are tried, and a right one among them is enough.
        let eight = format!("t={time}{},v1={hex}", format!(",v1={other}").repeat(7));
        let rotated = Signed { headers: vec![("stripe-signature".into(), eight)], body };
        world.expect_stored(1, 1, || world.expect("stripe", &rotated, "accepted"));
    }

    async fn other_encodings_follow_one_rule_per_scheme(db: TestDatabase) {
        let world = World::start(db);
        let body = br#"{"n":1,"o":"??>>"}"#.to_vec();
        let mac = hmac_sha256(SHOPIFY.as_bytes(), &[&body]);
        let shopify = sender::shopify_bytes(SHOPIFY, "w-1", "orders/paid", body.clone());
        let std = BASE64.encode(&mac);
        world.expect_nothing_stored(|| {
            for signature in [BASE64_NOPAD.encode(&mac), HEXLOWER.encode(&mac), format!("{std}=="), format!("{std}A"),
                std[..43].to_owned(), format!("sha256={std}")] {
                world.expect_401("shopify", &shopify.clone().with_header("x-shopify-hmac-sha256", &signature));
            }
            let url_safe = BASE64URL.encode(&mac);
            if url_safe != std {
                world.expect_401("shopify", &shopify.clone().with_header("x-shopify-hmac-sha256", &url_safe));
            }
            // S6: GitHub's SHA-1 header alone, and the algorithm from the request.
            let signed = github("d-1", &json!({"n": 1}));
            let sha256 = signed.headers.iter().find(|(name, _)| name == "X-Hub-Signature-256").expect("it is signed").1.clone();
            let bare = signed.without_header("x-hub-signature-256");
            for (name, value) in [
                ("x-hub-signature", sha256.clone()), ("x-hub-signature-256", sha256.replace("sha256=", "sha1=")),
                ("x-hub-signature-256", sha256.replace("sha256=", "")), ("x-hub-signature-256", format!("sha512={sha256}")),
            ] {
                world.expect_401("github", &bare.clone().with_header(name, &value));
            }
        });
        // S5: hex in upper case is the same bytes.
        let signature = HEXUPPER.encode(&hmac_sha256(CUSTOM.as_bytes(), &[br#"{"id":"upper"}"#]));
        let upper = Signed { headers: vec![("x-signature".into(), signature)], body: br#"{"id":"upper"}"#.to_vec() };
        let key = world.expect_stored(1, 1, || world.expect("custom", &upper, "accepted"));
        assert_eq!(world.event(&key).id, "upper");
        world.expect_nothing_stored(|| assert_eq!(world.expect("custom", &custom(upper.body), "duplicate"), key));
        world.expect("shopify", &shopify, "accepted");
    }

    async fn only_the_bytes_that_were_signed_are_taken(db: TestDatabase) {
        let world = World::start(db);
        let signed = custom("{\"id\":\"a\",\n\"n\":1}");
        world.expect_nothing_stored(|| {
            for body in ["{\"id\":\"a\",\"n\":1}", "{\"id\":\"a\",\r\n\"n\":1}", "\u{feff}{\"id\":\"a\",\n\"n\":1}",
                "{\"id\":\"a\",\n\"n\":1}\n", "{\"id\":\"a\",\n\"n\":2}", ""] {
                world.expect_401("custom", &Signed { headers: signed.headers.clone(), body: body.into() });
            }
            // S17: captured at one source, sent to another.
            world.expect_401("github", &signed);
            world.expect_401("stripe", &github("d-1", &json!({})));
            world.expect_401("svix", &sender::standard_webhooks(STANDARD, now(), "m", "t", &json!({})));
            // The id is part of what Standard Webhooks signs.
            let moved = sender::standard_webhooks(STANDARD, now(), "m-1", "t", &json!({}));
            world.expect_401("standard-webhooks", &moved.with_header("webhook-id", "m-2"));
        });
        // S12: a label is not a byte.
        world.expect("custom", &signed.clone().with_header("content-type", "text/plain; charset=utf-16"), "accepted");
        // S15: exact replay inside the window.
        world.expect_nothing_stored(|| world.expect("custom", &signed, "duplicate"));
    }

    async fn the_time_window_has_sharp_edges(db: TestDatabase) {
        let world = World::start(db);
        let at = |offset: i64| sender::stripe(STRIPE, now() + offset, &format!("evt_{offset}"), "a", &json!({}));
        world.expect_nothing_stored(|| {
            for offset in [-301, 303, -86_400, 86_400] {
                world.expect_401("stripe", &at(offset));
                let slack = sender::slack(SLACK, now() + offset, "Ev1", "m", &json!({}));
                world.expect_401("slack", &slack);
                world.expect_401("standard-webhooks", &sender::standard_webhooks(STANDARD, now() + offset, "m", "t", &json!({})));
            }
            world.expect_401("slack", &sender::slack(SLACK, now(), "Ev1", "m", &json!({})).without_header("x-slack-request-timestamp"));
        });
        // The edge itself belongs to the window; two seconds are left for a slow machine.
        world.expect("stripe", &at(-298), "accepted");
        world.expect("stripe", &at(300), "accepted");
    }

    async fn what_was_right_is_refused_after_its_window(db: TestDatabase) {
        // S16: the same bytes, in the window and after it.
        let world = World::start_with(db, |mut setup| {
            setup.rest = setup.rest.replace("provider = \"stripe\"\n", "provider = \"stripe\"\ntolerance = \"2s\"\n");
            setup
        });
        let (mut time, mut signed) = (0, stripe("evt_1"));
        // On a machine that stalls the window may be over before the request is there.
        wait_until("one comes in time", PATIENCE, || {
            (time, signed) = (now(), stripe("evt_1"));
            world.post("stripe", &signed).status == 200
        });
        let key = world.db.query(&format!("select key from {}", world.db.table("events_v1"))).remove(0).remove(0);
        wait_until("its window is over", PATIENCE, || now() > time + 4);
        world.expect_nothing_stored(|| (0..5).for_each(|_| world.expect_401("stripe", &signed)));
        let late = |time: i64| sender::stripe_bytes(STRIPE, time, signed.body.clone());
        wait_until("a retry is signed anew", PATIENCE, || world.post("stripe", &late(now())).status == 200);
        // That one is counted, so those before it would be.
        wait_until("the retry is counted", PATIENCE, || world.arrivals(&key) > 1);
        assert_eq!(world.arrivals(&key), 2);
    }

    async fn a_token_cannot_choose_its_algorithm(db: TestDatabase) {
        // S7: one source for each algorithm, and tokens under every other.
        let known: Vec<Case> = cases().into_iter().filter(|case| TOKENS.iter().any(|(slug, _)| *slug == case.name())).collect();
        assert_eq!(known.len(), TOKENS.len());
        let world = World::start_with(db, |mut setup| {
            setup.rest.push_str(&known.iter().map(source_of).collect::<String>());
            setup
        });
        let private = |slug: &str| known.iter().find(|case| case.slug == slug).expect("it is known").signing_secret;
        let (rsa, p256) = (private("google-pubsub"), private("plaid"));
        for case in &known {
            let ctx = Ctx { now: now(), ..case.ctx(1) };
            let own = TOKENS.iter().find(|(slug, _)| *slug == case.slug).expect("it is known").1;
            let public = case.secret.as_bytes();
            let hmac = |signed: &[u8]| hmac_sha256(public, &[signed]);
            world.expect_nothing_stored(|| {
                for (head, sign) in [
                    ("none", &(|_: &[u8]| Vec::new()) as &dyn Fn(&[u8]) -> Vec<u8>),
                    ("None", &hmac), ("none", &hmac), ("HS256", &|signed| if own == "HS256" { Vec::new() } else { hmac(signed) }),
                    ("RS256", &|signed| if own == "RS256" { hmac(signed) } else { rsa256(rsa, signed) }),
                    ("ES256", &|signed| if own == "ES256" { hmac(signed) } else { p256_fixed(p256, signed) }),
                    (own, &|_| Vec::new()), (own, &|signed| if own == "RS256" { p256_fixed(p256, signed) } else { rsa256(rsa, signed) }),
                ] {
                    let forged = forge(case.signed(&ctx), case.place, head, sign);
                    world.expect_401(case.slug, &forged);
                }
                for (what, change) in &case.rejects {
                    let mut capture = case.signed(&ctx);
                    change(&ctx, &mut capture);
                    assert_eq!(world.post(case.slug, &as_signed(capture)).status, 401, "{}: {what}", case.slug);
                }
            });
            world.expect_stored(1, 1, || world.expect(case.slug, &as_signed(case.signed(&ctx)), "accepted"));
        }
    }

    async fn nobody_can_claim_an_identity_before_its_owner(db: TestDatabase) {
        let world = World::start(db);
        // D1: an unverified request first.
        world.expect_nothing_stored(|| world.expect_401("stripe", &stripe("evt_1").tampered()));
        world.expect("stripe", &stripe("evt_1"), "accepted");
        // D2: B's genuine body under A's id first; then genuine A, then genuine B.
        let (a, b) = (json!({"who": "a"}), json!({"who": "b"}));
        let stolen = world.expect("github", &github("id-a", &b), "accepted");
        let first = world.expect("github", &github("id-a", &a), "accepted");
        let second = world.expect("github", &github("id-b", &b), "held");
        let ready = [&stolen, &first, &second].map(|key| world.deliveries(key));
        assert_eq!(ready, [["ready"], ["ready"], ["held"]], "each body runs once");
        // D3: one captured body under a hundred ids.
        let ids = (0..100).map(|n| github(&format!("fresh-{n}"), &json!({"captured": true})).raw("github", world.addr()));
        let before = world.db.query(&format!("select count(*) from {} where state = 'ready'", world.db.table("deliveries")));
        assert!(http::blast(world.addr(), ids, 8).iter().all(|outcome| outcome.status() == Some(200)));
        let after = world.db.query(&format!("select count(*) from {} where state = 'ready'", world.db.table("deliveries")));
        let number = |rows: &[Vec<String>]| rows[0][0].parse::<i64>().expect("a count");
        assert_eq!(number(&after) - number(&before), 1);
        let held = format!("select count(*) from {} where reason = 'repeated_body' and state = 'held'", world.db.table("events"));
        assert_eq!(world.db.query(&held)[0][0], "100", "99 and the one of D2");
        assert!(world.metrics().contains(r#"oncebox_arrivals_total{source="github",result="held"} 100"#), "{}", world.metrics());
    }

    async fn odd_ids_never_break_anything(db: TestDatabase) {
        let world = World::start(db);
        // D7, D9, D10: text and digits; the number and the text of the same digits are one id.
        for (body, id) in [
            (r#"{"id":"\u202eevil"}"#, "\u{202e}evil"), (r#"{"id":"\ud83d\ude00"}"#, "😀"), (r#"{"id":7}"#, "7"),
            (r#"{"id":-0}"#, "-0"), (r#"{"id":18446744073709551616000}"#, "18446744073709551616000"),
            (r#"{"id":"a\nb"}"#, "a\nb"), (r#"{"id":"'; drop table events; --"}"#, "'; drop table events; --"),
            (r#"{"id":"%s\\x"}"#, "%s\\x"),
        ] {
            let key = world.expect("custom", &custom(body), "accepted");
            assert_eq!(world.event(&key).id, id);
        }
        let answer = world.post("custom", &custom(r#"{"id":"7"}"#));
        assert_eq!(answer.json()["status"], "conflict", "7 and \"7\" are one id: {}", answer.text());

        // D7: ids in headers.
        let raw = |id: &[u8]| {
            let signed = github("ID", &json!({"id": id}));
            let wire = signed.raw("github", world.addr());
            let at = wire.windows(4).position(|four| four == b": ID").expect("the id is there") + 2;
            [&wire[..at], id, &wire[at + 2..]].concat()
        };
        for (id, allowed) in [(&b"\xff\xfe"[..], &[200_u16][..]), ("ü".as_bytes(), &[200]), (b"a\x00b", &[400]), (b"a\x01b", &[400]), (b"", &[200])] {
            let before = world.row_counts();
            let outcome = &http::blast(world.addr(), [raw(id)], 1)[0];
            let status = outcome.status().expect("an answer");
            assert!(allowed.contains(&status), "{id:?}: {outcome:?}");
            assert_eq!(world.row_counts() != before, status == 200, "{id:?}");
        }
    }

    async fn the_configured_place_of_an_id_wins(db: TestDatabase) {
        // D11: header and body disagree, each way round.
        let world = World::start_with(db, |mut setup| {
            let custom = setup.rest.split("[[source]]").find(|text| text.contains("name = \"custom\"")).expect("it is there");
            let both = custom.replace("\"custom\"\nprovider", "\"both\"\nprovider");
            let both = both.replace("id = \"json:/id\"", "id = [\"header:x-id\", \"json:/id\"]");
            setup.rest.push_str(&format!("[[source]]{both}"));
            setup
        });
        let github = |id: &str| github(id, &json!({"id": "in-body", "delivery": "in-body"}));
        let key = world.expect_stored(1, 1, || world.expect("github", &github("in-header"), "accepted"));
        assert_eq!(world.event(&key).id, "in-header");
        world.expect_nothing_stored(|| assert_eq!(world.expect("github", &github("in-header"), "duplicate"), key));

        let custom = |header: &str| {
            let signed = custom(r#"{"id":"in-body"}"#).with_header("webhook-id", header);
            signed.with_header("x-github-delivery", header).with_header("x-id", header).with_header("id", header)
        };
        let key = world.expect_stored(1, 1, || world.expect("custom", &custom("in-header"), "accepted"));
        assert_eq!(world.event(&key).id, "in-body");
        world.expect_nothing_stored(|| assert_eq!(world.expect("custom", &custom("another"), "duplicate"), key));

        let standard = sender::standard_webhooks(STANDARD, now(), "in-header", "t", &json!({"id": "in-body"}));
        let key = world.expect_stored(1, 1, || world.expect("standard-webhooks", &standard, "accepted"));
        assert_eq!(world.event(&key).id, "in-header");

        // Where both places are named, the first wins, and only a difference is counted.
        for (body, header, id) in [("a", Some("a"), "a"), ("b", None, "b"), ("c", Some("d"), "d"), ("e", Some("f"), "f")] {
            let signed = self::custom(format!("{{\"id\":\"{body}\"}}"));
            let signed = header.map_or(signed.clone(), |header| signed.with_header("x-id", header));
            let key = world.expect("both", &signed, "accepted");
            assert_eq!(world.event(&key).id, id);
        }
        let counted = |source: &str, count: u32| world.metrics().contains(&format!("oncebox_id_mismatches_total{{source=\"{source}\"}} {count}\n"));
        assert!(counted("both", 2) && counted("github", 0) && counted("custom", 0), "{}", world.metrics());
    }

    async fn a_flood_of_unverified_ids_leaves_nothing(db: TestDatabase) {
        let world = World::start(db);
        let wrong = |n: usize| sender::github_bytes("wrong", &format!("id-{n}"), "push", format!("{{\"n\":{n}}}").into_bytes());
        let ids = number("ONCEBOX_TEST_IDS").unwrap_or(UNVERIFIED_IDS);
        let flood = (0..ids).map(|n| wrong(n).raw("github", world.addr()));
        let (before, lines) = (world.memory_kib("VmRSS"), world.metrics().lines().count());
        let outcomes = world.expect_nothing_stored(|| http::blast(world.addr(), flood, 8));
        assert!(outcomes.iter().all(|outcome| outcome.status() == Some(401)));
        assert_eq!(world.db.count(&world.db.table("arrivals")), 0);
        let metrics = world.metrics();
        assert!(!metrics.contains("id-1"), "no label per id");
        assert!(metrics.lines().count() < lines + 50, "{lines}, then {} lines", metrics.lines().count());
        let counted = format!(r#"oncebox_rejections_total{{source="github",reason="mismatch"}} {ids}"#);
        wait_until("all are counted", PATIENCE, || world.metrics().contains(&counted));
        let grown = world.memory_kib("VmRSS").saturating_sub(before);
        println!("{ids} unverified ids: the server grew by {grown} KiB");
        assert!(grown < 64 * 1024, "grew by {grown} KiB");
        let shown = http::get(world.program.admin_addr(), "/api/v1/rejections", &[]).json();
        assert!(shown["items"].as_array().is_some_and(|items| items.len() <= 1000));
        let genuine = sender::github_bytes(GITHUB, "id-1", "push", b"{\"n\":1}".to_vec());
        world.expect("github", &genuine, "accepted");
    }
}

/// A source as the operator of a case would write it.
fn source_of(case: &Case) -> String {
    let settings: String = case.settings.iter().map(|(name, value)| format!("{name} = \"{value}\"\n")).collect();
    let (name, secret) = (case.slug, case.secret);
    format!(
        "[[source]]\nname = \"{name}\"\nprovider = \"{name}\"\nsecrets = [{{ value = '''{secret}''' }}]\n{settings}\n"
    )
}

/// The same claims under another head, signed in another way.
fn forge(mut capture: Capture, place: Place, alg: &str, sign: &dyn Fn(&[u8]) -> Vec<u8>) -> Signed {
    let Place::Header(name) = place else { panic!("a token stands in a header") };
    let (scheme, token) = match capture.value(name).split_once(' ') {
        Some((scheme, token)) => (format!("{scheme} "), token.to_owned()),
        None => (String::new(), capture.value(name).to_owned()),
    };
    let claims = token.split('.').nth(1).expect("a token has three parts");
    let signed = format!("{}.{claims}", base64url(json!({"alg": alg, "typ": "JWT"}).to_string().as_bytes()));
    let signature = base64url(&sign(signed.as_bytes()));
    capture.set(name, format!("{scheme}{signed}.{signature}"));
    as_signed(capture)
}

fn as_signed(capture: Capture) -> Signed {
    Signed { headers: capture.headers, body: capture.body }
}
