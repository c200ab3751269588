//! The real binary with sources whose keys are fetched: from the operator's own address, and offline.

use serde_json::{Value, json};
use testkit::program;
use testkit::sender::Signed;
use testkit::vendor::{self, TOPIC, VendorServer};
use testkit::{TestDatabase, contract};

use crate::world::{BIN, PATIENCE, Setup, World, wait_until};

fn sns(changes: &[(&str, Value)]) -> Signed {
    let now = ("Timestamp", Value::from(jiff::Timestamp::now().to_string()));
    let changes: Vec<(&str, Value)> = changes.iter().cloned().chain([now]).collect();
    Signed { headers: Vec::new(), body: vendor::sns(&changes).to_string().into_bytes() }
}

fn source(cert_url: &str) -> String {
    format!(
        "[[source]]\nname = \"sns\"\nprovider = \"aws-sns\"\ntopic_arn = \"{TOPIC}\"\ncert_url = \"{cert_url}\"\n\
         [[source]]\nname = \"pinned\"\nprovider = \"aws-sns\"\ntopic_arn = \"{TOPIC}\"\n"
    )
}

contract! {
    async fn the_operators_address_replaces_the_requests(db: TestDatabase) {
        let amazon = VendorServer::plain().await;
        let url = format!("http://{}/key.pem", amazon.address());
        let world = World::start_with(db, |mut setup| {
            setup.rest.push_str(&source(&url));
            setup
        });
        let unreachable = world.expect_nothing_stored(|| world.post("sns", &sns(&[])));
        assert_eq!((unreachable.status, unreachable.header("retry-after")), (503, Some("1")));
        amazon.serve("/key.pem", vendor::SNS_CERTIFICATE);
        let key = world.expect("sns", &sns(&[]), "accepted");
        assert_eq!((world.event(&key).id.as_str(), world.event(&key).kind.as_str()), ("m-1", "Notification"));
        world.expect_nothing_stored(|| {
            world.expect_401("sns", &sns(&[("TopicArn", "arn:aws:sns:eu-central-1:666:orders".into())]));
            world.expect_401("sns", &sns(&[]).tampered());
            let evil = "https://sns.eu-central-1.amazonaws.com.evil.example/a.pem";
            world.expect_401("pinned", &sns(&[("SigningCertURL", evil.into())]));
            let loopback = format!("http://{}/key.pem", amazon.address());
            world.expect_401("pinned", &sns(&[("SigningCertURL", loopback.into())]));
            for bucket in ["sns.s3", "sns.s3-us-gov-west-1", "sns.s3-accelerate"] {
                let url = format!("https://{bucket}.amazonaws.com{}", vendor::CERTIFICATE_PATH);
                world.expect_401("pinned", &sns(&[("SigningCertURL", url.into())]));
            }
        });
        assert_eq!(amazon.requests().len(), 2);
    }
}

contract! {
    async fn a_subscription_is_confirmed_by_visiting_amazon(db: TestDatabase) {
        let amazon = VendorServer::tls().await;
        let folder = tempfile::tempdir().expect("a folder");
        let authority = folder.path().join("authority.pem");
        std::fs::write(&authority, vendor::AUTHORITY).expect("written");
        let vendors = format!("{},sns.eu-central-1.amazonaws.com={}", authority.display(), amazon.address());
        let world = World::start_with(db, |mut setup| {
            setup.rest.push_str(&source("http://127.0.0.1:9/unused.pem"));
            setup.env("ONCEBOX_TEST_VENDORS", &vendors)
        });
        let confirmation = || {
            let url = "https://sns.eu-central-1.amazonaws.com/confirm?Token=t";
            sns(&[("Type", "SubscriptionConfirmation".into()), ("SubscribeURL", url.into()), ("Token", "t".into())])
        };
        world.expect_nothing_stored(|| {
            assert_eq!(world.post("pinned", &confirmation()).status, 503, "the certificate cannot be had");
            amazon.serve(vendor::CERTIFICATE_PATH, vendor::SNS_CERTIFICATE);
            // An address that did not work is left alone for some seconds.
            wait_until("the certificate is there and Amazon is asked", PATIENCE, || {
                assert_eq!(world.post("pinned", &confirmation()).status, 503, "Amazon does not confirm");
                amazon.requests().iter().any(|line| line.contains("/confirm"))
            });
            amazon.serve("/confirm?Token=t", "<ConfirmSubscriptionResponse/>");
            let visits = amazon.requests().len();
            world.expect_401("pinned", &confirmation().tampered());
            assert_eq!(amazon.requests().len(), visits, "nothing is visited for strangers");
            assert_eq!(world.post("pinned", &confirmation()).status, 200);
        });
        assert_eq!(amazon.requests().last().map(String::as_str), Some("GET /confirm?Token=t HTTP/1.1"));
        world.expect("pinned", &sns(&[]), "accepted");
    }

    async fn a_reload_keeps_what_was_fetched(db: TestDatabase) {
        let amazon = VendorServer::plain().await;
        amazon.serve("/key.pem", vendor::SNS_CERTIFICATE);
        let mut setup = Setup::new(db.url());
        setup.rest.push_str(&source(&format!("http://{}/key.pem", amazon.address())));
        let mut world = World { program: setup.serve(), db };
        world.expect("sns", &sns(&[("MessageId", "before".into())]), "accepted");
        amazon.serve("/key.pem", "the vendor is out of order");
        setup.rest = setup.rest.replace("name = \"pull\"", "name = \"drawn\"");
        world.program.write_config(&setup.text());
        world.program.signal(libc::SIGHUP);
        wait_until("it reloaded", PATIENCE, || world.program.log().contains("reloaded"));
        world.expect("sns", &sns(&[("MessageId", "after".into())]), "accepted");
        assert_eq!(amazon.requests().len(), 1);
    }
}

#[test]
fn explain_judges_offline_with_the_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let body = data_encoding::BASE64.encode(vendor::sns(&[]).to_string().as_bytes());
    let line = json!({ "method": "POST", "url": "/in/sns", "headers": {}, "body": body, "at": 1_731_700_000 });
    std::fs::write(folder.path().join("capture"), line.to_string()).expect("written");
    let topic = format!("topic_arn={TOPIC}");
    let explain = |secret: &[&str]| -> Value {
        let args = [&["explain", "--json", "--provider", "aws-sns", "--set", &topic], secret, &["capture"]].concat();
        let output = program::run(BIN, &args, &[], folder.path());
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    let given = explain(&["--secret", vendor::SNS_CERTIFICATE]);
    assert_eq!((&given["verdict"], &given["events"][0]["id"]), (&json!("accept"), &json!("m-1")));
    let bare = explain(&[]);
    assert_eq!((&bare["verdict"], &bare["reason"]), (&json!("reject"), &json!("unknown_key")));
}
