//! The ingest path over a real store: signed requests in, answers out, and what is on disk afterwards.

mod inbox;

use std::collections::HashSet;
use std::time::Duration;

use oncebox::gateway::fault::Faults;
use oncebox::gateway::ingest::{Answer, Unavailable};
use oncebox::gateway::limits;
use oncebox::gateway::store::Inserted;
use oncebox_verify::{OnRepeat, SourceSpec};
use testkit::{Backend, TestDatabase, sender};
use tokio::task::JoinSet;

pub(crate) use inbox::{Inbox, outcome, stripe};
use inbox::{SECRET, spec};

use crate::world::{NOW, wait_until};

testkit::contract! {
    async fn a_thousand_copies_are_one_event(db: TestDatabase) {
        let inbox = Inbox::start_wide(db, 4).await;
        let mut copies = JoinSet::new();
        for _ in 0..1000 {
            let door = inbox.door();
            copies.spawn(async move { outcome(door.send(&stripe("evt_1")).await) });
        }
        let outcomes = copies.join_all().await;
        let keys: HashSet<_> = outcomes.iter().map(Inserted::key).collect();
        assert_eq!(keys.len(), 1);
        let accepted = outcomes.iter().filter(|one| matches!(one, Inserted::Accepted(_))).count();
        let duplicates = outcomes.iter().filter(|one| matches!(one, Inserted::Duplicate(_))).count();
        assert_eq!((accepted, duplicates), (1, 999));
        let world = inbox.finish().await;
        assert_eq!(world.query("select event_id, arrivals from {events_v1}"), [["evt_1", "1000"]]);
        world.check();
    }

    async fn requests_during_a_commit_share_the_next_one(db: TestDatabase) {
        let faults = Faults::parse("store.commit=watch").unwrap();
        let inbox = Inbox::start_with(db, &faults).await;
        let held = inbox.hold("evt_0").await;
        let waiting = inbox.submit((0..200).map(|n| stripe(&format!("evt_{n}")))).await;
        drop(held);
        for answer in waiting {
            assert!(matches!(outcome(answer.await), Inserted::Accepted(_)));
        }
        let commits = faults.passed().iter().filter(|point| **point == "store.commit").count();
        assert!((1..=2).contains(&commits), "{commits} commits");
        let world = inbox.finish().await;
        assert_eq!(world.count("events"), 200);
        world.check();
    }

    async fn a_sender_that_hangs_up_changes_nothing(db: TestDatabase) {
        let inbox = Inbox::start(db).await;
        let held = inbox.hold("evt_0").await;
        drop(inbox.submit(["evt_0", "evt_1", "evt_2"].map(stripe)).await);
        drop(held);
        wait_until("the events are stored", || inbox.world.count("events") == 3).await;
        assert!(matches!(outcome(inbox.send(&stripe("evt_1")).await), Inserted::Duplicate(_)));
        inbox.finish().await.check();
    }

    async fn an_event_that_the_database_refuses_hurts_only_itself(db: TestDatabase) {
        let inbox = Inbox::start(db).await;
        refuse_poison(&inbox);
        let held = inbox.hold("evt_0").await;
        let poison = sender::stripe(SECRET, NOW / 1000, "evt_bad", "poison", &serde_json::json!({}));
        let waiting = inbox.submit([stripe("evt_0"), stripe("evt_1"), poison, stripe("evt_2")]).await;
        drop(held);
        for (n, answer) in waiting.into_iter().enumerate() {
            match answer.await {
                Answer::Unavailable(Unavailable::StoreFailed) => assert_eq!(n, 2),
                answer => assert!(matches!(outcome(answer), Inserted::Accepted(_)) && n != 2),
            }
        }
        let world = inbox.finish().await;
        assert_eq!(world.query("select event_id from {events} order by event_id"), [["evt_0"], ["evt_1"], ["evt_2"]]);
        world.check();
    }

    async fn an_unknown_commit_is_settled_by_the_retry(db: TestDatabase) {
        let faults = Faults::parse("store.commit=unknown@1,store.committed=unknown@1").unwrap();
        let inbox = Inbox::start_with(db, &faults).await;
        // The first never reaches the disk, the second does; both answers are the same.
        for stored in [0, 1] {
            let answer = inbox.send(&stripe("evt_1")).await;
            assert!(matches!(answer, Answer::Unavailable(Unavailable::Unknown)), "{answer:?}");
            assert_eq!(inbox.world.count("events"), stored);
        }
        assert!(matches!(outcome(inbox.send(&stripe("evt_1")).await), Inserted::Duplicate(_)));
        assert!(matches!(outcome(inbox.send(&stripe("evt_2")).await), Inserted::Accepted(_)));
        let world = inbox.finish().await;
        assert_eq!(world.count("events"), 2);
        world.check();
    }

    async fn a_full_line_is_answered_at_once(db: TestDatabase) {
        let inbox = Inbox::start(db).await;
        // One more than wait in line, and as many as a writer may have taken out of it. Signed before anybody waits: the
        // database gives up on a statement that is kept too long.
        let many = limits::WAITING_MAX + limits::BATCH_EVENTS_MAX + 1;
        let letters: Vec<_> = (0..many).map(|n| stripe(&format!("evt_{n}"))).collect();
        let held = inbox.hold("evt_0").await;
        let mut waiting = inbox.submit(letters).await;
        let last = waiting.pop().unwrap().await;
        assert!(matches!(last, Answer::Unavailable(Unavailable::Overloaded)), "{last:?}");
        drop(held);
        let mut accepted = 0;
        for answer in waiting {
            match answer.await {
                Answer::Unavailable(Unavailable::Overloaded) => {}
                answer => accepted += i64::from(matches!(outcome(answer), Inserted::Accepted(_))),
            }
        }
        assert!(accepted >= limits::WAITING_MAX as i64);
        assert_eq!(inbox.finish().await.count("events"), accepted);
    }

    async fn arrivals_are_written_soon(db: TestDatabase) {
        let inbox = Inbox::start(db).await;
        // Two looks fit into the two seconds of the contract.
        assert!(limits::ARRIVALS_EVERY * 2 < Duration::from_secs(2));
        for _ in 0..3 {
            outcome(inbox.send(&stripe("evt_1")).await);
        }
        wait_until("the arrivals are written", || arrivals(&inbox) == [["3"]]).await;
        inbox.finish().await.check();
    }

    async fn arrivals_are_written_at_the_end(db: TestDatabase) {
        let inbox = Inbox::start(db).await;
        for _ in 0..40 {
            outcome(inbox.send(&stripe("evt_1")).await);
        }
        let world = inbox.finish().await;
        assert_eq!(world.query("select arrivals from {events_v1}"), [["40"]]);
    }

    async fn the_end_waits_for_counts_that_are_being_written(db: TestDatabase) {
        let faults = Faults::parse("store.begin=watch").unwrap();
        let inbox = Inbox::start_with(db, &faults).await;
        outcome(inbox.send(&stripe("evt_0")).await);
        let mut sent = 1;
        // Until the counts wait behind us: they may have been written just before we took the place.
        let (held, begun) = loop {
            outcome(inbox.send(&stripe("evt_0")).await);
            sent += 1;
            let begun = faults.passed().len();
            let held = inbox.hold_counts().await;
            if arrivals(&inbox) != [[sent.to_string()]] {
                break (held, begun);
            }
        };
        wait_until("the counts are being written", || faults.passed().len() > begun).await;
        let mut end = Box::pin(inbox.finish());
        let early = tokio::time::timeout(Duration::from_millis(200), &mut end).await;
        assert!(early.is_err(), "the end did not wait");
        drop(held);
        let world = end.await;
        assert_eq!(world.query("select arrivals from {events_v1}"), [[sent.to_string()]]);
    }

    async fn a_large_body_is_stored_as_it_came(db: TestDatabase) {
        let inbox = Inbox::start(db).await;
        let filler = serde_json::json!({ "filler": "x".repeat(limits::BODY_BYTES_INLINE_MAX) });
        let signed = sender::stripe(SECRET, NOW / 1000, "evt_1", "invoice.paid", &filler);
        outcome(inbox.send(&signed).await);
        let world = inbox.finish().await;
        assert_eq!(world.query("select body_sha256 from {events_v1}"), [[signed.body_sha256()]]);
        world.check();
    }

    async fn what_is_not_verified_is_not_stored(db: TestDatabase) {
        let inbox = Inbox::start(db).await;
        let before = inbox.world.db.row_counts();
        for bad in [stripe("evt_1").tampered(), stripe("evt_1").without_header("stripe-signature"),
            sender::stripe(SECRET, NOW / 1000 - 3600, "evt_1", "invoice.paid", &serde_json::json!({}))] {
            assert!(matches!(inbox.send(&bad).await, Answer::Rejected(_)));
        }
        assert_eq!(inbox.finish().await.db.row_counts(), before);
    }

    async fn credentials_are_not_kept(db: TestDatabase) {
        let inbox = Inbox::start(db).await;
        let signed = stripe("evt_1").with_header("authorization", "Bearer s3cret").with_header("cookie", "a=s3cret");
        let key = outcome(inbox.send(&signed.with_header("x-kept", "1")).await).key();
        let world = inbox.finish().await;
        let headers = String::from_utf8(world.store.payload(key).await.unwrap().unwrap().headers).unwrap();
        assert!(headers.contains("x-kept: 1\n") && headers.contains("content-type: application/json\n"), "{headers}");
        assert!(!headers.contains("s3cret"), "{headers}");
    }

    async fn the_same_bytes_under_a_fresh_unsigned_id_are_held(db: TestDatabase) {
        let inbox = Inbox::start_as(db, spec("github")).await;
        let push = |id: &str| sender::github(SECRET, id, "push", &serde_json::json!({ "ref": "main" }));
        assert!(matches!(outcome(inbox.send(&push("1")).await), Inserted::Accepted(_)));
        assert!(matches!(outcome(inbox.send(&push("1")).await), Inserted::Duplicate(_)));
        assert!(matches!(outcome(inbox.send(&push("2")).await), Inserted::Held(_)));
        let world = inbox.finish().await;
        assert_eq!(world.query("select state, count(*) from {deliveries} group by state order by state"), [["held", "2"], ["ready", "2"]]);
        world.check();
    }

    async fn a_fresh_id_can_be_another_name(db: TestDatabase) {
        let inbox = Inbox::start_as(db, SourceSpec { repeated_body: Some(OnRepeat::Duplicate), ..spec("github") }).await;
        let push = |id: &str| sender::github(SECRET, id, "push", &serde_json::json!({ "ref": "main" }));
        let key = outcome(inbox.send(&push("1")).await).key();
        for id in ["2", "2", "3", "1"] {
            assert_eq!(outcome(inbox.send(&push(id)).await), Inserted::Duplicate(key));
        }
        let world = inbox.finish().await;
        assert_eq!(world.query("select event_id, arrivals from {events_v1}"), [["1", "5"]]);
        world.check();
    }

    async fn a_signed_id_with_another_body_is_a_conflict(db: TestDatabase) {
        let inbox = Inbox::start(db).await;
        let other = sender::stripe(SECRET, NOW / 1000, "evt_1", "invoice.paid", &serde_json::json!({ "other": 1 }));
        outcome(inbox.send(&stripe("evt_1")).await);
        let conflict = outcome(inbox.send(&other).await);
        assert!(matches!(conflict, Inserted::Conflict(_)));
        assert_eq!(outcome(inbox.send(&other).await), Inserted::ConflictAgain(conflict.key()));
        let world = inbox.finish().await;
        assert_eq!(world.query("select state, arrivals from {events_v1} order by state"), [["accepted", "1"], ["conflict", "2"]]);
        world.check();
    }

    async fn copies_in_one_request_count_as_duplicates(db: TestDatabase) {
        let mut batches = spec("stripe");
        batches.description.set("each", &"/events".into()).unwrap();
        let inbox = Inbox::start_as(db, batches).await;
        let one = |id: &str| serde_json::json!({ "id": id, "type": "invoice.paid" });
        let body = serde_json::json!({ "events": [one("a"), one("b"), one("a"), {"type": "x"}] });
        let batch = sender::stripe_bytes(SECRET, NOW / 1000, body.to_string().into());
        let Answer::Stored(receipt) = inbox.send(&batch).await else { panic!("it is stored") };
        assert!(receipt.batch);
        let Ok([a, b, again, unnamed]) = <[Inserted; 4]>::try_from(receipt.outcomes) else { panic!("four outcomes") };
        assert!(matches!((a, b, unnamed), (Inserted::Accepted(_), Inserted::Accepted(_), Inserted::Held(_))));
        assert_eq!(again, Inserted::Duplicate(a.key()));
        let world = inbox.finish().await;
        assert_eq!(world.store.payload(b.key()).await.unwrap().unwrap().body, one("b").to_string().into_bytes());
        world.check();
    }
}

/// The database itself refuses events of one type.
fn refuse_poison(inbox: &Inbox) {
    inbox.world.db.execute(match inbox.world.db.backend() {
        Backend::Sqlite => {
            "create trigger refuse before insert on oncebox_events when new.type = 'poison' \
             begin select raise(abort, 'poison'); end"
        }
        Backend::Postgres => "alter table oncebox.events add check (type <> 'poison')",
    });
}

fn arrivals(inbox: &Inbox) -> Vec<Vec<String>> {
    inbox.world.query("select arrivals from {events_v1}")
}
