//! The wall clock that leases and retries go by, moved a day while calls are under way: the program's own on SQLite, that
//! of the database's machine on Postgres.

use std::thread;
use std::time::Duration;

use testkit::postgres::{Cluster, Options};
use testkit::preload::WallClock;
use testkit::receiver::{Receiver, Reply};
use testkit::{Backend, TestDatabase};

use super::delivery;
use crate::world::{PATIENCE, Setup, World, custom, wait_until};

/// Longer than it takes to look for ended leases.
const SLOW: Duration = Duration::from_secs(9);

fn handlers(receiver: &Receiver) -> String {
    let handler = |name: &str, attempts: u32| {
        format!(
            "[[handler]]\nname = \"{name}\"\nsources = [\"custom\"]\ntypes = [\"{name}.*\"]\nlease = \"60s\"\n\
             http = {{ url = \"{}\", timeout = \"30s\" }}\n\
             retry = {{ attempts = {attempts}, base = \"2s\", cap = \"2s\" }}\n\n",
            receiver.url()
        )
    };
    let outbox = format!(
        "[[handler]]\nname = \"outbox\"\nsources = [\"custom\"]\ntypes = [\"outbox.*\"]\n\
         sql = \"SEND\"\n\n[[destination]]\nname = \"app\"\nurl = \"{}\"\ntimeout = \"30s\"\n\
         retry = {{ attempts = 2, base = \"2s\", cap = \"2s\" }}\n",
        receiver.url()
    );
    handler("often", 3) + &handler("single", 1) + &outbox
}

/// Takes its time where the body says so, and fails the first attempt where it says so.
fn receiver() -> Receiver {
    Receiver::start_with(|call| {
        if call.text().contains("slow") {
            thread::sleep(SLOW);
        }
        let is_first = call.header("oncebox-attempt") == Some("1");
        Reply::Status(if call.text().contains("flaky") && is_first { 500 } else { 200 })
    })
}

fn send(world: &World, id: &str, event_type: &str) {
    world.expect("custom", &custom(format!(r#"{{"id":"{id}","type":"{event_type}"}}"#)), "accepted");
}

fn calls(receiver: &Receiver, id: &str) -> usize {
    receiver.calls().iter().filter(|call| call.text().contains(&format!("\"{id}\""))).count()
}

fn is_done(world: &World, handler: &str, id: &str) -> bool {
    delivery(world, handler, id).0 == "done"
}

fn sent(world: &World, id: &str) -> Vec<Vec<String>> {
    let (outbox, contents) = (world.db.table("outbox"), world.db.table("outbox_contents"));
    let body =
        if world.db.backend() == Backend::Postgres { "convert_from(body, 'UTF8')" } else { "CAST(body AS TEXT)" };
    world.db.query(&format!(
        "select state, attempt from {outbox} join {contents} using (id) where {body} like '%\"{id}\"%'"
    ))
}

/// Every jump finds calls under way, of deliveries and of a message, and failed ones that wait for their next attempt.
fn jumps(world: &World, receiver: &Receiver, wall: &WallClock) {
    for (nth, seconds) in [86_400, 0, -86_400, 0].into_iter().enumerate() {
        let id = |what: &str| format!("{what}_{nth}");
        send(world, &id("slow_often"), "often.x");
        send(world, &id("slow_single"), "single.x");
        send(world, &id("slow_outbox"), "outbox.x");
        send(world, &id("flaky_before"), "often.x");
        let slow = [("often", id("slow_often")), ("single", id("slow_single"))];
        wait_until("the calls are under way", PATIENCE, || {
            slow.iter().all(|(_, id)| calls(receiver, id) == 1) && calls(receiver, &id("slow_outbox")) == 1
        });
        wall.set(seconds);
        send(world, &id("flaky_after"), "often.x");
        wait_until("all are done", PATIENCE, || {
            slow.iter().all(|(handler, id)| is_done(world, handler, id))
                && is_done(world, "often", &id("flaky_before"))
                && is_done(world, "often", &id("flaky_after"))
        });
        for (handler, id) in &slow {
            assert_eq!((calls(receiver, id), delivery(world, handler, id).1), (1, 1), "{id} at {seconds} s");
        }
        for flaky in ["flaky_before", "flaky_after"] {
            assert_eq!((calls(receiver, &id(flaky)), delivery(world, "often", &id(flaky)).1), (2, 2), "at {seconds} s");
        }
        wait_until("the message is sent", PATIENCE, || sent(world, &id("slow_outbox")) == [["sent", "1"]]);
        assert_eq!(calls(receiver, &id("slow_outbox")), 1, "the message at {seconds} s");
    }
}

fn with_handlers(mut setup: Setup, receiver: &Receiver, send: &str) -> Setup {
    let rest = setup.rest.replace("[[handler]]\nname = \"pull\"\npull = true\n", &handlers(receiver));
    setup.rest = rest.replace("SEND", send);
    setup
}

#[test]
fn a_day_forward_or_back_neither_repeats_a_call_nor_delays_a_retry_on_sqlite() {
    let (receiver, wall) = (receiver(), WallClock::build());
    let send = "insert into oncebox_send (destination, body, delivery, step) values ('app', :body, :delivery, 'x')";
    let mut world = World::start_with(TestDatabase::fresh(Backend::Sqlite), |setup| {
        let setup = with_handlers(setup, &receiver, send);
        wall.envs().iter().fold(setup, |setup, (name, value)| setup.env(name, value))
    });
    jumps(&world, &receiver, &wall);
    // The clock goes back while nobody runs: what waits is still due.
    send_last(&world, &receiver);
    world.program.kill9();
    wall.set(-86_400);
    world.program.restart();
    wait_until("what waited is done", PATIENCE, || is_done(&world, "often", "flaky_last"));
}

/// One that failed once and waits.
fn send_last(world: &World, receiver: &Receiver) {
    send(world, "flaky_last", "often.x");
    wait_until("it failed once", PATIENCE, || calls(receiver, "flaky_last") == 1);
}

#[test]
fn a_day_forward_or_back_neither_repeats_a_call_nor_delays_a_retry_on_postgres() {
    let (receiver, wall) = (receiver(), WallClock::build());
    let options = wall.envs().iter().fold(Options::default(), |options, (name, value)| options.env(name, value));
    let cluster = Cluster::start(options);
    let send = "select oncebox.send('app', :body, delivery => :delivery, step => 'x')";
    let world = World::start_with(TestDatabase::fresh_on(&cluster), |setup| with_handlers(setup, &receiver, send));
    jumps(&world, &receiver, &wall);
    let settled = world.db.query("select settled from oncebox.steady_clock");
    assert!(settled[0][0].parse::<i64>().is_ok_and(|count| (1..=8).contains(&count)), "{settled:?}");
}
