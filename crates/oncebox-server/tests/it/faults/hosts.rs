//! Several hosts in the URL: whichever takes writes is used, whatever the others do; a standby never is. A commit that
//! may not be on the standby is no success.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use testkit::database::postgres_query;
use testkit::http;
use testkit::postgres::{Cluster, Mode, Options};
use testkit::proxy::Proxy;
use testkit::{Backend, TestDatabase};

use crate::world::{PATIENCE, Setup, World, custom, wait_until};

/// Long for a machine that is busy with other things, short beside what the operating system's own time-outs take.
const BACK_WITHIN: Duration = Duration::from_secs(20);

/// The URL of a database with other ports, each on 127.0.0.1.
fn with_ports(db: &TestDatabase, ports: &[u16]) -> String {
    let (_, name) = db.url().rsplit_once('/').expect("a URL names a database");
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("postgres://postgres@{}/{name}", hosts.join(","))
}

#[test]
fn a_silent_first_host_does_not_hide_the_second() {
    // Takes connections and never says a word, as a frozen machine's kernel does.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port can be found");
    let db = TestDatabase::fresh(Backend::Postgres);
    let ports = [silent.local_addr().expect("it has an address").port(), Cluster::shared().port()];
    let world = World { program: Setup::new(&with_ports(&db, &ports)).serve(), db };
    for n in 0..5 {
        world.expect("custom", &custom(format!(r#"{{"id":"e{n}"}}"#)), "accepted");
    }
}

#[test]
fn the_host_that_takes_writes_is_used_before_and_after_a_promotion() {
    let mut primary = Cluster::start(Options::default());
    let db = TestDatabase::fresh_on(&primary);
    let standby = Cluster::standby_of(&mut primary);
    let world = World { program: Setup::new(&with_ports(&db, &[standby.port(), primary.port()])).serve(), db };
    world.expect("custom", &custom(r#"{"id":"before"}"#), "accepted");

    let lag = "select pg_wal_lsn_diff(pg_current_wal_flush_lsn(), replay_lsn)::bigint from pg_stat_replication";
    let caught_up = || postgres_query(&primary.url("postgres"), lag) == [["0"]];
    wait_until("the standby has all of it", PATIENCE, caught_up);
    primary.stop(Mode::Immediate);
    assert_eq!(world.post("custom", &custom(r#"{"id":"between"}"#)).status, 503, "nobody takes writes");
    let ready = http::get(world.program.admin_addr(), "/readyz", &[]);
    let standby_named = format!("127.0.0.1:{}: it is a standby", standby.port());
    assert!(ready.status == 503 && ready.text().contains(&standby_named), "{}", ready.text());

    standby.promote();
    wait_until("it is stored again", BACK_WITHIN, || world.post("custom", &custom(r#"{"id":"after"}"#)).status == 200);
    let again = world.post("custom", &custom(r#"{"id":"before"}"#));
    assert_eq!(again.json()["status"], "duplicate", "{}", again.text());
}

#[test]
fn a_frozen_primary_is_left_for_the_promoted_standby() {
    let mut primary = Cluster::start(Options::default());
    let db = TestDatabase::fresh_on(&primary);
    let standby = Cluster::standby_of(&mut primary);
    let proxy = Proxy::start(primary.port());
    let world = World { program: Setup::new(&with_ports(&db, &[proxy.port(), standby.port()])).serve(), db };
    for n in 0..5 {
        world.expect("custom", &custom(format!(r#"{{"id":"e{n}"}}"#)), "accepted");
    }
    // Connections stay and new ones are taken, but nothing moves.
    proxy.stall();
    standby.promote();
    let took = wait_until("it is stored again", BACK_WITHIN, || {
        world.post("custom", &custom(r#"{"id":"after"}"#)).status == 200
    });
    println!("hosts, frozen primary: first 2xx {took:?} after the promotion");
}

#[test]
fn a_standby_alone_is_refused_by_name() {
    let mut primary = Cluster::start(Options::default());
    let db = TestDatabase::fresh_on(&primary);
    drop(World { program: Setup::new(db.url()).serve(), db: TestDatabase::fresh(Backend::Sqlite) });
    let standby = Cluster::standby_of(&mut primary);
    let mut program = Setup::new(&with_ports(&db, &[standby.port()])).launch();
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(1));
    let said = format!("127.0.0.1:{}: it is a standby", standby.port());
    wait_until("it says why", PATIENCE, || program.log().contains(&said));
}

#[test]
fn a_commit_that_stopped_waiting_for_the_standby_is_503() {
    let cluster = Cluster::start(Options::default());
    let world = World::start(TestDatabase::fresh_on(&cluster));
    world.expect("custom", &custom(r#"{"id":"warm"}"#), "accepted");
    let admin = cluster.url("postgres");
    postgres_query(&admin, "alter system set synchronous_standby_names = 'nobody'");
    postgres_query(&admin, "select pg_reload_conf()");
    wait_until("the setting is there", PATIENCE, || {
        postgres_query(&admin, "show synchronous_standby_names") == [["nobody"]]
    });
    let answer = thread::scope(|scope| {
        let waiting = scope.spawn(|| world.post("custom", &custom(r#"{"id":"perhaps"}"#)));
        let cancel = "select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep' \
                      and query like '%COMMIT%'";
        wait_until("the wait is cancelled", PATIENCE, || {
            waiting.is_finished() || postgres_query(&admin, cancel)[0][0] != "0"
        });
        waiting.join().expect("it is answered")
    });
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{}", answer.text());

    postgres_query(&admin, "alter system reset synchronous_standby_names");
    postgres_query(&admin, "select pg_reload_conf()");
    wait_until("it is stored", PATIENCE, || world.post("custom", &custom(r#"{"id":"perhaps"}"#)).status == 200);
}
