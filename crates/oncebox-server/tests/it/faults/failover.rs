//! A standby that must confirm every commit: nothing is acknowledged that it does not have, however the row came to be seen.

use std::time::{Duration, Instant};

use testkit::database::postgres_query;
use testkit::postgres::{Cluster, Mode, Options};
use testkit::{Backend, TestDatabase, http};

use crate::world::{PATIENCE, Setup, World, custom, wait_until};

/// Makes every commit wait for a standby, or for none.
fn confirm_by(primary: &Cluster, names: &str) {
    let admin = primary.url("postgres");
    postgres_query(&admin, &format!("alter system set synchronous_standby_names = '{names}'"));
    postgres_query(&admin, "select pg_reload_conf()");
    wait_until("the setting is there", PATIENCE, || {
        postgres_query(&admin, "show synchronous_standby_names") == [[names]]
    });
}

/// The first copy waits for the standby in vain. A primary that restarts in place shows the row all the same, so the second
/// copy is a duplicate, of something that a promotion would lose.
#[test]
fn a_duplicate_of_what_the_standby_does_not_have_is_503() {
    let mut primary = Cluster::start(Options::default());
    let db = TestDatabase::fresh_on(&primary);
    let mut standby = Cluster::standby_of(&mut primary);
    let world = World::start(db);
    world.expect("custom", &custom(r#"{"id":"before"}"#), "accepted");
    confirm_by(&primary, "*");
    world.expect("custom", &custom(r#"{"id":"both"}"#), "accepted");

    standby.stop(Mode::Fast);
    let event = custom(r#"{"id":"one"}"#);
    assert_eq!(world.post("custom", &event).status, 503, "nobody confirms it");
    primary.stop(Mode::Immediate);
    primary.start_again();
    wait_until("the row is seen", PATIENCE, || {
        world.db.query("select count(*) from oncebox.events where event_id = 'one'") == [["1"]]
    });
    let again = world.post("custom", &event);
    assert_eq!(again.status, 503, "nobody has confirmed it: {}", again.text());

    standby.start_again();
    wait_until("it is confirmed", PATIENCE, || world.post("custom", &event).status == 200);
    let duplicate = world.post("custom", &event);
    assert_eq!(duplicate.json()["status"], "duplicate", "{}", duplicate.text());
    primary.stop(Mode::Immediate);
    standby.promote();
    let there = standby.url(database_name(&world));
    assert_eq!(postgres_query(&there, "select count(*) from oncebox.events where event_id = 'one'"), [["1"]]);
}

fn database_name(world: &World) -> &str {
    world.db.url().rsplit_once('/').expect("a URL names a database").1
}

/// While a commit waits for a standby that is gone, senders are told at once.
#[test]
fn requests_are_refused_at_once_while_no_standby_confirms() {
    let cluster = Cluster::start(Options::default());
    let world = World::start(TestDatabase::fresh_on(&cluster));
    world.expect("custom", &custom(r#"{"id":"warm"}"#), "accepted");
    confirm_by(&cluster, "nobody");
    let post = |nth: usize| {
        let begun = Instant::now();
        let answer = world.post("custom", &custom(format!(r#"{{"id":"e{nth}"}}"#)));
        assert_eq!(answer.status, 503, "{}", answer.text());
        begun.elapsed()
    };
    let first = post(0);
    assert!(
        first > Duration::from_millis(1500) && first < Duration::from_secs(8),
        "the first waits a little: {first:?}"
    );
    // All but those that try in turn are answered without a wait.
    let quick = (1..20).map(post).filter(|took| *took < Duration::from_secs(1)).count();
    assert!(quick >= 10, "{quick} of 19 were told at once");
    let refused = "commits wait for a standby";
    wait_until("the log says it", PATIENCE, || world.program.log().contains(refused));

    confirm_by(&cluster, "");
    wait_until("it is stored again", PATIENCE, || world.post("custom", &custom(r#"{"id":"e0"}"#)).status == 200);
    wait_until("the log says it", PATIENCE, || world.program.log().contains("commits are confirmed again"));
    for nth in 0..20 {
        wait_until("it is stored", PATIENCE, || {
            world.post("custom", &custom(format!(r#"{{"id":"e{nth}"}}"#))).status == 200
        });
    }
}

/// The demand is looked at before the first event and while serving.
#[test]
fn survive_failover_serves_only_where_a_standby_confirms() {
    let mut primary = Cluster::start(Options::default());
    let db = TestDatabase::fresh_on(&primary);
    let demanding = || {
        let mut setup = Setup::new(db.url());
        setup.store = "survive = \"failover\"\n".to_owned();
        setup
    };
    let mut refused = demanding().launch();
    assert_eq!(refused.wait_exit(PATIENCE).code(), Some(1));
    wait_until("it says why", PATIENCE, || refused.log().contains("synchronous_standby_names is empty"));

    let standby = Cluster::standby_of(&mut primary);
    confirm_by(&primary, "*");
    let world = World { program: demanding().serve(), db: TestDatabase::fresh(Backend::Sqlite) };
    let event = |id: &str| custom(format!(r#"{{"id":"{id}"}}"#));
    world.expect("custom", &event("both"), "accepted");
    let admin = primary.url("postgres");
    assert_eq!(postgres_query(&admin, "select count(*) from pg_stat_replication"), [["1"]]);

    confirm_by(&primary, "");
    let answer = world.post("custom", &event("alone"));
    assert_eq!(answer.status, 503, "at once, not some seconds later: {}", answer.text());
    wait_until("it is not ready", PATIENCE, || {
        let ready = http::get(world.program.admin_addr(), "/readyz", &[]);
        ready.status == 503 && ready.text().contains("standby")
    });
    confirm_by(&primary, "*");
    wait_until("it is stored", PATIENCE, || world.post("custom", &event("alone")).status == 200);
    // Or the end of the test would wait for a standby that is gone.
    confirm_by(&primary, "");
    drop(standby);
}

/// Without the demand it is said, wherever people look.
#[test]
fn a_standby_that_nobody_waits_for_is_told_of() {
    let mut primary = Cluster::start(Options::default());
    let db = TestDatabase::fresh_on(&primary);
    let standby = Cluster::standby_of(&mut primary);
    let admin = primary.url("postgres");
    wait_until("it follows", PATIENCE, || {
        postgres_query(&admin, "select count(*) from pg_stat_replication") == [["1"]]
    });
    let world = World::start(db);
    let risk = "a failover may lose acknowledged events";
    assert!(world.program.log().contains(risk), "{}", world.program.log());
    let stats = http::get(world.program.admin_addr(), "/api/v1/stats", &[]);
    assert!(stats.json()["failover_risk"].as_str().is_some_and(|why| why.contains(risk)), "{}", stats.text());
    drop(standby);
}

/// Neon's own servers flush its log, so fsync is off there by design.
#[test]
fn a_log_that_neon_keeps_is_no_danger() {
    let neon = ["fsync=off", "neon.timeline_id=0123", "synchronous_standby_names=walproposer"];
    let options = neon.iter().fold(Options::default(), |options, setting| options.setting(setting));
    let cluster = Cluster::start(options.setting("synchronous_commit=local"));
    let db = TestDatabase::fresh_on(&cluster);
    // The roles of tests make databases without waiting for walproposer, which is not there.
    let world = World::start(db);
    world.expect("custom", &custom(r#"{"id":"one"}"#), "accepted");
}

#[test]
fn an_engine_that_only_speaks_the_protocol_is_refused_by_name() {
    let db = TestDatabase::fresh(Backend::Postgres);
    db.execute("create schema other");
    db.execute(
        "create function other.version() returns text language sql as \
         $$ select 'CockroachDB CCL v25.4.0 (x86_64-pc-linux-gnu)' $$",
    );
    db.execute(&format!(
        "alter database \"{}\" set search_path = other, pg_catalog",
        db.url().rsplit_once('/').unwrap().1
    ));
    let mut program = Setup::new(db.url()).launch();
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(1));
    wait_until("it says why", PATIENCE, || {
        program.log().contains("the database is CockroachDB, which is not supported")
    });
}
