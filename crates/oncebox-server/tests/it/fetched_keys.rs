//! The real binary with sources whose keys are fetched: from the operator's own address, and offline.

use serde_json::{Value, json};
use testkit::program;
use testkit::sender::Signed;
use testkit::vendor::{self, TOPIC, VendorServer};
use testkit::{TestDatabase, contract};

use crate::world::{BIN, World};

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
        });
        assert_eq!(amazon.requests().len(), 2);
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
