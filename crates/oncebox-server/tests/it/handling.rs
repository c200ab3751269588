//! Handlers of the real program, end to end: the effect is there once, what fails is dead after exactly its attempts,
//! and nobody waits for a handler that is slow or broken.

mod begun;
mod clock;
mod clones;
mod crash;
mod gauges;
mod hot_key;
mod http;
mod idle;
mod large_backlog;
pub(crate) mod nodes;
mod order;
mod poison;
mod pull;
mod refused_commit;
mod share;
mod sql;

use testkit::TestDatabase;

use crate::world::{PATIENCE, World, custom, wait_until};

/// Short pauses, so that every attempt comes within a test.
pub(crate) const HASTY: &str = "retry = { attempts = 3, base = \"20ms\", cap = \"100ms\" }\n";

/// A handler that writes down each event, with no constraint that would hide a second effect.
pub(crate) const LEDGER: &str = "[[handler]]\nname = \"ledger\"\nsources = [\"custom\"]\n\
    sql = \"insert into effects (event_id, event_key, attempt) values (:event_id, :key, :attempt)\"\n\
    lease = \"5s\"\nretry = { attempts = 3, base = \"20ms\", cap = \"100ms\" }\n";

/// A server with a table for effects and these handlers.
pub(crate) fn start(db: TestDatabase, handlers: &str) -> World {
    db.execute("create table effects (event_id text, event_key text, attempt integer)");
    start_on(db, handlers)
}

/// A server with these handlers and no others.
pub(crate) fn start_on(db: TestDatabase, handlers: &str) -> World {
    World::start_with(db, |mut setup| {
        setup.rest = setup.rest.replace("[[handler]]\nname = \"pull\"\npull = true\n", handlers);
        setup
    })
}

/// Sends events `evt_0` and so on.
pub(crate) fn send(world: &World, numbers: std::ops::Range<usize>) {
    for number in numbers {
        world.expect("custom", &event(number), "accepted");
    }
}

/// The event of a number.
pub(crate) fn event(number: usize) -> testkit::sender::Signed {
    custom(format!(r#"{{"id":"evt_{number}","type":"load"}}"#))
}

/// Waits until every delivery of a handler has one of these states.
pub(crate) fn wait_for_states(world: &World, handler: &str, states: &[&str]) {
    let listed: Vec<String> = states.iter().map(|state| format!("'{state}'")).collect();
    let view = world.db.table("deliveries_v1");
    let sql =
        format!("select count(*) from {view} where handler = '{handler}' and state not in ({})", listed.join(", "));
    wait_until(&format!("{handler} is {states:?}"), PATIENCE, || world.db.query(&sql) == [["0"]]);
}

/// State, attempt and error of an event's delivery to a handler.
pub(crate) fn delivery(world: &World, handler: &str, event_id: &str) -> (String, i64, String) {
    let view = world.db.table("deliveries_v1");
    let rows = world.db.query(&format!(
        "select state, attempt, last_error from {view} where handler = '{handler}' and event_id = '{event_id}'"
    ));
    let [state, attempt, error] = rows.into_iter().next().expect("a delivery").try_into().expect("three columns");
    (state, attempt.parse().expect("a number"), error)
}

/// The rows of the effects and how many events they are of.
pub(crate) fn effects(world: &World) -> (i64, i64) {
    let rows = world.db.query("select count(*), count(distinct event_id) from effects");
    (rows[0][0].parse().expect("a count"), rows[0][1].parse().expect("a count"))
}
