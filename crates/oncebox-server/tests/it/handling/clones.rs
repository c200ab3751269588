//! Nodes that share host name and address, as clones of one container do: what one leaves behind comes back early, and
//! nobody takes what a living one has in hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use testkit::program::Program;
use testkit::receiver::{Receiver, Reply};
use testkit::{Backend, TestDatabase};

use super::nodes::with_handlers;
use crate::world::{BIN, PATIENCE, World, custom, wait_until};

/// Longer than it takes to be sure that a process is dead.
const SURE: Duration = Duration::from_secs(24);

fn handler(name: &str, receiver: &Receiver) -> String {
    format!(
        "[[handler]]\nname = \"{name}\"\nsources = [\"custom\"]\ntypes = [\"{name}.*\"]\nlease = \"5m\"\n\
         http = {{ url = \"{}\", timeout = \"4m\" }}\nretry = {{ attempts = 2, base = \"1s\", cap = \"1s\" }}\n\n",
        receiver.url()
    )
}

/// A node with these handlers that any free port of the same address will do for, so that all have one name.
fn clone(db: &TestDatabase, handlers: &[&str], receiver: &Receiver) -> Program {
    let handlers: String = handlers.iter().map(|name| handler(name, receiver)).collect();
    let text = with_handlers(db, &handlers).text();
    let listen = text.lines().find(|line| line.starts_with("listen")).expect("a config says where to listen");
    Program::serve(BIN, &text.replace(listen, "listen = \"127.0.0.1:0\""))
}

fn send(world: &World, handler: &str) {
    world.expect("custom", &custom(format!(r#"{{"id":"evt_{handler}","type":"{handler}.x"}}"#)), "accepted");
}

fn calls(receiver: &Receiver, handler: &str) -> usize {
    receiver.calls().iter().filter(|call| call.text().contains(&format!("evt_{handler}"))).count()
}

#[test]
fn clones_take_the_claims_of_a_dead_one_and_never_of_a_living_one() {
    let answer = Arc::new(AtomicBool::new(false));
    let waiting = answer.clone();
    let receiver = Receiver::start_with(move |_| {
        while !waiting.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(50));
        }
        Reply::Status(200)
    });
    let db = TestDatabase::fresh(Backend::Postgres);
    let all: String = ["first", "second", "third"].iter().map(|name| handler(name, &receiver)).collect();
    let gate = with_handlers(&db, &all).server("workers = false").serve();
    let world = World { program: gate, db };
    let mut first = clone(&world.db, &["first"], &receiver);
    send(&world, "first");
    wait_until("the first calls", PATIENCE, || calls(&receiver, "first") == 1);
    // The second one could run what the first has in hand.
    let second = clone(&world.db, &["first", "second"], &receiver);
    let third = clone(&world.db, &["third"], &receiver);
    send(&world, "second");
    send(&world, "third");
    let each = || ["first", "second", "third"].map(|handler| calls(&receiver, handler));
    wait_until("all call", PATIENCE, || each() == [1, 1, 1]);
    // Every session ends at once, as in a failover, and with it every proof that somebody lives.
    world.db.query(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity \
         where datname = current_database() and pid <> pg_backend_pid()",
    );
    thread::sleep(SURE);
    assert_eq!(each(), [1, 1, 1], "all of them live");
    first.kill9();
    wait_until("what the dead one had is called again", 2 * PATIENCE, || each() == [2, 1, 1]);
    answer.store(true, Ordering::SeqCst);
    let done = "select count(*) from oncebox.deliveries_v1 where state = 'done'";
    wait_until("all are done", PATIENCE, || world.db.query(done) == [["3"]]);
    let attempts = world.db.query("select attempt from oncebox.deliveries_v1 order by handler");
    assert_eq!((attempts, each()), (vec![vec!["2".to_owned()], vec!["1".to_owned()], vec!["1".to_owned()]], [2, 1, 1]));
    drop((second, third));
}
