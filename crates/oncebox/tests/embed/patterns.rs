//! The code of `docs/patterns.md`, running: what is right under parallel duplicates, and what only looks so.

use std::collections::HashSet;

use oncebox::Clock;
use oncebox::database::{Commit, Pool};
use oncebox::inbox::{Context, Inbox};
use oncebox::{HandlerError, Once, once};
use sqlx::PgPool;
use testkit::{Backend, TestDatabase};

use crate::handlers::quick;
use crate::world::{open, stored, wait_until};

type Tx = <PgPool as Pool>::Tx;

async fn world(db: &TestDatabase) -> PgPool {
    let pool = open::<PgPool>(db).await;
    db.execute(
        "create table subscriptions (id text primary key, plan text, version bigint not null default 0, first_seen timestamptz not null default now());
         create table credits (charge text primary key, cents bigint)",
    );
    pool
}

async fn committed(tx: Tx) {
    assert!(matches!(PgPool::commit(tx).await, Commit::Committed));
}

/// Sets what the sender says now; a second run says the same again, and the first timestamp stays.
async fn set_plan(tx: &mut Tx, id: &str, plan: &str) -> Result<(), HandlerError> {
    sqlx::query(
        "insert into subscriptions (id, plan) values ($1, $2) on conflict (id) do update set plan = excluded.plan",
    )
    .bind(id)
    .bind(plan)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Not "add ten": "there is a credit for this charge".
async fn ensure_credit(tx: &mut Tx, charge: &str, cents: i64) -> Result<(), HandlerError> {
    sqlx::query("insert into credits (charge, cents) values ($1, $2) on conflict (charge) do nothing")
        .bind(charge)
        .bind(cents)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Older versions change nothing; the comparison and the write are one statement, so two workers take turns.
async fn set_if_newer(tx: &mut Tx, id: &str, plan: &str, version: i64) -> Result<bool, HandlerError> {
    let done = sqlx::query(
        "insert into subscriptions as s (id, plan, version) values ($1, $2, $3)
         on conflict (id) do update set plan = excluded.plan, version = excluded.version where s.version < excluded.version",
    )
    .bind(id)
    .bind(plan)
    .bind(version)
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

async fn naturally_idempotent(db: TestDatabase) {
    let pool = world(&db).await;
    let first_seen = || db.query("select first_seen from subscriptions");
    let mut before = None;
    for _ in 0..2 {
        let mut tx = Pool::begin(&pool).await.unwrap();
        set_plan(&mut tx, "sub_1", "gold").await.unwrap();
        ensure_credit(&mut tx, "ch_1", 1000).await.unwrap();
        committed(tx).await;
        assert_eq!(before.get_or_insert_with(first_seen), &first_seen());
    }
    assert_eq!(db.query("select sum(cents) from credits"), [["1000"]]);
    for (version, plan, applied) in [(3, "gold", true), (2, "silver", false), (3, "bronze", false), (4, "none", true)] {
        let mut tx = Pool::begin(&pool).await.unwrap();
        assert_eq!(set_if_newer(&mut tx, "sub_2", plan, version).await.unwrap(), applied, "{plan}");
        committed(tx).await;
    }
    assert_eq!(db.query("select plan, version from subscriptions where id = 'sub_2'"), [["none", "4"]]);
}

#[test]
fn state_is_set_not_changed() {
    testkit::database::run(Backend::Postgres, naturally_idempotent);
}

/// Looks before it acts: two copies that look at the same time both see nothing.
async fn was_seen(tx: &mut Tx, id: &str) -> Result<bool, HandlerError> {
    let row = sqlx::query("select 1 from effects where id = $1").bind(id).fetch_optional(&mut **tx).await?;
    Ok(row.is_some())
}

async fn check_then_act(db: TestDatabase) {
    let pool = world(&db).await;
    let (mut one, mut two) = (Pool::begin(&pool).await.unwrap(), Pool::begin(&pool).await.unwrap());
    for tx in [&mut one, &mut two] {
        assert!(!was_seen(tx, "evt_1").await.unwrap());
    }
    for mut tx in [one, two] {
        sqlx::query("insert into effects (id) values ('evt_1')").execute(&mut *tx).await.unwrap();
        committed(tx).await;
    }
    assert_eq!(db.count("effects"), 2, "which is why");

    // The unique key decides: the second waits for the first one's end, whenever it came.
    let mut one = Pool::begin(&pool).await.unwrap();
    assert_eq!(once(&mut one, "stripe", "evt_2").await.unwrap(), Once::Fresh);
    let second = tokio::spawn(async move {
        let mut two = Pool::begin(&pool).await.unwrap();
        once(&mut two, "stripe", "evt_2").await.unwrap()
    });
    committed(one).await;
    assert_eq!(second.await.unwrap(), Once::Duplicate);
}

#[test]
fn looking_first_is_no_referee() {
    testkit::database::run(Backend::Postgres, check_then_act);
}

/// A fast store in front, asked before the work: a crash in between, and the retry is taken for a duplicate.
async fn fast_store(db: TestDatabase) {
    let pool = world(&db).await;
    let mut redis = HashSet::new();
    for crashes in [true, false] {
        if !redis.insert("evt_1") {
            continue;
        }
        let mut tx = Pool::begin(&pool).await.unwrap();
        ensure_credit(&mut tx, "ch_1", 1000).await.unwrap();
        if !crashes {
            committed(tx).await;
        }
    }
    assert_eq!(db.count("credits"), 0, "acknowledged, and lost");
}

#[test]
fn a_fast_store_loses_what_it_remembers_too_early() {
    testkit::database::run(Backend::Postgres, fast_store);
}

/// The sender's own answer with its version, whatever order the notices came in.
async fn fetch_plan(_id: &str) -> Result<(String, i64), HandlerError> {
    Ok(("platinum".to_owned(), 7))
}

/// The call first, its result saved; then one short transaction, in which the fetched version decides.
async fn refetched(context: &mut Context<PgPool>) -> Result<(), HandlerError> {
    let id = context.event().id.clone();
    let (plan, version): (String, i64) = context.step("fetch", |_key| fetch_plan(&id)).await?;
    let (event, tx) = context.event_and_tx().await?;
    set_if_newer(tx, &event.id, &plan, version).await?;
    Ok(())
}

async fn long_work(db: TestDatabase) {
    let pool = world(&db).await;
    stored(&db, &["sub_9".to_owned()]).await;
    let inbox = Inbox::new(pool, Clock::system()).on("billing", quick(), |context| Box::pin(refetched(context)));
    let running = inbox.start().await.unwrap();
    wait_until("it is applied", || db.count("subscriptions") == 1).await;
    running.stop(std::time::Duration::from_secs(5)).await;
    assert_eq!(db.query("select id, plan from subscriptions"), [["sub_9", "platinum"]]);
}

/// Two workers fetch one object; the one that fetched first writes last.
async fn two_fetches(db: TestDatabase) {
    let pool = world(&db).await;
    let (older, newer) = (("silver", 1), ("gold", 2));
    for (plan, version) in [newer, older] {
        let mut tx = Pool::begin(&pool).await.unwrap();
        set_if_newer(&mut tx, "sub_1", plan, version).await.unwrap();
        set_plan(&mut tx, "sub_2", plan).await.unwrap();
        committed(tx).await;
    }
    let plans = db.query("select id, plan from subscriptions order by id");
    assert_eq!(plans, [["sub_1", "gold"], ["sub_2", "silver"]], "without the version the older one stays");
}

#[test]
fn an_older_fetch_never_overwrites_a_newer_one() {
    testkit::database::run(Backend::Postgres, two_fetches);
}

#[test]
fn long_work_is_done_before_the_transaction() {
    testkit::database::run(Backend::Postgres, long_work);
}
