//! Leases and due times go on evenly while the wall clock jumps: on SQLite, where the clock is ours to move. The jump of a
//! database's own clock is tested with the program.

use std::time::Duration;

use oncebox::Clock;
use oncebox::Message;
use oncebox::gateway::delivery::Next;
use oncebox::gateway::event::NodeKey;
use oncebox::gateway::store::{
    Claimed, DestinationFacts, Failure, Fenced, MessageFailure, MessageFence, MessageWant, NewEvent, NodeEntry, Store,
};
use testkit::{Backend, TestDatabase};

use super::{BILLING, LEASE, processing, want};
use crate::application;
use crate::world::{NOW, World, committed, open};

const DAY: i64 = 86_400_000;
const SECOND: Duration = Duration::from_secs(1);

/// Runs a test on SQLite by a clock that it moves.
fn run<F: Future<Output = ()>>(test: impl FnOnce(World, Clock) -> F) {
    testkit::database::run(Backend::Sqlite, async |db: TestDatabase| {
        let (world, clock) = (processing(db).await, Clock::manual(NOW));
        world.store.begin_time(&clock).await.unwrap();
        test(world, clock).await;
    });
}

fn event(world: &World, id: &str, clock: &Clock) -> NewEvent {
    NewEvent { handlers: vec![BILLING.into()], received_at: clock.now(), ..world.event(id, "{}") }
}

async fn claim(store: &Store, clock: &Clock) -> Vec<Claimed> {
    store.claim(&[want(BILLING, 10)], Some(NodeKey::from_bytes([1; 16])), clock.now()).await.unwrap().claimed
}

async fn fail(store: &Store, claimed: &Claimed, after: Duration, clock: &Clock) {
    let next = Next::Retry { after };
    let failure = Failure { fence: claimed.fence, next, error: "no".to_owned(), status: None };
    assert_eq!(store.fail(&[failure], clock.now()).await.unwrap(), [Fenced::Recorded]);
}

fn pass(clock: &Clock, ms: i64) {
    clock.set(clock.now() + ms);
}

async fn is_due(store: &Store, clock: &Clock) -> bool {
    store.due(clock.now()).await.unwrap().handlers == [BILLING]
}

#[test]
fn a_jump_ends_no_lease_and_delays_no_retry() {
    run(async |world, clock| {
        let store = &world.store;
        for (n, by) in [DAY, -DAY, -DAY, DAY].into_iter().enumerate() {
            world.insert_one(event(&world, &format!("running_{n}"), &clock)).await;
            let running = claim(store, &clock).await.remove(0);
            world.insert_one(event(&world, &format!("failing_{n}"), &clock)).await;
            let failing = claim(store, &clock).await.remove(0);
            fail(store, &failing, SECOND, &clock).await;
            clock.jump(by);
            // At once, and after the jump was settled.
            for _ in 0..2 {
                assert!(!store.leases_ended(clock.now()).await.unwrap(), "{by}");
                assert_eq!(store.expire_leases(clock.now()).await.unwrap(), [], "{by}");
                assert!(!is_due(store, &clock).await, "{by}: a retry comes no earlier");
                store.compare_time(None).await.unwrap();
            }
            world.insert_one(event(&world, &format!("new_{n}"), &clock)).await;
            let new = claim(store, &clock).await.remove(0);
            assert_eq!(new.lease_until - clock.now(), 60_000, "as people read it");
            pass(&clock, 1100);
            assert!(is_due(store, &clock).await, "{by}: a retry comes no later");
            let again = claim(store, &clock).await.remove(0);
            assert_eq!(again.fence.delivery, failing.fence.delivery);
            // A lease that really ends does.
            pass(&clock, 60_001);
            store.compare_time(None).await.unwrap();
            let expired = store.expire_leases(clock.now()).await.unwrap();
            assert_eq!(expired.len(), 3, "{by}");
            assert!(expired.iter().any(|one| one.delivery == running.fence.delivery));
            world.db.execute("update oncebox_deliveries set state = 'done', finished_at_ms = 1");
        }
        assert_eq!(world.query("select offset_ms from {steady_clock}"), [["0"]], "there and back");
    });
}

#[test]
fn what_waits_is_shown_in_wall_time() {
    run(async |world, clock| {
        world.insert_one(event(&world, "evt", &clock)).await;
        let claimed = claim(&world.store, &clock).await.remove(0);
        clock.jump(DAY);
        fail(&world.store, &claimed, 10 * SECOND, &clock).await;
        world.store.compare_time(None).await.unwrap();
        let shown = world.query("select next_attempt_at from {deliveries_v1}");
        // Ten seconds after NOW, a day later.
        assert_eq!(shown, [["2024-11-16T19:46:50.123Z"]]);
        let depths = world.store.stats(0).await.unwrap().depths;
        let ready = depths.iter().find(|one| one.state == "ready").unwrap();
        assert_eq!(ready.oldest_due_at, Some(clock.now() + 10_000));
    });
}

#[test]
fn a_restart_goes_on_where_the_time_was() {
    run(async |world, clock| {
        world.insert_one(event(&world, "evt", &clock)).await;
        clock.jump(DAY);
        world.store.compare_time(None).await.unwrap();
        let claimed = claim(&world.store, &clock).await.remove(0);
        fail(&world.store, &claimed, 5 * SECOND, &clock).await;
        // Forward: the offset is kept. Back while nobody ran: no time passed at all.
        for start in [clock.now() + 1000, clock.now() - DAY] {
            let (store, clock) = (open(&world.db).await.unwrap(), Clock::manual(start));
            store.begin_time(&clock).await.unwrap();
            assert!(!is_due(&store, &clock).await);
            pass(&clock, 5100);
            assert!(is_due(&store, &clock).await);
        }
    });
}

#[test]
fn messages_keep_their_lease_and_their_retry() {
    run(async |world, clock| {
        let store = &world.store;
        let facts = DestinationFacts { name: "crm".to_owned(), attempts: 3, ordered: false };
        store.register_destinations(&[facts]).await.unwrap();
        let want = || MessageWant { destination: "crm".to_owned(), limit: 1, bytes: usize::MAX, lease: LEASE };
        for by in [DAY, -DAY] {
            application::send(&world.db, &Message::new("crm", ""), world.keys.make(NOW), 1).await.unwrap();
            let claimed = store.claim_messages(&[want()], None, clock.now()).await.unwrap().claimed.remove(0);
            clock.jump(by);
            for _ in 0..2 {
                assert_eq!(store.expire_messages(clock.now()).await.unwrap(), [], "{by}");
                store.compare_time(None).await.unwrap();
            }
            let fence: MessageFence = claimed.fence;
            let next = Next::Retry { after: SECOND };
            let failure =
                MessageFailure { fence, next, error: "no".to_owned(), status: None, answer: bytes::Bytes::new() };
            let mut tx = store.begin().await.unwrap();
            assert_eq!(tx.fail_message(&failure, clock.now()).await.unwrap(), Fenced::Recorded);
            committed(tx).await.unwrap();
            assert!(store.due(clock.now()).await.unwrap().destinations.is_empty(), "{by}");
            pass(&clock, 1100);
            assert_eq!(store.due(clock.now()).await.unwrap().destinations, ["crm"], "{by}");
            world.db.execute("update oncebox_outbox set state = 'sent', sent_at_ms = 1");
        }
    });
}

/// What looks like a clock that went forward was our own standstill where the time went on for others.
#[test]
fn a_process_that_was_paused_takes_the_time_from_those_that_ran() {
    run(async |world, clock| {
        let store = &world.store;
        let other = NodeEntry { name: "other".to_owned(), node: NodeKey::from_bytes([9; 16]) };
        store.register_node(&other, clock.now()).await.unwrap();
        world.insert_one(event(&world, "evt", &clock)).await;
        claim(store, &clock).await;
        clock.jump(2 * 60_000);
        world.db.execute("update oncebox_nodes set steady_ms = steady_ms + 115000");
        store.compare_time(None).await.unwrap();
        assert_eq!(world.query("select offset_ms, settled from {steady_clock}"), [["0", "0"]]);
        assert_eq!(store.expire_leases(clock.now()).await.unwrap().len(), 1, "the lease is over for everybody");
    });
}

/// A function that compares a lease or a due time with the wall clock would follow its jumps.
#[test]
fn every_function_goes_by_steady_time() {
    testkit::database::run(Backend::Postgres, async |db: TestDatabase| {
        let world = World::new(db).await;
        let wrong = world.query(
            "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'oncebox' \
             and p.prosrc ~ '(due_at_ms|lease_until_ms) *(=|<|<=|>|>=) *\\(?(SELECT )?(oncebox\\.)?now_ms(\\(|\\.at)' order by 1",
        );
        assert_eq!(wrong, Vec::<Vec<String>>::new());
        let right = world.query(
            "select count(*) from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'oncebox' \
             and p.prosrc like '%oncebox.steady_ms()%'",
        );
        assert_eq!(right, [["8"]]);
    });
}

#[test]
fn every_statement_goes_by_steady_time() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let mut looked = 0;
    for file in ["shared", "postgres"].iter().flat_map(|name| std::fs::read_dir(folder.join(name)).unwrap()) {
        let (path, mut wrong) = (file.unwrap().path(), Vec::new());
        let text = std::fs::read_to_string(&path).unwrap();
        for column in ["due_at_ms", "lease_until_ms", "wait_until_ms"] {
            looked += text.matches(column).count();
            let by_wall = |way: &str| text.contains(&format!("{column} {way} (SELECT oncebox.now_ms"));
            wrong.extend(["=", "<", "<=", ">", ">="].into_iter().filter(|way| by_wall(way)));
        }
        assert!(wrong.is_empty(), "{}: {wrong:?}", path.display());
    }
    assert!(looked > 50, "{looked}");
}
