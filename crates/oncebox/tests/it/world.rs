//! What every test of the store and of the ingest path begins with: a migrated database, events made by hand, and the
//! checker that each test ends with.

use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use oncebox::gateway::event::{EventKey, KeyMaker};
use oncebox::gateway::store::{
    Access, Asked, Claimed, Commit, Connections, Durability, Failures, HandlerSql, Inserted, NewEvent, RanEach,
    Settled, Store, StoreError, Tx,
};
use oncebox_verify::{
    Digest, Fingerprint, Fingerprints, HeldReason, Identified, Identity, IdentityKind, OnOtherBody, OnRepeat, sha256,
};
use testkit::{Backend, TestDatabase};

/// 2024-11-15T19:46:40.123Z.
pub(crate) const NOW: i64 = 1_731_700_000_123;
pub(crate) const SOURCE: &str = "src";
pub(crate) const HANDLERS: [&str; 2] = ["billing", "mail"];

/// Of a store on Postgres.
pub(crate) const CONNECTIONS: Connections = Connections { ingest: 8, work: 8 };
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// What [`run_handler`] answers where everything was written.
pub(crate) const ALL: RanEach = RanEach::Written(Vec::new());

/// Runs a handler's statements for deliveries that stand or fall together.
pub(crate) async fn run_handler(
    tx: &mut Tx,
    sql: &HandlerSql,
    batch: &[Claimed],
    deadline: Duration,
) -> Result<RanEach, StoreError> {
    let batch: Vec<&Claimed> = batch.iter().collect();
    tx.run_each(sql, &batch, Failures::Together, deadline).await
}

/// A migrated database, the store on it, and a maker of keys.
pub(crate) struct World {
    pub(crate) db: TestDatabase,
    pub(crate) store: Store,
    pub(crate) keys: Arc<KeyMaker>,
}

impl World {
    pub(crate) async fn new(db: TestDatabase) -> Self {
        let store = open(&db).await.unwrap();
        assert_eq!(store.migrate().await.unwrap(), migrations(&db));
        Self { db, store, keys: Arc::default() }
    }

    /// An event of the usual source with a signed id.
    pub(crate) fn event(&self, id: &str, body: &str) -> NewEvent {
        self.event_of(SOURCE, id, body)
    }

    pub(crate) fn event_of(&self, source: &str, id: &str, body: &str) -> NewEvent {
        let body_sha256 = sha256(body.as_bytes());
        NewEvent {
            key: self.keys.make(NOW),
            source: source.into(),
            event: Identified {
                identity: Identity::of_id(source, id.as_bytes()),
                identity_kind: IdentityKind::Id,
                fingerprint: None,
                on_repeat: OnRepeat::Run,
                on_other_body: OnOtherBody::Conflict,
                event_id: id.to_owned(),
                event_type: "invoice.paid".to_owned(),
                body: Bytes::copy_from_slice(body.as_bytes()),
                body_sha256,
                held: None,
                id_disagrees: false,
            },
            headers: Bytes::from_static(b"content-type: application/json\n"),
            remote: "192.0.2.1:7".into(),
            received_at: NOW,
            handlers: HANDLERS.map(Into::into).into(),
        }
    }

    /// Inserts a batch and commits it.
    pub(crate) async fn insert(&self, events: impl IntoIterator<Item = NewEvent>) -> Vec<Inserted> {
        self.try_insert(events).await.unwrap()
    }

    pub(crate) async fn try_insert(
        &self,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Result<Vec<Inserted>, StoreError> {
        match self.store.insert(&events.into_iter().collect()).await? {
            Settled::Committed(outcomes) => Ok(outcomes),
            Settled::Unknown(error) => Err(error),
        }
    }

    /// Inserts one event and commits it.
    pub(crate) async fn insert_one(&self, event: NewEvent) -> Inserted {
        self.insert([event]).await[0]
    }

    /// Stops or resumes a handler, as an operator does; false when it is not known.
    pub(crate) async fn pause(&self, handler: &str, paused: bool) -> bool {
        let asked = Asked { id: self.keys.make::<()>(NOW).to_string(), who: "test".to_owned(), at: NOW };
        self.store.pause_handler_as(&asked, handler, paused).await.unwrap()
    }

    /// Rows of a table of ours.
    pub(crate) fn count(&self, table: &str) -> i64 {
        self.db.count(&self.db.table(table))
    }

    /// Rows of a query over our tables, written with `{name}` for a table or view.
    pub(crate) fn query(&self, sql: &str) -> Vec<Vec<String>> {
        let prefix = self.db.table("");
        self.db.query(&sql.replace('{', &prefix).replace('}', ""))
    }

    /// The checker: no part of an event is without the others, whatever happened.
    pub(crate) fn check(&self) {
        for (what, sql) in [
            ("event without bytes", "{events} e where not exists (select 1 from {payloads} p where p.key = e.key)"),
            ("bytes without event", "{payloads} p where not exists (select 1 from {events} e where e.key = p.key)"),
            ("event without identity", "{events} e where not exists (select 1 from {ledger} l where l.key = e.key)"),
            ("identity without event", "{ledger} l where not exists (select 1 from {events} e where e.key = l.key)"),
            (
                "fingerprint without event",
                "{repeats} r where not exists (select 1 from {events} e where e.key = r.key)",
            ),
            (
                "original without event",
                "{events} c where c.original is not null and not exists (select 1 from {events} e where e.key = c.original)",
            ),
            (
                "delivery in a state that its event does not allow",
                "{deliveries} d left join {events} e on e.key = d.key \
                 where d.state <> case e.state when 'accepted' then 'ready' when 'held' then 'held' else 'none' end",
            ),
        ] {
            assert_eq!(self.query(&format!("select count(*) from {sql}")), [["0"]], "{what}");
        }
        for row in self.query("select e.body_sha256, p.body from {events} e join {payloads} p on p.key = e.key") {
            let body = data_encoding::HEXLOWER.decode(row[1].trim_start_matches("\\x").as_bytes()).unwrap();
            assert_eq!(row[0].trim_start_matches("\\x"), testkit::sender::sha256_hex(&body));
        }
    }
}

/// Steps of the schema on this database: its migrations, and the file that is run again when it changes.
pub(crate) fn migrations(db: &TestDatabase) -> usize {
    let name = match db.backend() {
        Backend::Sqlite => "sqlite",
        Backend::Postgres => "postgres",
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/migrations").join(name);
    std::fs::read_dir(folder).unwrap().count()
}

/// Opens the database beside whoever has it open already.
pub(crate) async fn open(db: &TestDatabase) -> Result<Store, StoreError> {
    open_with(db, Durability::Restart).await
}

pub(crate) async fn open_with(db: &TestDatabase, durability: Durability) -> Result<Store, StoreError> {
    match db.backend() {
        Backend::Sqlite => Store::open_sqlite(db.file().unwrap(), Access::Visitor, durability).await,
        Backend::Postgres => Store::connect_postgres(db.url(), CONNECTIONS, durability).await,
    }
}

pub(crate) async fn committed(tx: Tx) -> Result<(), StoreError> {
    match tx.commit().await {
        Commit::Committed => Ok(()),
        Commit::Failed(error) | Commit::Unknown(error) => Err(error),
    }
}

/// The event whose identity includes its body, as for an id that no signature covers.
pub(crate) fn unsigned(mut new: NewEvent, on_repeat: OnRepeat) -> NewEvent {
    let Identified { event_id, body_sha256, .. } = &new.event;
    new.event.identity = Identity::of_id_and_body(&new.source, event_id.as_bytes(), body_sha256);
    new.event.identity_kind = IdentityKind::IdAndBody;
    fingerprinted(new, on_repeat)
}

/// The event under both referees.
pub(crate) fn fingerprinted(mut new: NewEvent, on_repeat: OnRepeat) -> NewEvent {
    new.event.fingerprint = Some(Fingerprints::Bytes(Fingerprint::of_body(&new.source, &new.event.body_sha256)));
    new.event.on_repeat = on_repeat;
    new
}

/// The event of a sender that edits the body between tries.
pub(crate) fn varying(mut new: NewEvent) -> NewEvent {
    new.event.on_other_body = OnOtherBody::Duplicate;
    new
}

/// The event that nobody can name.
pub(crate) fn held(mut new: NewEvent) -> NewEvent {
    new.event.held = Some(HeldReason::NoId);
    new
}

pub(crate) fn typed(mut new: NewEvent, event_type: &str) -> NewEvent {
    new.event.event_type = event_type.to_owned();
    new
}

pub(crate) fn hex(digest: &Digest) -> String {
    data_encoding::HEXLOWER.encode(digest)
}

/// The only kind of waiting: for a named condition, up to a bound.
pub(crate) async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < WAIT_MAX, "waited too long until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Polls a future this often, then drops it; the outcome if it came in time.
pub(crate) async fn polled<T>(work: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut work = pin!(work);
    let mut left = times;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match work.as_mut().poll(context) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// A key that no event has.
pub(crate) fn no_key() -> EventKey {
    EventKey::from_bytes([7; 16])
}
