//! Every fault point of the ingest path in turn fails, or loses its result: the sender's retry always ends with one
//! event, whole, and no answer promised what was not on disk.

use std::collections::BTreeSet;

use oncebox::gateway::fault::Faults;
use oncebox::gateway::ingest::{Answer, Unavailable};
use oncebox::gateway::store::Inserted;
use testkit::TestDatabase;

use crate::ingest::{Inbox, outcome, stripe};

/// More points than one event passes.
const POINTS_MAX: usize = 100;

testkit::contract! {
    async fn one_event_whatever_fails(db: TestDatabase) {
        sweep(db, "fail").await;
    }

    async fn one_event_whatever_result_is_lost(db: TestDatabase) {
        sweep(db, "unknown").await;
    }
}

async fn sweep(db: TestDatabase, action: &str) {
    let mut entered = BTreeSet::new();
    let mut inbox = Inbox::start(db).await;
    for nth in 1..POINTS_MAX {
        let faults = Faults::parse(&format!("*={action}@{nth}")).unwrap();
        inbox = inbox.restart(&faults).await;
        let event_id = format!("evt_{nth}");
        let first = inbox.send(&stripe(&event_id)).await;
        let passed = faults.passed();
        inbox = inbox.restart(&Faults::none()).await;
        check_first(&inbox, &event_id, &first);
        let retry = outcome(inbox.send(&stripe(&event_id)).await);
        check_retry(&inbox, &event_id, &first, retry);
        entered.extend(passed.get(nth - 1).copied());
        if passed.len() < nth {
            assert!(matches!(outcome(first), Inserted::Accepted(_)), "nothing was armed");
            check_entered(&entered);
            return inbox.finish().await.check();
        }
    }
    panic!("the sweep never came to its end");
}

/// Only what is on disk was promised, and what is there is whole.
fn check_first(inbox: &Inbox, event_id: &str, first: &Answer) {
    let stored = rows(inbox, event_id);
    match first {
        Answer::Stored(_) => assert_eq!(stored, 1, "{event_id} was promised"),
        Answer::Unavailable(Unavailable::StoreFailed | Unavailable::Unknown) => assert!(stored <= 1),
        other => panic!("{event_id}: {other:?}"),
    }
    inbox.world.check();
}

fn check_retry(inbox: &Inbox, event_id: &str, first: &Answer, retry: Inserted) {
    if let Answer::Stored(receipt) = first {
        assert_eq!(retry, Inserted::Duplicate(receipt.outcomes[0].key()));
    }
    assert!(matches!(retry, Inserted::Accepted(_) | Inserted::Duplicate(_)), "{event_id}: {retry:?}");
    assert_eq!(rows(inbox, event_id), 1);
    let key = retry.key();
    let found = inbox.world.query(&format!(
        "select e.body_sha256, (select count(*) from {{deliveries_v1}} d where d.key = e.key and d.state = 'ready') \
         from {{events_v1}} e where e.key = '{key}' and e.state = 'accepted'"
    ));
    assert_eq!(found, [[stripe(event_id).body_sha256(), "2".to_owned()]]);
}

fn check_entered(entered: &BTreeSet<&str>) {
    for point in ["store.begin", "events.referee", "events.write", "events.written", "store.commit", "store.committed"]
    {
        assert!(entered.contains(point), "{point} was never entered: {entered:?}");
    }
}

fn rows(inbox: &Inbox, event_id: &str) -> i64 {
    let rows = inbox.world.query(&format!("select count(*) from {{events}} where event_id = '{event_id}'"));
    rows[0][0].parse().unwrap()
}
