//! The rate of exactly-once handling: claim, one effect row and done, a hundred deliveries to a transaction, on both
//! databases. A figure to look at, never a test.

#![expect(clippy::unwrap_used, reason = "in a benchmark a panic is the report")]
#![expect(clippy::print_stdout, reason = "the figure is the output")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use oncebox::event::{Identity, IdentityKind, KeyMaker, sha256};
use oncebox::retry::RetryPolicy;
use oncebox::store::{
    Access, Commit, Connections, Durability, Finished, HandlerFacts, HandlerSql, NewEvent, OnDead, Ran, Store, Want,
    insert_events,
};
use oncebox::verdict::{Identified, OnOtherBody, OnRepeat};
use testkit::{Backend, TestDatabase};

const EVENTS: usize = 10_000;
const BATCH: usize = 100;
const NOW: i64 = 1_731_700_000_000;
const LEASE: Duration = Duration::from_secs(60);

fn main() {
    for backend in Backend::ALL {
        testkit::database::run(backend, measure);
    }
}

async fn measure(db: TestDatabase) {
    let store = match db.backend() {
        Backend::Sqlite => Store::open_sqlite(db.file().unwrap(), Access::Server, Durability::Required).await,
        Backend::Postgres => {
            Store::connect_postgres(db.url(), Connections { ingest: 8, work: 8 }, Durability::Required).await
        }
    };
    let store = store.unwrap();
    store.migrate().await.unwrap();
    db.execute("create table effects (id text)");
    let facts =
        HandlerFacts { name: "h".to_owned(), retry: RetryPolicy::default(), lease: LEASE, on_dead: OnDead::Skip };
    store.register_handlers(&[facts]).await.unwrap();
    fill(&store).await;
    let sql = HandlerSql::parse("insert into effects (id) values (:event_id)", store.dialect()).unwrap();
    let want = [Want {
        handler: "h".to_owned(),
        limit: BATCH,
        bytes: oncebox::limits::CLAIMED_BYTES_MAX,
        lease: LEASE,
        in_order: false,
    }];
    let (mut done, mut claiming, mut working) = (0, Duration::ZERO, Duration::ZERO);
    loop {
        let started = Instant::now();
        let claimed = store.claim(&want, None, NOW).await.unwrap().claimed;
        claiming += started.elapsed();
        if claimed.is_empty() {
            break;
        }
        let started = Instant::now();
        let fences: Vec<_> = claimed.iter().map(|one| one.fence).collect();
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.run_handler(&sql, &claimed, LEASE).await.unwrap(), Ran::All);
        assert_eq!(tx.finish(&fences, NOW).await.unwrap(), Finished::All);
        assert!(matches!(tx.commit().await, Commit::Committed));
        working += started.elapsed();
        done += claimed.len();
    }
    assert_eq!((done, db.count("effects")), (EVENTS, i64::try_from(EVENTS).unwrap()));
    let rate = EVENTS as f64 / (claiming + working).as_secs_f64();
    println!("{}: {rate:.0} handled/s (claim {claiming:.2?}, effect and done {working:.2?})", store.kind());
}

async fn fill(store: &Store) {
    let keys = KeyMaker::default();
    let events: Vec<NewEvent> = (0..EVENTS).map(|n| event(&keys, n)).collect();
    for chunk in events.chunks(500) {
        let mut tx = store.begin().await.unwrap();
        insert_events(&mut tx, &chunk.iter().cloned().collect()).await.unwrap();
        assert!(matches!(tx.commit().await, Commit::Committed));
    }
}

fn event(keys: &KeyMaker, n: usize) -> NewEvent {
    let (id, body) = (format!("evt_{n}"), Bytes::from(vec![b'x'; 1024]));
    let identity = Identity::of_id("s", id.as_bytes());
    let event = Identified {
        identity,
        identity_kind: IdentityKind::Id,
        fingerprint: None,
        on_repeat: OnRepeat::Run,
        on_other_body: OnOtherBody::Conflict,
        event_id: id,
        event_type: "t".to_owned(),
        body_sha256: sha256(&body),
        body,
        held: None,
        id_disagrees: false,
    };
    let handlers = vec!["h".into()];
    let (headers, remote) = (Bytes::new(), "192.0.2.1:7".into());
    NewEvent { key: keys.make(NOW), source: "s".into(), event, headers, remote, received_at: NOW, handlers }
}
