//! The rules of claims, leases, budgets and order, the same whoever pulls.

use oncebox::gateway::delivery::order::order_key;
use oncebox::gateway::delivery::routing::NewDelivery;
use oncebox::gateway::store::{NewEvent, OnDead};

use super::pulled;
use super::puller::{Answer, Puller, Sent};
use crate::store_contract::deliveries::{BILLING, end_leases, make_due, register, states};
use crate::world::World;

fn serial(world: &World, id: &str, object: &str) -> NewEvent {
    let mut event = world.event(id, "{}");
    event.handlers = vec![NewDelivery { handler: BILLING.into(), order_key: Some(order_key(object)) }];
    event
}

async fn names(puller: Puller, world: &World, limit: usize) -> Vec<String> {
    let mut names: Vec<_> = puller.claim(world, limit).await.into_iter().map(|one| one.event_id).collect();
    names.sort();
    names
}

fn effects(world: &World) -> Vec<Vec<String>> {
    world.db.query("select id, attempt from effects order by id")
}

fn with_effects(world: &World) {
    world.db.execute("create table effects (id text, attempt integer)");
}

pulled! {
    async fn a_claim_brings_what_a_consumer_needs(world: World, puller: Puller) {
        with_effects(&world);
        let event = world.event("evt_1", r#"{"a":"ü"}"#);
        world.insert_one(event.clone()).await;
        let claimed = puller.claim(&world, 10).await;
        let one = &claimed[0];
        assert_eq!((claimed.len(), one.fence.delivery), (1, event.key.of_delivery(BILLING)));
        assert_eq!((one.key.as_str(), one.attempt), (event.key.to_string().as_str(), 1));
        assert_eq!((one.source.as_str(), one.event_id.as_str(), one.event_type.as_str()), ("src", "evt_1", "invoice.paid"));
        assert_eq!(one.body, event.event.body);
        assert!(puller.claim(&world, 10).await.is_empty(), "it is claimed");
        assert_eq!(puller.work(&world, one).await, Answer::Recorded);
        assert_eq!(puller.work(&world, one).await, Answer::Lost, "done is done: a second run rolls back");
        assert_eq!((states(&world), effects(&world)), (vec![vec!["done".to_owned(), "1".to_owned()]], vec![vec!["evt_1".to_owned(), "1".to_owned()]]));
    }

    async fn the_oldest_due_come_first_and_no_more_than_asked_for(world: World, puller: Puller) {
        world.insert((0..5).map(|n| world.event(&format!("evt_{n}"), "a"))).await;
        let deliveries = world.db.table("deliveries");
        world.db.execute(&format!("update {deliveries} set due_at_ms = 5 + (select count(*) from {deliveries} o where o.key > {deliveries}.key)"));
        let order = |claimed: Vec<super::puller::Taken>| claimed.into_iter().map(|one| one.event_id).collect::<Vec<_>>();
        assert_eq!(order(puller.claim(&world, 3).await), ["evt_4", "evt_3", "evt_2"]);
        assert_eq!(order(puller.claim(&world, 3).await), ["evt_1", "evt_0"]);
    }

    async fn a_paused_handler_gives_nothing(world: World, puller: Puller) {
        world.insert_one(world.event("evt_1", "a")).await;
        assert!(world.pause(BILLING, true).await);
        assert!(puller.claim(&world, 10).await.is_empty());
        assert!(world.pause(BILLING, false).await);
        assert_eq!(puller.claim(&world, 10).await.len(), 1);
    }

    async fn past_the_lease_a_finish_counts_until_somebody_else_claims(world: World, puller: Puller) {
        with_effects(&world);
        world.insert([world.event("evt_1", "a"), world.event("evt_2", "b")]).await;
        let slow = puller.claim(&world, 10).await;
        end_leases(&world);
        assert_eq!(puller.work(&world, &slow[0]).await, Answer::Recorded);
        let other = puller.claim(&world, 10).await;
        assert_eq!((other.len(), other[0].attempt, other[0].event_id.as_str()), (1, 2, "evt_2"));
        assert_eq!(puller.work(&world, &slow[1]).await, Answer::Lost);
        assert_eq!(puller.fail(&world, slow[1].fence, "late", true).await, Err(Answer::Lost));
        assert_eq!(puller.extend(&world, slow[1].fence).await, Answer::Lost);
        assert_eq!(puller.give_back(&world, slow[1].fence).await, Answer::Lost);
        assert_eq!(puller.work(&world, &other[0]).await, Answer::Recorded);
        assert_eq!(effects(&world), [["evt_1", "1"], ["evt_2", "2"]]);
        let lost = world.query("select attempt, outcome, error from {attempts}");
        assert_eq!(lost, [["1", "lost", "the lease ended without an answer"]]);
    }

    async fn failures_end_in_a_dead_letter_after_exactly_the_attempts(world: World, puller: Puller) {
        world.insert_one(world.event("evt_1", "a")).await;
        for (attempt, becomes) in [(1, "ready"), (2, "ready"), (3, "dead")] {
            make_due(&world);
            let claimed = puller.claim(&world, 1).await;
            assert_eq!(claimed[0].attempt, attempt);
            assert_eq!(puller.fail(&world, claimed[0].fence, "it broke", true).await.as_deref(), Ok(becomes));
            assert_eq!(puller.fail(&world, claimed[0].fence, "again", true).await, Err(Answer::Lost));
        }
        assert!(puller.claim(&world, 1).await.is_empty());
        let row = |attempt: &str, outcome: &str| [attempt, outcome, "it broke"].map(str::to_owned).to_vec();
        let attempts = world.query("select attempt, outcome, error from {attempts} order by attempt");
        assert_eq!(attempts, [row("1", "failed"), row("2", "failed"), row("3", "dead")]);
        let row = world.query("select state, attempt, last_error, finished_at_ms is null from {deliveries} where handler = 'billing'");
        assert_eq!(row[0][..3], ["dead", "3", "it broke"]);
        assert!(["f", "0"].contains(&row[0][3].as_str()));
    }

    async fn a_permanent_failure_is_dead_at_once_and_a_replay_has_a_fresh_budget(world: World, puller: Puller) {
        world.insert_one(world.event("evt_1", "a")).await;
        let claimed = puller.claim(&world, 1).await;
        assert_eq!(puller.fail(&world, claimed[0].fence, "never", false).await.as_deref(), Ok("dead"));
        let deliveries = world.db.table("deliveries");
        world.db.execute(&format!("update {deliveries} set state = 'ready', attempts_before = 1, due_at_ms = 1 where state = 'dead'"));
        for (attempt, becomes) in [(2, "ready"), (3, "ready"), (4, "dead")] {
            make_due(&world);
            let claimed = puller.claim(&world, 1).await;
            assert_eq!(claimed[0].attempt, attempt);
            assert_eq!(puller.fail(&world, claimed[0].fence, "it broke", true).await.as_deref(), Ok(becomes));
        }
    }

    async fn a_consumer_that_always_dies_makes_a_dead_letter(world: World, puller: Puller) {
        world.insert_one(world.event("evt_1", "a")).await;
        for attempt in 1..=3 {
            let claimed = puller.claim(&world, 1).await;
            assert_eq!(claimed[0].attempt, attempt);
            end_leases(&world);
        }
        assert!(puller.claim(&world, 1).await.is_empty());
        assert_eq!(states(&world), [["dead", "3"]]);
        assert_eq!(world.query("select count(*) from {attempts} where outcome = 'lost'"), [["3"]]);
        assert_eq!(world.query("select lost from {deliveries} where handler = 'billing'"), [["3"]]);
    }

    // One of them may be what took the consumer with it.
    async fn what_was_lost_comes_alone(world: World, puller: Puller) {
        world.insert((0..4).map(|n| world.event(&format!("evt_{n}"), "a"))).await;
        // All are due at one moment, so any three may come first.
        let lost = names(puller, &world, 3).await;
        assert_eq!(lost.len(), 3);
        end_leases(&world);
        for _ in 0..3 {
            let claimed = names(puller, &world, 10).await;
            assert!(claimed.len() == 1 && lost.contains(&claimed[0]), "each alone: {claimed:?} of {lost:?}");
        }
        let sound = names(puller, &world, 10).await;
        assert!(sound.len() == 1 && !lost.contains(&sound[0]), "{sound:?} was not among {lost:?}");
    }

    async fn a_claim_brings_no_more_bytes_than_fit(world: World, puller: Puller) {
        let body = "x".repeat(3_000_000);
        world.insert((0..5).map(|n| world.event(&format!("evt_{n}"), &body))).await;
        for expected in [3, 2, 0] {
            assert_eq!(puller.claim(&world, 100).await.len(), expected, "9 MB are beyond 8 MiB");
        }
    }

    async fn a_pause_lies_within_its_bounds(world: World, puller: Puller) {
        world.insert((0..30).map(|n| world.event(&format!("evt_{n}"), "a"))).await;
        for one in puller.claim(&world, 30).await {
            puller.fail(&world, one.fence, "it broke", true).await.unwrap();
        }
        // The first pause is at most the base of one second, counted from the attempt's end.
        let beyond = "select count(*) from {deliveries} d join {attempts} a on a.delivery = d.delivery \
                      where d.due_at_ms not between a.ended_at_ms and a.ended_at_ms + 1000";
        assert_eq!(world.query(beyond), [["0"]]);
    }

    async fn what_is_given_back_used_no_attempt(world: World, puller: Puller) {
        world.insert_one(world.event("evt_1", "a")).await;
        let claimed = puller.claim(&world, 1).await;
        assert_eq!(puller.give_back(&world, claimed[0].fence).await, Answer::Recorded);
        assert_eq!(states(&world), [["ready", "0"]]);
        assert_eq!(puller.claim(&world, 1).await[0].attempt, 1);
    }

    async fn a_step_is_refused_twice_in_one_claim_and_kept_by_the_next(world: World, puller: Puller) {
        world.insert_one(world.event("evt_1", "a")).await;
        let first = puller.claim(&world, 1).await;
        assert_eq!(puller.send(&world, first[0].fence, "notify").await, Sent::Written);
        assert_eq!(puller.send(&world, first[0].fence, "notify").await, Sent::Twice);
        assert_eq!(puller.give_back(&world, first[0].fence).await, Answer::Recorded);
        let next = puller.claim(&world, 1).await;
        assert_eq!(next[0].attempt, 1, "what was given back used no attempt");
        assert_eq!(puller.send(&world, next[0].fence, "notify").await, Sent::Kept, "another claim");
        assert_eq!(puller.send(&world, next[0].fence, "invoice").await, Sent::Written);
        assert_eq!(puller.send(&world, next[0].fence, "invoice").await, Sent::Twice);
        end_leases(&world);
        let last = puller.claim(&world, 1).await;
        assert_eq!(last[0].attempt, 2);
        for step in ["notify", "invoice"] {
            assert_eq!(puller.send(&world, last[0].fence, step).await, Sent::Kept);
        }
        assert_eq!(world.count("outbox"), 2);
    }

    async fn a_nameless_id_is_refused(world: World, puller: Puller) {
        for (scope, id) in [("", ""), ("stripe", ""), ("", "evt_1")] {
            assert!(puller.refuses_once(&world, scope, id).await, "{scope:?} {id:?}");
        }
        assert_eq!(world.count("remembered"), 0);
    }

    async fn an_extended_lease_is_not_taken_back(world: World, puller: Puller) {
        world.insert_one(world.event("evt_1", "a")).await;
        let claimed = puller.claim(&world, 1).await;
        end_leases(&world);
        assert_eq!(puller.extend(&world, claimed[0].fence).await, Answer::Recorded);
        assert!(puller.claim(&world, 1).await.is_empty());
    }

    async fn a_claim_beyond_the_budget_or_without_a_payload_is_a_dead_letter(world: World, puller: Puller) {
        world.insert([world.event("evt_1", "a"), world.event("evt_2", "b")]).await;
        let (deliveries, payloads, events) = (world.db.table("deliveries"), world.db.table("payloads"), world.db.table("events"));
        let of = |id: &str| format!("(select key from {events} where event_id = '{id}')");
        world.db.execute(&format!("update {deliveries} set attempt = 3 where key = {}", of("evt_1")));
        world.db.execute(&format!("delete from {payloads} where key = {}", of("evt_2")));
        assert!(puller.claim(&world, 10).await.is_empty());
        let rows = world.query("select state, attempt, last_error from {deliveries} where handler = 'billing' order by key");
        assert_eq!(rows, [["dead", "3", "the attempts are used up"], ["dead", "1", "the payload is gone"]]);
        assert_eq!(world.query("select attempt, outcome, error from {attempts}"), [["1", "dead", "the payload is gone"]]);
    }

    async fn one_at_a_time_per_object_in_the_order_of_arrival(world: World, puller: Puller) {
        with_effects(&world);
        world.insert(["a1", "a2", "a3", "b1", "b2"].map(|id| serial(&world, id, &id[..1]))).await;
        for expected in [&["a1", "b1"][..], &["a2", "b2"], &["a3"]] {
            let claimed = puller.claim(&world, 10).await;
            assert!(puller.claim(&world, 10).await.is_empty(), "both objects are busy");
            let mut names: Vec<_> = claimed.iter().map(|one| one.event_id.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, expected);
            for one in &claimed {
                assert_eq!(puller.work(&world, one).await, Answer::Recorded);
            }
        }
    }

    async fn a_dead_one_is_skipped_or_blocks_as_it_was_said(world: World, puller: Puller) {
        world.insert(["a1", "a2"].map(|id| serial(&world, id, "a"))).await;
        let first = puller.claim(&world, 10).await;
        assert_eq!(puller.fail(&world, first[0].fence, "later", true).await.as_deref(), Ok("ready"));
        assert!(names(puller, &world, 10).await != ["a2"], "a retry blocks those behind it");
        make_due(&world);
        end_leases(&world);
        let first = puller.claim(&world, 10).await;
        assert_eq!(puller.fail(&world, first[0].fence, "never", false).await.as_deref(), Ok("dead"));
        register(&world, OnDead::Block).await;
        assert!(puller.claim(&world, 10).await.is_empty());
        register(&world, OnDead::Skip).await;
        assert_eq!(names(puller, &world, 10).await, ["a2"]);
    }

    async fn versions_only_rise(world: World, puller: Puller) {
        for (object, version, or_equal, newer) in [
            ("sub_1", 5, false, true),
            ("sub_1", 5, false, false),
            ("sub_1", 5, true, true),
            ("sub_1", 4, true, false),
            ("sub_2", -7, false, true),
            ("sub_1", 6, false, true),
            ("sub_ü", i64::MAX, false, true),
        ] {
            assert_eq!(puller.newer(&world, object, version, or_equal).await, newer, "{object} {version}");
        }
    }

    async fn the_first_time_is_true_and_the_rest_are_false(world: World, puller: Puller) {
        for (scope, id, first) in [
            ("stripe", "evt_1", true),
            ("stripe", "evt_1", false),
            ("github", "evt_1", true),
            ("stripeevt", "_1", true),
            ("stripe", "EVT_1", true),
            ("stripe", "evt_1 ", true),
            ("ü", "日本", true),
            ("ü", "日本", false),
        ] {
            assert_eq!(puller.once(&world, scope, id).await, first, "{scope} {id}");
        }
    }
}
