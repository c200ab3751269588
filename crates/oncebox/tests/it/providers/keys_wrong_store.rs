//! The wrong dedup keys once more, through the store: what is on disk after deliveries that look alike.

use oncebox::gateway::store::Inserted;
use testkit::TestDatabase;
use testkit::oracle::Capture;
use testkit::sender::Signed;

use super::keys_wrong::case;
use super::spec;
use crate::ingest::{Inbox, outcome};
use crate::world::NOW;

/// The usual delivery of a provider with a change, signed at the time of the test's clock.
fn delivery(slug: &str, change: impl FnOnce(&mut Capture)) -> Signed {
    let case = case(slug);
    let mut ctx = case.ctx(1);
    ctx.now = NOW / 1000;
    let mut capture = (case.draft)(&ctx);
    change(&mut capture);
    (case.sign)(&ctx, &mut capture);
    Signed { headers: capture.headers, body: capture.body }
}

async fn inbox(db: TestDatabase, slug: &str) -> Inbox {
    Inbox::start_as(db, spec(&case(slug)).unwrap()).await
}

testkit::contract! {
    async fn shopify_topics_of_one_action_are_two_events(db: TestDatabase) {
        let mut spec = spec(&case("shopify")).unwrap();
        spec.description.set("topics", &toml::Value::from(vec!["orders/paid"])).unwrap();
        let inbox = Inbox::start_as(db, spec).await;
        let created = delivery("shopify", |_| {});
        let paid = delivery("shopify", |capture| {
            capture.set("X-Shopify-Topic", "orders/paid");
            capture.set("X-Shopify-Webhook-Id", "another");
        });
        let replayed = delivery("shopify", |capture| capture.set("X-Shopify-Webhook-Id", "a third"));
        assert!(matches!(outcome(inbox.send(&created).await), Inserted::Accepted(_)));
        assert!(matches!(outcome(inbox.send(&paid).await), Inserted::Accepted(_)));
        assert!(matches!(outcome(inbox.send(&created).await), Inserted::Duplicate(_)));
        assert!(matches!(outcome(inbox.send(&replayed).await), Inserted::Held(_)));
        let world = inbox.finish().await;
        assert_eq!(world.count("events"), 3);
        world.check();
    }

    async fn a_github_redelivery_is_absorbed(db: TestDatabase) {
        let inbox = inbox(db, "github").await;
        let push = delivery("github", |_| {});
        let key = outcome(inbox.send(&push).await).key();
        assert_eq!(outcome(inbox.send(&push).await), Inserted::Duplicate(key));
        let world = inbox.finish().await;
        assert_eq!(world.count("events"), 1);
        world.check();
    }

    async fn a_body_that_a_retry_edits_is_one_event(db: TestDatabase) {
        let inbox = inbox(db, "notion").await;
        let first = delivery("notion", |_| {});
        let again = delivery("notion", |capture| capture.replace("\"attempt_number\":1", "\"attempt_number\":2"));
        let key = outcome(inbox.send(&first).await).key();
        assert_eq!(outcome(inbox.send(&again).await), Inserted::Duplicate(key));
        let world = inbox.finish().await;
        assert_eq!(world.count("events"), 1);
        world.check();
    }

    async fn notices_of_a_change_are_all_events(db: TestDatabase) {
        let inbox = inbox(db, "dropbox").await;
        let notice = delivery("dropbox", |_| {});
        for _ in 0..2 {
            assert!(matches!(outcome(inbox.send(&notice).await), Inserted::Accepted(_)));
        }
        let world = inbox.finish().await;
        assert_eq!(world.count("events"), 2);
        world.check();
    }
}
