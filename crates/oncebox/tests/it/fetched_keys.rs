//! Keys that are fetched and confirmations that are visited, over real TLS against a pretended vendor.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use oncebox::Clock;
use oncebox::gateway::delivery::routing::Routes;
use oncebox::gateway::ingest::{Answer, Batcher, Context, Ingest, Settings, Unavailable};
use oncebox::gateway::outgoing::VendorCalls;
use oncebox::gateway::vendor::client::VendorClient as _;
use oncebox_verify::{Request, Sample, Secret, Source, SourceSpec, Verdict};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use testkit::TestDatabase;
use testkit::vendor::{self, TOPIC, VendorServer};
use tokio::task::JoinSet;

use crate::world::World;

const NOW: i64 = 1_731_700_000_000;
const PEM: &str = vendor::CERTIFICATE_PATH;
const CONFIRM: &str = "https://sns.eu-central-1.amazonaws.com/confirm?Token=t";

/// A source of SNS messages, and somebody who answers for Amazon.
struct Rig {
    world: World,
    amazon: VendorServer,
    clock: Clock,
    ingest: Ingest,
    source: Arc<Source>,
    batcher: Batcher,
}

impl Rig {
    async fn start(db: TestDatabase) -> Self {
        let world = World::new(db).await;
        let amazon = VendorServer::tls().await;
        let authority = CertificateDer::from_pem_slice(vendor::AUTHORITY.as_bytes()).unwrap();
        let hosts = HashMap::from([("sns.eu-central-1.amazonaws.com".to_owned(), amazon.address())]);
        let clock = Clock::manual(NOW);
        let calls = VendorCalls::with_vendors(clock.clone(), vec![authority], hosts).unwrap();
        let settings = Settings { batch: 64, writers: 1 };
        let (ingest, batcher) = Batcher::start(world.store.clone(), settings, clock.clone(), world.keys.clone());
        let mut spec = SourceSpec::named("sns", "aws-sns").unwrap();
        spec.settings.insert("topic_arn".to_owned(), Secret::new(TOPIC));
        let source = Arc::new(Source::build(spec).unwrap());
        Self { world, amazon, clock, ingest: ingest.with_vendor_client(Arc::new(calls)), source, batcher }
    }

    async fn send(&self, message: &Value) -> String {
        send(&self.ingest, &self.source, message).await
    }

    /// Sends until the vendor was reached: a busy machine may cut a fetch off.
    async fn send_within_reach(&self, message: &Value) -> String {
        for _ in 0..20 {
            let answer = self.send(message).await;
            if answer != "out of reach" {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            self.let_time_pass();
        }
        self.send(message).await
    }

    /// An address that did not work is left alone for some seconds.
    fn let_time_pass(&self) {
        self.clock.set(self.clock.now() + 5_000);
    }

    async fn finish(self, events: i64) {
        drop(self.ingest);
        self.batcher.finish().await;
        assert_eq!(self.world.count("events"), events);
    }
}

async fn send(ingest: &Ingest, source: &Arc<Source>, message: &Value) -> String {
    let routes = Routes::default();
    let context = Context { source, path_token: None, remote: "::1".into(), routes: &routes };
    let (headers, body) = (HeaderMap::new(), message.to_string().into());
    match ingest.accept(context, Request { method: Method::POST, target: "/in/sns".to_owned(), headers, body }).await {
        Answer::Stored(_) => "stored".to_owned(),
        Answer::Handshake(reply) => format!("handshake {}", reply.status.as_u16()),
        Answer::Rejected(no) => no.reason.as_str().to_owned(),
        Answer::Unavailable(Unavailable::VendorOutOfReach) => "out of reach".to_owned(),
        other => format!("{other:?}"),
    }
}

fn message(id: &str) -> Value {
    vendor::sns(&[("MessageId", id.into())])
}

testkit::contract! {
    async fn one_fetch_serves_everybody(db: TestDatabase) {
        let rig = Rig::start(db).await;
        rig.amazon.serve(PEM, vendor::SNS_CERTIFICATE);
        let mut rounds = 0;
        loop {
            rounds += 1;
            let mut senders = JoinSet::new();
            for n in 0..20 {
                let (ingest, source) = (rig.ingest.clone(), rig.source.clone());
                senders.spawn(async move { send(&ingest, &source, &message(&format!("m-{n}"))).await });
            }
            let answers = senders.join_all().await;
            // A busy machine may cut a fetch or a commit off.
            if rounds < 10 && answers.iter().any(|answer| answer != "stored") {
                rig.let_time_pass();
                continue;
            }
            assert_eq!(answers, ["stored"; 20]);
            break;
        }
        let fetched = rig.amazon.requests();
        assert!((1..=rounds).contains(&fetched.len()), "{fetched:?} in {rounds} rounds");
        assert!(fetched.iter().all(|request| *request == format!("GET {PEM} HTTP/1.1")), "{fetched:?}");
        rig.clock.set(NOW + 5 * 3_600_000);
        assert_eq!(rig.send(&message("old")).await, "too_old");
        rig.ingest.refresh_keys([rig.source.clone()]).await;
        assert_eq!(rig.amazon.requests().len(), fetched.len() + 1, "fetched again before it expires");
        rig.finish(20).await;
    }

    async fn a_vendor_out_of_reach_is_no_verdict(db: TestDatabase) {
        let rig = Rig::start(db).await;
        assert_eq!(rig.send(&message("m-1")).await, "out of reach");
        rig.let_time_pass();
        rig.amazon.serve(PEM, "<html>");
        assert_eq!(rig.send(&message("m-1")).await, "out of reach");
        rig.let_time_pass();
        rig.amazon.answer(PEM, "302 Found\r\nlocation: /other.pem\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(rig.send(&message("m-1")).await, "out of reach");
        rig.let_time_pass();
        rig.amazon.serve(PEM, vendor::EXPIRED_CERTIFICATE);
        assert_eq!(rig.send(&message("m-1")).await, "out of reach");
        for n in 0..60 {
            let url = format!("https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-{n:032x}.pem");
            let answer = rig.send(&vendor::sns(&[("SigningCertURL", url.into())])).await;
            assert_eq!(answer, "out of reach");
        }
        // A fetch that a busy machine cuts off may not have been seen by the vendor.
        let fetched = rig.amazon.requests().len();
        assert!((4..=64).contains(&fetched), "each address is asked once: {fetched}");
        rig.finish(0).await;
    }

    async fn forged_addresses_do_not_keep_a_good_one_from_being_fetched_again(db: TestDatabase) {
        let rig = Rig::start(db).await;
        rig.amazon.serve(PEM, vendor::SNS_CERTIFICATE);
        assert_eq!(rig.send_within_reach(&message("m-1")).await, "stored");
        rig.clock.set(NOW + 5 * 3_600_000);
        for n in 0..60 {
            let url = format!("https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-{n:032x}.pem");
            rig.send(&vendor::sns(&[("SigningCertURL", url.into())])).await;
        }
        // Used since it came, by a message that is too old now.
        assert_eq!(rig.send(&message("old")).await, "too_old");
        let before = rig.amazon.requests().len();
        rig.ingest.refresh_keys([rig.source.clone()]).await;
        assert_eq!(rig.amazon.requests()[before..], [format!("GET {PEM} HTTP/1.1")]);
        rig.finish(1).await;
    }

    async fn a_subscription_is_confirmed_once_it_is_verified(db: TestDatabase) {
        let rig = Rig::start(db).await;
        rig.amazon.serve(PEM, vendor::SNS_CERTIFICATE);
        assert_eq!(rig.send(&vendor::sns_confirmation(CONFIRM)).await, "out of reach", "Amazon said 404");
        rig.amazon.serve("/confirm?Token=t", "<ConfirmSubscriptionResponse/>");
        assert_eq!(rig.send_within_reach(&vendor::sns_confirmation(CONFIRM)).await, "handshake 200");
        let visits = rig.amazon.requests().len();
        let mut forged = vendor::sns_confirmation(CONFIRM);
        forged["Token"] = "other".into();
        assert_eq!(rig.send(&forged).await, "mismatch");
        assert_eq!(rig.send(&vendor::sns_confirmation("https://evil.example/")).await, "wrong_claim");
        assert_eq!(rig.amazon.requests().len(), visits, "nothing is visited for strangers");
        rig.finish(0).await;
    }
}

/// Where [`vendor::SNS_LEAF`] says its issuer's certificate is.
const ISSUER: (&str, &str) = ("crt.r2m01.amazontrust.com", "/r2m01.cer");

/// What becomes of a message when this is served as its certificate, and that as its issuer's.
async fn sns_judged_by(certificate: &str, issuer: Option<&[u8]>, now: i64) -> String {
    let (amazon, authority) = (VendorServer::tls().await, VendorServer::plain().await);
    amazon.serve(PEM, certificate);
    if let Some(issuer) = issuer {
        authority.serve_bytes(ISSUER.1, issuer);
    }
    let trusted = [vendor::AUTHORITY, vendor::BETWEEN_AUTHORITY];
    let trusted = trusted.map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).to_vec();
    let hosts = HashMap::from([
        ("sns.eu-central-1.amazonaws.com".to_owned(), amazon.address()),
        (ISSUER.0.to_owned(), authority.address()),
    ]);
    let calls = VendorCalls::with_vendors(Clock::manual(now), trusted, hosts).unwrap();
    let mut spec = SourceSpec::named("sns", "aws-sns").unwrap();
    spec.settings.insert("topic_arn".to_owned(), Secret::new(TOPIC));
    let source = Source::build(spec).unwrap();
    let body = vendor::sns(&[]).to_string().into();
    let request = Request { method: Method::POST, target: "/in/sns".to_owned(), headers: HeaderMap::new(), body };
    let Verdict::NeedsKey(wanted) = source.judge(&request, None, NOW) else { panic!("a key is wanted first") };
    match calls.fetch(&wanted).await {
        Err(error) => error.0,
        Ok(fetched) => {
            assert!(source.learn(&wanted, &fetched.text, fetched.max_age, NOW));
            match source.judge(&request, None, NOW) {
                Verdict::Accept(_) => "accepted".to_owned(),
                other => format!("{other:?}"),
            }
        }
    }
}

/// Amazon serves the certificate alone, so its issuer's is fetched from the authority that it names.
#[tokio::test]
async fn amazons_certificate_must_lead_to_an_authority_and_bear_its_name() {
    let refused = "the certificate is not one of sns.amazonaws.com by the web's authorities";
    let between = Some(vendor::BETWEEN);
    for (what, certificate, issuer, expected) in [
        ("issued by a root", vendor::SNS_CERTIFICATE, None, "accepted"),
        ("issued in between", vendor::SNS_LEAF, between, "accepted"),
        ("its issuer out of reach", vendor::SNS_LEAF, None, "crt.r2m01.amazontrust.com answered 404"),
        ("its issuer is another", vendor::SNS_LEAF, Some(b"<html>".as_slice()), refused),
        ("another's name", vendor::PAYPAL_CERTIFICATE, None, refused),
        ("no authority", SELF_SIGNED_SNS, None, refused),
        ("expired", vendor::EXPIRED_CERTIFICATE, None, refused),
        ("a key and no certificate", vendor::RSA_KEY, None, refused),
        ("no certificate", "<html>", None, refused),
    ] {
        assert_eq!(sns_judged_by(certificate, issuer, NOW).await, expected, "{what}");
    }
}

/// Names Amazon and was issued by nobody.
const SELF_SIGNED_SNS: &str = include_str!("../../../testkit/src/oracle/keys/sns.cert.pem");

const PAYPAL_PEM: &str = "/v1/notifications/certs/CERT-sample";
/// Names PayPal and was issued by nobody.
const SELF_SIGNED: &str = include_str!("../../../testkit/src/oracle/keys/paypal.cert.pem");

fn paypal(secrets: Vec<Secret>) -> Source {
    let mut spec = SourceSpec::named("paypal", "paypal").unwrap();
    spec.settings.insert("webhook_id".to_owned(), Secret::new("WH-1"));
    spec.secrets = secrets;
    Source::build(spec).unwrap()
}

/// What becomes of a request that the vendor's key signed, when this is served as its certificate.
async fn judged_by(certificate: &str, now: i64) -> String {
    let vendor = VendorServer::tls().await;
    vendor.serve(PAYPAL_PEM, certificate);
    let authority = CertificateDer::from_pem_slice(vendor::AUTHORITY.as_bytes()).unwrap();
    let hosts = HashMap::from([("api.paypal.com".to_owned(), vendor.address())]);
    let calls = VendorCalls::with_vendors(Clock::manual(now), vec![authority], hosts).unwrap();
    let key: String = vendor::RSA_KEY.lines().filter(|line| !line.starts_with('-')).collect();
    let (signer, source) = (paypal(vec![Secret::new(key)]), paypal(Vec::new()));
    let draft = oncebox_verify::sample(&signer, &Sample { id: "WH-EVENT", event_type: None, filler_bytes: 0 }, now);
    let request = signer.sign(draft, now).unwrap();
    let Verdict::NeedsKey(wanted) = source.judge(&request, None, now) else { panic!("a key is wanted first") };
    match calls.fetch(&wanted).await {
        Err(error) => error.0,
        Ok(fetched) => {
            assert!(source.learn(&wanted, &fetched.text, fetched.max_age, now));
            match source.judge(&request, None, now) {
                Verdict::Accept(_) => "accepted".to_owned(),
                other => format!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn paypals_certificate_must_lead_to_an_authority() {
    const DAY: i64 = 86_400_000;
    let refused = "the certificate is not one of paypal.com by the web's authorities";
    let year = |year: i64| (year - 1970) * 365 * DAY + 100 * DAY;
    for (what, certificate, now, expected) in [
        ("a good one", vendor::PAYPAL_CERTIFICATE, NOW, "accepted"),
        ("no authority", SELF_SIGNED, year(2030), refused),
        ("another's name", vendor::SNS_CERTIFICATE, NOW, refused),
        ("expired", vendor::PAYPAL_CERTIFICATE, year(2125), refused),
        ("not good yet", vendor::PAYPAL_CERTIFICATE, year(2018), refused),
        ("no certificate", "<html>", NOW, refused),
    ] {
        assert_eq!(judged_by(certificate, now).await, expected, "{what}");
    }
}
