//! Everything else that ages: each table by its own window.

use oncebox::gateway::delivery::Next;
use oncebox::gateway::store::{Failure, Want};
use testkit::TestDatabase;

use super::{DAY, LEDGER, PAYLOAD, aged, aging, check, now, run, set, stored};
use crate::application;
use crate::store_contract::deliveries::{BILLING, LEASE, make_due};
use crate::world::SOURCE;

testkit::contract! {
    async fn attempts_and_steps_go_with_the_payload(db: TestDatabase) {
        let world = aging(db).await;
        let key = stored(&world, aged(&world, SOURCE, "evt_1", PAYLOAD + DAY), "ready").await;
        make_due(&world);
        let want = Want { handler: BILLING.to_owned(), limit: 1, bytes: oncebox::gateway::limits::CLAIMED_BYTES_MAX, lease: LEASE, in_order: false, payload: true };
        let claimed = world.store.claim(&[want], None, now()).await.unwrap().claimed;
        let failure = Failure { fence: claimed[0].fence, next: Next::Dead, error: "no".to_owned(), status: None };
        world.store.fail(&[failure], now()).await.unwrap();
        let delivery = super::literal(&world, key.of_delivery(BILLING));
        world.db.execute(&format!("insert into {} (delivery, step, result, at_ms) values ({delivery}, 's', '1', 1)", world.db.table("steps")));
        run(&world).await;
        assert_eq!((world.count("attempts"), world.count("steps")), (1, 1), "a dead letter keeps its history");
        set(&world, key, "discarded");
        run(&world).await;
        assert_eq!((world.count("attempts"), world.count("steps"), world.count("deliveries")), (0, 0, 2));
        check(&world);
    }

    async fn marks_age_by_their_own_time(db: TestDatabase) {
        let world = aging(db).await;
        for (id, age) in [("old", LEDGER + DAY), ("young", LEDGER - DAY)] {
            application::once(&world.db, "scope", &[id], application::End::Commit).await.unwrap();
            let table = world.db.table("remembered");
            let newest = format!("select max(at_ms) from {table}");
            world.db.execute(&format!("update {table} set at_ms = {} where at_ms = ({newest})", now() - age));
        }
        let versions = world.db.table("versions");
        let mark = super::literal(&world, crate::world::no_key());
        for (handler, age) in [("old", 91 * DAY), ("young", 89 * DAY)] {
            world.db.execute(&format!("insert into {versions} values ('{handler}', {mark}, 1, {})", now() - age));
        }
        run(&world).await;
        assert_eq!((world.count("remembered"), world.count("versions")), (1, 1));
    }

    async fn messages_that_are_over_go_and_the_others_stay(db: TestDatabase) {
        let world = aging(db).await;
        let outbox = world.db.table("outbox");
        let body = if world.db.backend() == testkit::Backend::Sqlite { "x''" } else { "''" };
        for (n, (state, age)) in
            [("sent", 91 * DAY), ("discarded", 91 * DAY), ("dead", 91 * DAY), ("ready", 91 * DAY), ("sent", 89 * DAY)].iter().enumerate()
        {
            let id = super::literal(&world, oncebox::gateway::event::KeyMaker::default().make::<()>(now() - age));
            world.db.execute(&format!(
                "insert into {outbox} (id, destination, size, state, due_at_ms, created_at_ms) \
                 values ({id}, 'crm', 0, '{state}', 1, {})", now() - age
            ));
            world.db.execute(&format!(
                "insert into {outbox}_contents (id, idempotency_key, body) values ({id}, '{state}{n}', {body})"
            ));
            world.db.execute(&format!("insert into {}_answers (id, at_ms, body) values ({id}, 1, {body})", outbox));
        }
        run(&world).await;
        let left = world.query("select state from {outbox} order by state");
        assert_eq!(left, [["dead"], ["ready"], ["sent"]]);
        let left = world.query("select idempotency_key from {outbox_contents} order by 1");
        assert_eq!(left, [["dead2"], ["ready3"], ["sent4"]], "a message and its contents go together");
        assert_eq!(world.count("outbox_answers"), 2, "answers live as long as payloads, unless somebody needs them");
    }

    async fn identities_are_counted_once_and_their_change_is_seen(db: TestDatabase) {
        let world = aging(db).await;
        for (id, age) in [("a", LEDGER + DAY), ("b", DAY), ("c", 0)] {
            stored(&world, aged(&world, SOURCE, id, age), "done").await;
        }
        let rows = async || world.store.ledger_rows(10).await.unwrap().by_source;
        assert_eq!(rows().await, [(SOURCE.to_owned(), 3)]);
        run(&world).await;
        assert_eq!(rows().await, [(SOURCE.to_owned(), 2)]);
        let filter = oncebox::gateway::store::ActionFilter { source: Some(SOURCE.to_owned()), ..Default::default() };
        let kind = oncebox::gateway::store::ActionKind::Forget;
        let forget = oncebox::gateway::store::Action { id: "f".to_owned(), kind, filter, who: "ann".to_owned() };
        assert_eq!(world.store.act(&forget, None, now()).await.unwrap(), 2);
        assert_eq!(rows().await, [(SOURCE.to_owned(), 0)]);
        world.db.execute(&format!("update {0} set at_ms = at_ms - {DAY}", world.db.table("ledger_history")));
        assert_eq!(world.store.stats(now() - DAY).await.unwrap().ledger_rows_last_day, -2 - 1);
    }
}
