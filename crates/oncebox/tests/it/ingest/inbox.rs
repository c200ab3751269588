//! A running ingest path with one source and two handlers.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use oncebox::Clock;
use oncebox::gateway::delivery::routing::{Route, Routes};
use oncebox::gateway::fault::Faults;
use oncebox::gateway::ingest::{Answer, Batcher, Context, Ingest, Settings};
use oncebox::gateway::limits;
use oncebox::gateway::store::{Inserted, Tx, insert_events};
use oncebox_verify::{Request, Secret, Source, SourceSpec};
use testkit::sender::{self, Signed};
use testkit::{Backend, Session, TestDatabase};

use crate::world::{CONNECTIONS, HANDLERS, NOW, SOURCE, World, open, polled};

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(crate) struct Inbox {
    pub(crate) world: World,
    door: Door,
    batcher: Batcher,
}

/// What a sender needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Door {
    ingest: Ingest,
    source: Arc<Source>,
    routes: Arc<Routes>,
}

/// A request that waits for its answer.
pub(crate) type Waiting = Pin<Box<dyn Future<Output = Answer> + Send>>;

impl Inbox {
    pub(crate) async fn start(db: TestDatabase) -> Self {
        Self::start_with(db, &Faults::none()).await
    }

    /// As [`Inbox::start`], with fault points in the ingest path; `world.store` has none.
    pub(crate) async fn start_with(db: TestDatabase, faults: &Faults) -> Self {
        Self::over(World::new(db).await, faults, 1, spec("stripe"))
    }

    /// As [`Inbox::start`], with several commits at once.
    pub(crate) async fn start_wide(db: TestDatabase, writers: usize) -> Self {
        Self::over(World::new(db).await, &Faults::none(), writers, spec("stripe"))
    }

    /// As [`Inbox::start`], with a source of the test's own.
    pub(crate) async fn start_as(db: TestDatabase, spec: SourceSpec) -> Self {
        Self::over(World::new(db).await, &Faults::none(), 1, spec)
    }

    fn over(world: World, faults: &Faults, writers: usize, spec: SourceSpec) -> Self {
        let route =
            |handler: &str| Route { handler: handler.into(), sources: Vec::new(), types: Vec::new(), serial: None };
        let settings = Settings { batch: limits::BATCH_EVENTS_MAX, writers };
        let store = world.store.clone().with_faults(faults.clone());
        let (ingest, batcher) = Batcher::start(store, settings, Clock::manual(NOW), world.keys.clone());
        let routes = Routes::new(HANDLERS.map(route).into());
        let door = Door { ingest, source: Arc::new(Source::build(spec).unwrap()), routes: Arc::new(routes) };
        Self { world, door, batcher }
    }

    pub(crate) fn door(&self) -> Door {
        self.door.clone()
    }

    pub(crate) async fn send(&self, signed: &Signed) -> Answer {
        self.door.send(signed).await
    }

    /// Puts requests in line, in their order, and leaves them there.
    pub(crate) async fn submit(&self, requests: impl IntoIterator<Item = Signed>) -> Vec<Waiting> {
        let mut waiting: Vec<Waiting> = Vec::new();
        for signed in requests {
            let door = self.door();
            let mut answer: Waiting = Box::pin(async move { door.send(&signed).await });
            // The first poll judges the request and puts it in line.
            match polled(answer.as_mut(), 1).await {
                Some(ready) => waiting.push(Box::pin(async move { ready })),
                None => waiting.push(answer),
            }
        }
        waiting
    }

    /// Keeps whoever wants to store this event waiting until the transaction is dropped. On Postgres it is nobody of
    /// ours, whom the server would end for being idle.
    pub(crate) async fn hold(&self, event_id: &str) -> Box<dyn Any> {
        let new = self.world.event(event_id, "held");
        if self.world.db.backend() == Backend::Postgres {
            let hex = |bytes: &[u8]| HEXLOWER.encode(bytes);
            let (identity, key) = (hex(new.event.identity.as_bytes()), hex(new.key.as_bytes()));
            let session = Session::open(self.world.db.url()).await;
            session.value(&format!("begin; insert into oncebox.ledger values ('{identity}', '{key}')")).await;
            return Box::new(session);
        }
        let mut tx = self.world.store.begin().await.unwrap();
        insert_events(&mut tx, &[new].into()).await.unwrap();
        Box::new(tx)
    }

    /// Keeps whoever wants to write arrival counts waiting: no connection is left.
    pub(crate) async fn hold_counts(&self) -> Vec<Tx> {
        let mut held = Vec::new();
        let connections = if self.world.db.backend() == Backend::Postgres { CONNECTIONS.work } else { 1 };
        for _ in 0..connections {
            let mut tx = self.world.store.begin().await.unwrap();
            // A step, even an empty one, comes after all that stood before us.
            insert_events(&mut tx, &[].into()).await.unwrap();
            held.push(tx);
        }
        held
    }

    /// Ends it and begins again on the same database with a store of its own.
    pub(crate) async fn restart(self, faults: &Faults) -> Self {
        let world = self.finish().await;
        let store = open(&world.db).await.unwrap();
        Self::over(World { store, ..world }, faults, 1, spec("stripe"))
    }

    /// Ends it as a server does; everything submitted is answered and counted.
    pub(crate) async fn finish(self) -> World {
        drop(self.door);
        self.batcher.finish().await;
        self.world
    }
}

impl Door {
    pub(crate) async fn send(&self, signed: &Signed) -> Answer {
        let context =
            Context { source: &self.source, path_token: None, remote: "192.0.2.1:7".into(), routes: &self.routes };
        self.ingest.accept(context, request(signed)).await
    }
}

/// A source of this provider with our secret.
pub(crate) fn spec(provider: &str) -> SourceSpec {
    let mut spec = SourceSpec::named(SOURCE, provider).unwrap();
    spec.secrets = vec![Secret::new(SECRET)];
    spec
}

/// A Stripe event of the usual type.
pub(crate) fn stripe(id: &str) -> Signed {
    sender::stripe(SECRET, NOW / 1000, id, "invoice.paid", &serde_json::json!({ "id": "in_1" }))
}

/// The outcome of a request that brought one event.
pub(crate) fn outcome(answer: Answer) -> Inserted {
    match answer {
        Answer::Stored(receipt) if receipt.outcomes.len() == 1 => receipt.outcomes[0],
        other => panic!("not one stored event: {other:?}"),
    }
}

fn request(signed: &Signed) -> Request {
    let mut headers = HeaderMap::new();
    for (name, value) in &signed.headers {
        headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let body = signed.body.clone().into();
    Request { method: Method::POST, target: format!("/in/{SOURCE}"), headers, body }
}
