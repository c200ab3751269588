//! Retention on both databases: what goes, what stays, what a duplicate is answered, and what clocks and crashes do to it.

mod clocks;
mod crash;
mod duplicates;
mod stays;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use oncebox::Clock;
use oncebox::gateway::event::{EventKey, Key, KeyMaker};
use oncebox::gateway::retention::{self, NotRun, Parts, Progress, Window, Windows};
use oncebox::gateway::store::{Inserted, NewEvent, RunRecord, Store};
use testkit::TestDatabase;

use crate::store_contract::deliveries::register;
use crate::world::World;

pub(crate) const SECOND: i64 = 1000;
pub(crate) const DAY: i64 = 86_400 * SECOND;
/// The usual windows: thirty days of ledger, fourteen of payloads.
pub(crate) const LEDGER: i64 = 30 * DAY;
pub(crate) const PAYLOAD: i64 = 14 * DAY;

/// A world whose sources have the usual windows, and one of them longer ones. Its time is the real one: Postgres has no
/// other.
pub(crate) async fn aging(db: TestDatabase) -> World {
    let world = World::new(db).await;
    register(&world, oncebox::gateway::store::OnDead::Skip).await;
    let windows = Windows::new(window(LEDGER, PAYLOAD), [("long".to_owned(), window(90 * DAY, 60 * DAY))]);
    world.store.register_windows(&windows.records()).await.unwrap();
    world
}

pub(crate) fn window(ledger: i64, payload: i64) -> Window {
    let duration = |ms: i64| Duration::from_millis(ms.unsigned_abs());
    Window { ledger: duration(ledger), payload: duration(payload) }
}

pub(crate) fn now() -> i64 {
    Clock::system().now()
}

/// An event that came so long ago.
pub(crate) fn aged(world: &World, source: &str, id: &str, age: i64) -> NewEvent {
    let at = now() - age;
    NewEvent { key: KeyMaker::default().make(at), received_at: at, ..world.event_of(source, id, "{}") }
}

/// Stores one and brings its deliveries into a state.
pub(crate) async fn stored(world: &World, event: NewEvent, state: &str) -> EventKey {
    let inserted = world.insert_one(event).await;
    assert!(matches!(inserted, Inserted::Accepted(_) | Inserted::Held(_)), "{inserted:?}");
    set(world, inserted.key(), state);
    inserted.key()
}

pub(crate) fn set(world: &World, key: EventKey, state: &str) {
    let table = world.db.table("deliveries");
    world.db.execute(&format!("update {table} set state = '{state}' where key = {}", literal(world, key)));
}

pub(crate) fn literal<K>(world: &World, key: Key<K>) -> String {
    match world.db.backend() {
        testkit::Backend::Sqlite => format!("x'{}'", key.to_string().replace('-', "")),
        testkit::Backend::Postgres => format!("'{key}'"),
    }
}

pub(crate) fn parts(store: &Store, clock: Clock) -> Parts {
    Parts { store: store.clone(), clock, boot: Arc::new(|| None) }
}

/// One run by the machine's clock.
pub(crate) async fn run(world: &World) -> RunRecord {
    try_run(&world.store).await.unwrap()
}

pub(crate) async fn try_run(store: &Store) -> Result<RunRecord, NotRun> {
    retention::run_once(parts(store, Clock::system()), Progress::default()).await
}

pub(crate) async fn has_payload(world: &World, key: EventKey) -> bool {
    world.store.payload(key).await.unwrap().is_some()
}

pub(crate) async fn is_known(world: &World, key: EventKey) -> bool {
    world.store.event(key).await.unwrap().is_some()
}

/// Waits until the session that held this database's lock is gone.
pub(crate) async fn lock_is_free(world: &World) {
    let locks = "select count(*) from pg_locks join pg_database on pg_database.oid = database \
                 where datname = current_database() and locktype = 'advisory'";
    crate::world::wait_until("the lock is free", || world.query(locks) == [["0"]]).await;
}

/// Nothing is half there: what is left after retention is whole in every tier that outlives the others.
pub(crate) fn check(world: &World) {
    for (what, sql) in [
        ("bytes without event", "{payloads} p where not exists (select 1 from {events} e where e.key = p.key)"),
        ("event without identity", "{events} e where not exists (select 1 from {ledger} l where l.key = e.key)"),
        ("identity without event", "{ledger} l where not exists (select 1 from {events} e where e.key = l.key)"),
        ("fingerprint without event", "{repeats} r where not exists (select 1 from {events} e where e.key = r.key)"),
        ("arrivals without event", "{arrivals} a where not exists (select 1 from {events} e where e.key = a.key)"),
        ("delivery without event", "{deliveries} d where not exists (select 1 from {events} e where e.key = d.key)"),
        (
            "needed without bytes",
            "{deliveries} d where d.state in ('ready', 'claimed', 'dead', 'held') \
             and not exists (select 1 from {payloads} p where p.key = d.key)",
        ),
        (
            "attempt without delivery",
            "{attempts} a where not exists (select 1 from {deliveries} d where d.delivery = a.delivery)",
        ),
        (
            "step without delivery",
            "{steps} s where not exists (select 1 from {deliveries} d where d.delivery = s.delivery)",
        ),
    ] {
        assert_eq!(world.query(&format!("select count(*) from {sql}")), [["0"]], "{what}");
    }
}
