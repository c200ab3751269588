//! How much one claim takes, what a lost one costs, and what it looks at.

use std::time::{Duration, Instant};

use oncebox::Message;
use oncebox::gateway::delivery::order::order_key;
use oncebox::gateway::delivery::routing::NewDelivery;
use oncebox::gateway::event::NodeKey;
use oncebox::gateway::store::{
    Access, BegunClaim, Claimed, DestinationFacts, Durability, MessageWant, NodeEntry, OnDead, Role, Store, Want,
};
use testkit::{Backend, Session, TestDatabase};

use super::{BILLING, LEASE, claim, end_leases, fail, make_due, processing, register, states, want};
use crate::application;
use crate::world::{NOW, World, open};

const BODY: usize = 1000;
/// Deliveries that wait behind one key; `ONCEBOX_TEST_BLOCKED` sets another number.
const BLOCKED: usize = 20_000;
/// For a machine that does everything at once.
const PROMPT: Duration = Duration::from_secs(3);

fn node() -> NodeEntry {
    NodeEntry { name: "here".to_owned(), node: NodeKey::from_bytes([3; 16]) }
}

async fn with_bodies(db: TestDatabase, bodies: usize) -> World {
    let world = processing(db).await;
    let body = "x".repeat(BODY);
    world.insert((0..bodies).map(|nth| world.event(&format!("evt_{nth}"), &body))).await;
    world
}

fn wanting(bytes: usize) -> Want {
    Want { bytes, ..want(BILLING, 100) }
}

async fn claimed_by_node(world: &World) -> Vec<Claimed> {
    let lost = world.store.claim_lost(&want(BILLING, 100), node().node, NOW).await.unwrap();
    let sound = world.store.claim(&[want(BILLING, 100)], Some(node().node), NOW).await.unwrap();
    lost.claimed.into_iter().chain(sound.claimed).collect()
}

async fn open_as_server(db: &TestDatabase) -> Store {
    match db.backend() {
        Backend::Sqlite => Store::open_sqlite(db.file().unwrap(), Access::Server, Durability::Restart).await.unwrap(),
        Backend::Postgres => open(db).await.unwrap(),
    }
}

fn begun(claims: &[Claimed]) -> Vec<BegunClaim> {
    claims.iter().map(|one| BegunClaim::new(one.fence.delivery, one.fence.token)).collect()
}

async fn expire(world: &World) {
    end_leases(world);
    world.store.expire_leases(NOW).await.unwrap();
    make_due(world);
}

testkit::contract! {
    async fn a_claim_brings_no_more_bytes_than_are_wanted(db: TestDatabase) {
        let world = with_bodies(db, 5).await;
        for node in [Some(node().node), None] {
            let claims = world.store.claim(&[wanting(BODY * 2 + 1)], node, NOW).await.unwrap();
            assert_eq!(claims.claimed.len(), 3);
            assert!(claims.cut_off.contains(BILLING));
            assert!(claims.claimed.iter().all(|one| one.body.len() == BODY));
            assert_eq!(states(&world)[3..], [["ready", "0"], ["ready", "0"]], "what does not fit is as it was");
            let fences: Vec<_> = claims.claimed.iter().map(|one| one.fence).collect();
            world.store.give_back(&fences, Duration::ZERO, NOW).await.unwrap();
            make_due(&world);
        }
        let whole = world.store.claim(&[wanting(BODY * 5)], Some(node().node), NOW).await.unwrap();
        assert_eq!((whole.claimed.len(), whole.cut_off.len()), (5, 0));
    }

    async fn one_body_beyond_the_bytes_comes_alone(db: TestDatabase) {
        let world = with_bodies(db, 2).await;
        for _ in 0..2 {
            let claims = world.store.claim(&[wanting(1)], Some(node().node), NOW).await.unwrap();
            assert_eq!(claims.claimed.iter().map(|one| one.body.len()).collect::<Vec<_>>(), [BODY]);
        }
    }

    /// Whoever claims beside it, and whether its payload is there.
    async fn who_reads_no_payload_gets_none_and_all_that_is_due(db: TestDatabase) {
        let world = with_bodies(db, 4).await;
        world.db.execute(&format!("delete from {}", world.db.table("payloads")));
        world.insert([world.event("evt_4", &"x".repeat(BODY))]).await;
        for (in_order, beside) in [(false, false), (true, false), (false, true)] {
            let mut wants = vec![Want { payload: false, in_order, ..wanting(1) }];
            wants.extend(beside.then(|| want("mail", 9)));
            let claims = world.store.claim(&wants, Some(node().node), NOW).await.unwrap();
            let (ours, others): (Vec<_>, Vec<_>) = claims.claimed.into_iter().partition(|one| one.handler == BILLING);
            let ids: Vec<_> = ours.iter().map(|one| one.event_id.as_str()).collect();
            assert_eq!(ids, ["evt_0", "evt_1", "evt_2", "evt_3", "evt_4"], "oldest first");
            assert!(ours.iter().all(|one| one.body.is_empty() && one.headers.is_empty()));
            assert!(ours.iter().all(|one| one.source == "src" && one.event_type == "invoice.paid" && one.received_at == NOW));
            assert!(!claims.cut_off.contains(BILLING));
            assert_eq!(others.iter().map(|one| one.body.len()).collect::<Vec<_>>(), vec![BODY; usize::from(beside)]);
            let fences: Vec<_> = ours.iter().map(|one| one.fence).collect();
            world.store.give_back(&fences, Duration::ZERO, NOW).await.unwrap();
            make_due(&world);
        }
    }

    async fn what_was_lost_is_claimed_within_the_bytes(db: TestDatabase) {
        let world = with_bodies(db, 4).await;
        claimed_by_node(&world).await;
        expire(&world).await;
        let claims = world.store.claim_lost(&wanting(BODY + 1), node().node, NOW).await.unwrap();
        assert_eq!(claims.claimed.len(), 2);
    }

    /// Three attempts: nothing is used by what never began, and the last one is made alone.
    async fn only_what_had_begun_uses_an_attempt(db: TestDatabase) {
        let world = with_bodies(db, 3).await;
        world.store.register_node(&node(), NOW).await.unwrap();
        world.store.write_begun(node().node, Role::Alone, &[]).await.unwrap();
        let claims = claimed_by_node(&world).await;
        assert_eq!(claims.len(), 3);
        expire(&world).await;
        assert_eq!(states(&world), [["ready", "0"], ["ready", "0"], ["ready", "0"]], "none had begun");
        assert_eq!(world.count("attempts"), 0);

        let claims = claimed_by_node(&world).await;
        let begun = begun(&claims);
        world.store.write_begun(node().node, Role::Alone, &begun[..1]).await.unwrap();
        world.store.write_begun(node().node, Role::Together, &begun[1..2]).await.unwrap();
        expire(&world).await;
        assert_eq!(states(&world), [["ready", "1"], ["ready", "1"], ["ready", "0"]]);
        assert_eq!(world.count("attempts"), 2);
        let lost = world.query("select lost from {deliveries} where handler = 'billing' order by key");
        assert_eq!(lost, [["1"], ["1"], ["0"]], "what had not begun took nobody along");
    }

    async fn the_last_attempt_counts_only_where_it_was_made_alone(db: TestDatabase) {
        let world = with_bodies(db, 2).await;
        world.db.execute(&format!("update {} set attempts = 1", world.db.table("handlers")));
        world.store.register_node(&node(), NOW).await.unwrap();
        world.store.write_begun(node().node, Role::Alone, &[]).await.unwrap();
        let claims = world.store.claim(&[want(BILLING, 2)], Some(node().node), NOW).await.unwrap().claimed;
        world.store.write_begun(node().node, Role::Together, &begun(&claims)).await.unwrap();
        // Another process of the name begins, when this one is proved dead.
        let next = NodeEntry { node: NodeKey::from_bytes([4; 16]), ..node() };
        world.store.register_node(&next, NOW).await.unwrap();
        let reclaimed = world.store.reclaim(node().node, NOW).await.unwrap();
        assert!(reclaimed.iter().all(|one| !one.used && !one.dead), "{reclaimed:?}");
        assert_eq!(states(&world), [["ready", "0"], ["ready", "0"]]);
        make_due(&world);

        world.store.write_begun(next.node, Role::Alone, &[]).await.unwrap();
        let alone = world.store.claim_lost(&want(BILLING, 100), next.node, NOW).await.unwrap().claimed;
        assert_eq!(alone.len(), 1);
        world.store.write_begun(next.node, Role::Alone, &begun(&alone)).await.unwrap();
        expire(&world).await;
        // Both were due at one moment, so either may have come first.
        let mut states = states(&world);
        states.sort();
        assert_eq!(states, [["dead", "1"], ["ready", "0"]]);
    }

    async fn what_had_begun_is_known_to_the_next_process(db: TestDatabase) {
        let world = with_bodies(db, 2).await;
        let dead = open_as_server(&world.db).await;
        dead.register_node(&node(), NOW).await.unwrap();
        dead.write_begun(node().node, Role::Alone, &[]).await.unwrap();
        let claims = dead.claim(&[want(BILLING, 2)], Some(node().node), NOW).await.unwrap().claimed;
        dead.write_begun(node().node, Role::Alone, &begun(&claims)[..1]).await.unwrap();
        drop(dead);

        let store = open_as_server(&world.db).await;
        let next = NodeEntry { node: NodeKey::from_bytes([4; 16]), ..node() };
        store.register_node(&next, NOW).await.unwrap();
        // It may begin something of its own before it takes the other's claims.
        store.write_begun(next.node, Role::Together, &[]).await.unwrap();
        let reclaimed = store.reclaim(node().node, NOW).await.unwrap();
        let used: Vec<_> = reclaimed.iter().filter(|one| one.used).map(|one| one.delivery).collect();
        assert_eq!((reclaimed.len(), used), (2, vec![claims[0].fence.delivery]));
    }

    async fn a_process_of_an_older_version_uses_an_attempt_of_all_it_claimed(db: TestDatabase) {
        let world = with_bodies(db, 2).await;
        claimed_by_node(&world).await;
        expire(&world).await;
        assert_eq!(states(&world), [["ready", "1"], ["ready", "1"]]);
    }

    async fn only_messages_that_were_begun_use_an_attempt(db: TestDatabase) {
        let world = processing(db).await;
        let crm = DestinationFacts { name: "crm".to_owned(), attempts: 1, ordered: false };
        world.store.register_destinations(&[crm]).await.unwrap();
        for _ in 0..3 {
            application::send(&world.db, &Message::new("crm", "{}"), world.keys.make(NOW), NOW).await.unwrap();
        }
        let want = MessageWant { destination: "crm".to_owned(), limit: 9, bytes: usize::MAX, lease: LEASE };
        let claims = world.store.claim_messages(&[want], Some(node().node), NOW).await.unwrap().claimed;
        let begun = [BegunClaim::new(claims[0].fence.id, claims[0].fence.token)];
        world.store.register_node(&node(), NOW).await.unwrap();
        world.store.write_begun(node().node, Role::Relay, &begun).await.unwrap();
        world.db.execute(&format!("update {} set lease_until_ms = 1", world.db.table("outbox")));
        world.store.expire_messages(NOW).await.unwrap();
        let states = world.query("select state, attempt, count(*) from {outbox} group by state, attempt order by state");
        assert_eq!(states, [["dead", "1", "1"], ["ready", "0", "2"]]);
        assert_eq!(world.count("outbox_attempts"), 1);
    }

    /// A dead head that blocks, and very many behind it that came before all others.
    async fn many_that_wait_behind_one_key_hide_no_other(db: TestDatabase) {
        let world = processing(db).await;
        register(&world, OnDead::Block).await;
        let serial = |id: &str, key: &str| {
            let mut event = world.event(id, "{}");
            event.handlers = vec![NewDelivery { handler: BILLING.into(), order_key: Some(order_key(key)) }];
            event
        };
        world.insert([serial("head", "hot")]).await;
        let head = claim(&world, 1).await;
        fail(&world, head[0].fence, oncebox::gateway::delivery::Next::Dead).await;
        block(&world);
        let others = ["a", "b", "c"].map(|key| serial(key, key));
        world.insert(others).await;
        let since = Instant::now();
        let want = Want { in_order: true, ..want(BILLING, 10) };
        let claims = world.store.claim(&[want], Some(node().node), NOW).await.unwrap().claimed;
        let took = since.elapsed();
        println!("a claim beside those that wait on {:?}: {took:?}", world.db.backend());
        let mut ids: Vec<_> = claims.iter().map(|one| one.event_id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["a", "b", "c"]);
        assert!(took < PROMPT, "{took:?}");
    }
}

/// Copies of the dead head, ready and due.
fn block(world: &World) {
    let number = std::env::var("ONCEBOX_TEST_BLOCKED").ok().and_then(|text| text.parse().ok()).unwrap_or(BLOCKED);
    let deliveries = world.db.table("deliveries");
    let (numbers, id) = match world.db.backend() {
        Backend::Sqlite => (
            format!("with recursive n(n) as (select 1 union all select n + 1 from n where n < {number}) "),
            "cast(x'ffffffff0000' || substr('0000000000' || n.n, -10) as blob)",
        ),
        Backend::Postgres => (
            format!("with n as (select n from generate_series(1, {number}) n) "),
            "('ffffffff-0000-7000-8000-' || lpad(to_hex(n.n), 12, '0'))::uuid",
        ),
    };
    let key = match world.db.backend() {
        Backend::Sqlite => "cast(x'01ffffffffff' || substr('0000000000' || n.n, -10) as blob)",
        Backend::Postgres => "('01ffffff-ffff-7000-8000-' || lpad(to_hex(n.n), 12, '0'))::uuid",
    };
    world.db.execute(&format!(
        "insert into {deliveries} (delivery, key, handler, state, due_at_ms, order_key) {numbers} \
         select {id}, {key}, d.handler, 'ready', 1, d.order_key from n, {deliveries} d where d.state = 'dead'"
    ));
}

/// On Postgres only: SQLite has one writer.
#[tokio::test]
async fn two_nodes_never_have_two_messages_of_one_key_under_way() {
    let db = TestDatabase::fresh(Backend::Postgres);
    let world = processing(db).await;
    let mail = DestinationFacts { name: "mail".to_owned(), attempts: 3, ordered: true };
    world.store.register_destinations(&[mail]).await.unwrap();
    // A claim that takes its time.
    world.db.execute(
        "create function nap() returns trigger language plpgsql as $$ begin perform pg_sleep(1); return new; end $$",
    );
    world.db.execute("create trigger nap before update on oncebox.outbox for each row when (new.state = 'claimed') execute function nap()");
    let first = Session::open(world.db.url()).await;
    first.query("begin; select oncebox.send('mail', '{}', order_key => 'one')").await.unwrap();
    let second = Message { order_key: Some("one".to_owned()), ..Message::new("mail", "{}") };
    application::send(&world.db, &second, world.keys.make(NOW), NOW).await.unwrap();
    let other = open(&world.db).await.unwrap();
    let want = || [MessageWant { destination: "mail".to_owned(), limit: 9, bytes: usize::MAX, lease: LEASE }];
    let claiming = tokio::spawn(async move { other.claim_messages(&want(), None, NOW).await.unwrap().claimed.len() });
    tokio::time::sleep(Duration::from_millis(300)).await;
    first.query("commit").await.unwrap();
    let here = world.store.claim_messages(&want(), None, NOW).await.unwrap().claimed.len();
    assert_eq!(here + claiming.await.unwrap(), 1, "both are under way");
}
