//! The workers over a real database: isolation, order, pausing, shutdown. What the program adds around them is tested
//! with the program.

mod order;
mod sweep;
mod units;

use std::sync::Arc;
use std::time::Duration;

use oncebox::Clock;
use oncebox::RetryPolicy;
use oncebox::gateway::delivery::Failed;
use oncebox::gateway::event::NodeKey;
use oncebox::gateway::lane::circuit::Reached;
use oncebox::gateway::store::{Claimed, HandlerSql, NewEvent, NodeEntry};
use oncebox::gateway::wake::Wake;
use oncebox::gateway::worker::handler::{CallError, HandlerSpec, OrderRules, Target, Work, Working};
use oncebox::gateway::worker::{Parts, Workers};
use testkit::TestDatabase;

use crate::world::{HANDLERS, World, wait_until};

/// The handler under test; the other one of the world stays ready.
pub(crate) const BILLING: &str = HANDLERS[0];

/// A world with a table for effects that has no constraint to hide a second one.
pub(crate) async fn world(db: TestDatabase) -> World {
    let world = World::new(db).await;
    world.db.execute("create table effects (event_id text, attempt integer, n integer)");
    world
}

/// The handler under test, with short pauses.
pub(crate) fn handler(work: Work) -> HandlerSpec {
    HandlerSpec {
        name: BILLING.into(),
        work,
        lease: Duration::from_secs(10),
        retry: RetryPolicy { attempts: 3, base: Duration::from_millis(5), cap: Duration::from_millis(20) },
        concurrency: 4,
        rate: None,
        order: OrderRules::default(),
    }
}

/// Statements as a handler's work.
pub(crate) fn sql(world: &World, text: &str) -> Work {
    Work::Sql(Arc::new(HandlerSql::parse(text, world.store.dialect()).unwrap()))
}

/// Writes down each event.
pub(crate) fn effect(world: &World) -> Work {
    sql(world, "insert into effects (event_id, attempt) values (:event_id, :attempt)")
}

/// Starts workers as a process of their own would.
pub(crate) fn start(world: &World, handlers: Vec<HandlerSpec>) -> Workers {
    let node = NodeEntry { node: NodeKey::from_bytes(rand_bytes()), name: "node".to_owned() };
    let parts = Parts { store: world.store.clone(), clock: Clock::system(), wake: Wake::default(), node };
    Workers::start(parts, handlers)
}

fn rand_bytes() -> [u8; 16] {
    *oncebox::gateway::event::KeyMaker::default().make::<()>(Clock::system().now()).as_bytes()
}

/// An event that has work for the handler under test alone.
pub(crate) fn event(world: &World, id: &str, body: &str) -> NewEvent {
    NewEvent { handlers: vec![BILLING.into()], ..world.event(id, body) }
}

/// Waits until no delivery of the handler is in one of these states.
pub(crate) async fn wait_while(world: &World, states: &str) {
    let sql = format!("select count(*) from {{deliveries}} where handler = '{BILLING}' and state in ({states})");
    wait_until(&format!("no delivery is {states}"), || world.query(&sql) == [["0"]]).await;
}

/// A target that panics, fails, never answers or does nothing, by the event's id.
#[derive(Debug)]
pub(crate) struct Moody;

impl Target for Moody {
    fn call<'a>(&'a self, event: &'a Claimed) -> Working<'a, Result<(), CallError>> {
        let fail = |failed| Err(CallError { error: "no".to_owned(), status: None, failed, reached: Reached::Unknown });
        Box::pin(async move {
            match event.event_id.split('_').next() {
                Some("panic") => panic!("{} broke", event.event_id),
                Some("reject") => fail(Failed::Permanent),
                Some("retry") => fail(Failed::Transient { retry_after: None }),
                Some("slow") => {
                    std::future::pending::<()>().await;
                    Ok(())
                }
                _ => Ok(()),
            }
        })
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(1)
    }
}
