//! What a duplicate is answered before, at and after the end of the ledger's memory, and whatever became of the original.

use oncebox::gateway::store::{Action, ActionFilter, ActionKind, Inserted};
use testkit::TestDatabase;

use super::{DAY, LEDGER, PAYLOAD, SECOND, aged, aging, check, has_payload, is_known, run, set, stored};
use crate::world::{SOURCE, held};

testkit::contract! {
    async fn one_second_before_the_end_it_is_a_duplicate_and_one_after_it_is_new(db: TestDatabase) {
        let world = aging(db).await;
        // The seconds that the test itself takes are on the side of the younger one.
        let before = stored(&world, aged(&world, SOURCE, "before", LEDGER - 20 * SECOND), "done").await;
        let after = stored(&world, aged(&world, SOURCE, "after", LEDGER + SECOND), "done").await;
        run(&world).await;
        assert_eq!(world.insert_one(world.event("before", "{}")).await, Inserted::Duplicate(before));
        let again = world.insert_one(world.event("after", "{}")).await;
        assert!(matches!(again, Inserted::Accepted(key) if key != after), "{again:?}");
        assert!(is_known(&world, before).await && !is_known(&world, after).await);
        check(&world);
    }

    async fn without_its_payload_it_still_answers_for_all_the_rest(db: TestDatabase) {
        let world = aging(db).await;
        let key = stored(&world, aged(&world, SOURCE, "evt_1", PAYLOAD + SECOND), "done").await;
        run(&world).await;
        assert!(!has_payload(&world, key).await);
        assert_eq!(world.insert_one(world.event("evt_1", "{}")).await, Inserted::Duplicate(key));
        let conflict = world.insert_one(world.event("evt_1", "other")).await;
        assert!(matches!(conflict, Inserted::Conflict(_)), "{conflict:?}");
        let detail = world.store.event_detail(key).await.unwrap().unwrap();
        assert_eq!((detail.event.event_id.as_str(), detail.deliveries.len(), detail.payload), ("evt_1", 2, None));
        assert!(detail.deliveries.iter().all(|one| one.state == "done"));
    }

    async fn dead_held_and_superseded_ones_are_duplicates(db: TestDatabase) {
        let world = aging(db).await;
        for (id, state) in [("dead", "dead"), ("superseded", "superseded"), ("running", "claimed"), ("waiting", "ready")] {
            let key = stored(&world, aged(&world, SOURCE, id, PAYLOAD + DAY), state).await;
            run(&world).await;
            assert_eq!(world.insert_one(world.event(id, "{}")).await, Inserted::Duplicate(key), "{id}");
        }
        let key = stored(&world, held(aged(&world, SOURCE, "held", PAYLOAD + DAY)), "held").await;
        run(&world).await;
        assert_eq!(world.insert_one(held(world.event("held", "{}"))).await, Inserted::Duplicate(key));
        check(&world);
    }

    async fn dead_and_held_ones_outlive_the_ledger_until_a_person_acts(db: TestDatabase) {
        let world = aging(db).await;
        let dead = stored(&world, aged(&world, SOURCE, "dead", LEDGER + DAY), "dead").await;
        let waiting = stored(&world, held(aged(&world, SOURCE, "held", LEDGER + DAY)), "held").await;
        assert_eq!(run(&world).await.kept, 2);
        assert_eq!(world.insert_one(world.event("dead", "{}")).await, Inserted::Duplicate(dead));
        assert_eq!(world.insert_one(world.event("held", "{}")).await, Inserted::Duplicate(waiting));
        let filter = ActionFilter { source: Some(SOURCE.to_owned()), ..ActionFilter::default() };
        let discard = Action { id: "d".to_owned(), kind: ActionKind::Discard, filter, who: "ann".to_owned() };
        world.store.act(&discard, None, super::now()).await.unwrap();
        run(&world).await;
        assert!(!is_known(&world, dead).await && !is_known(&world, waiting).await);
        check(&world);
    }

    async fn another_name_goes_with_its_event(db: TestDatabase) {
        let world = aging(db).await;
        let first = crate::world::fingerprinted(aged(&world, SOURCE, "first", LEDGER + DAY), oncebox_verify::OnRepeat::Duplicate);
        let key = stored(&world, first, "done").await;
        let alias = || crate::world::fingerprinted(world.event("second", "{}"), oncebox_verify::OnRepeat::Duplicate);
        assert_eq!(world.insert_one(alias()).await, Inserted::Duplicate(key));
        run(&world).await;
        assert_eq!((world.count("ledger"), world.count("repeats"), world.count("events")), (0, 0, 0));
        assert!(matches!(world.insert_one(alias()).await, Inserted::Accepted(_)));
    }

    async fn what_was_requeued_in_time_keeps_its_payload(db: TestDatabase) {
        let world = aging(db).await;
        let key = stored(&world, aged(&world, SOURCE, "evt_1", PAYLOAD + SECOND), "done").await;
        let filter = ActionFilter { handler: Some("billing".to_owned()), ..ActionFilter::default() };
        let requeue = |id: &str| Action { id: id.to_owned(), kind: ActionKind::Requeue, filter: filter.clone(), who: "ann".to_owned() };
        assert_eq!(world.store.requeue(&requeue("a"), &[key], super::now()).await.unwrap(), 1);
        run(&world).await;
        assert!(has_payload(&world, key).await);
        set(&world, key, "done");
        run(&world).await;
        assert!(!has_payload(&world, key).await);
        assert_eq!(world.store.requeue(&requeue("b"), &[key], super::now()).await.unwrap(), 0, "its payload is gone");
        check(&world);
    }
}
