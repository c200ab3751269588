//! What a database, a pooler or a handler does to the sessions of a server must not show in its answers.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use testkit::bouncer::Bouncer;
use testkit::database::{postgres_query, postgres_try_query};
use testkit::http;
use testkit::postgres::Cluster;
use testkit::{Backend, TestDatabase};

use crate::handling::LEDGER;
use crate::world::{BIN, PATIENCE, Setup, World, custom, wait_until};

const ROLES: &str = include_str!("../../../../../docs/sql/roles.sql");

const EVENTS: usize = 60;
const HASTY: &str = "retry = { attempts = 4, base = \"100ms\", cap = \"200ms\" }\n";

fn handler(sql: &str) -> String {
    format!("[[handler]]\nname = \"app\"\nsources = [\"custom\"]\nsql = \"{sql}\"\n{HASTY}")
}

fn with_handler(db: TestDatabase, sql: &str) -> World {
    World::start_with(db, |mut setup| {
        setup.rest.push_str(&handler(sql));
        setup
    })
}

/// The states of the handler's deliveries, each with its attempt.
fn states(db: &TestDatabase) -> BTreeSet<Vec<String>> {
    let rows = db.query("select state, attempt from oncebox.deliveries_v1 where handler = 'app'");
    rows.into_iter().collect()
}

fn send(world: &World, name: &str, count: usize) {
    for n in 0..count {
        world.expect("custom", &custom(format!(r#"{{"id":"{name}{n}"}}"#)), "accepted");
    }
}

#[test]
fn no_setting_of_a_handler_reaches_the_sessions_that_acknowledge() {
    let db = TestDatabase::fresh(Backend::Postgres);
    db.execute(
        "create function app(text) returns void language plpgsql as \
         $$ begin perform set_config('synchronous_commit', 'off', false); end $$",
    );
    let world = with_handler(db, "select app(:event_id)");
    world.db.execute(
        "create table spied (setting text); \
         create function spy() returns trigger language plpgsql as \
         $$ begin insert into spied values (current_setting('synchronous_commit')); return null; end $$; \
         create trigger spy after insert on oncebox.ledger execute function spy()",
    );
    for round in 0..6 {
        send(&world, &format!("r{round}-"), 20);
        let done = BTreeSet::from([vec!["done".to_owned(), "1".to_owned()]]);
        wait_until("the handler has run", PATIENCE, || states(&world.db) == done);
    }
    let seen = world.db.query("select setting, count(*) from spied group by setting");
    assert_eq!(seen, [["on", "120"]]);
}

#[test]
fn a_changed_function_costs_no_attempt() {
    let db = TestDatabase::fresh(Backend::Postgres);
    db.execute("create function handle(text) returns table (a int) language sql as $$ select 1 $$");
    let world = with_handler(db, "select * from handle(:event_id)");
    thread::scope(|scope| {
        // Several at once, so that many sessions have the old plan.
        for sender in 0..4 {
            let world = &world;
            scope.spawn(move || send(world, &format!("s{sender}-"), EVENTS / 4));
        }
    });
    let done = BTreeSet::from([vec!["done".to_owned(), "1".to_owned()]]);
    wait_until("all ran", PATIENCE, || states(&world.db) == done);
    for columns in ["a int, b int", "a int, b int, c text"] {
        let values = ["1", "2", "'x'"][..columns.split(',').count()].join(", ");
        world.db.execute(&format!(
            "begin; drop function handle(text); create function handle(text) returns table ({columns}) \
             language sql as $$ select {values} $$; commit"
        ));
        send(&world, columns.rsplit(' ').nth(1).expect("a name"), 20);
        wait_until("all ran", PATIENCE, || states(&world.db).iter().all(|row| row[0] == "done"));
        assert_eq!(states(&world.db), done);
    }
}

#[test]
fn statements_that_a_function_drops_cost_only_its_own_attempts() {
    let db = TestDatabase::fresh(Backend::Postgres);
    db.execute(
        "create function rude(text) returns int language plpgsql as \
         $$ begin if $1 like 'rude%' then execute 'deallocate all'; end if; return 1; end $$",
    );
    let world = with_handler(db, "select rude(:event_id); select 1");
    send(&world, "good", 10);
    send(&world, "rude", 1);
    send(&world, "well", 20);
    let of = |name: &str| {
        let rows = world.db.query(&format!(
            "select distinct state, attempt from oncebox.deliveries_v1 where handler = 'app' and event_id like '{name}%'"
        ));
        rows.concat().join(" ")
    };
    wait_until("the others ran", PATIENCE, || of("good") == "done 1" && of("well") == "done 1");
    wait_until("it is over for the rude one", Duration::from_secs(60), || of("rude") != "claimed 1");
    world.expect("custom", &custom(r#"{"id":"last"}"#), "accepted");
    wait_until("it still runs", PATIENCE, || of("last") == "done 1");
}

#[test]
fn a_session_that_a_function_left_read_only_costs_others_no_attempt() {
    let db = TestDatabase::fresh(Backend::Postgres);
    db.execute(
        "create table effects (id text); create function rude(text) returns void language plpgsql as \
         $$ begin perform set_config('default_transaction_read_only', 'on', false); end $$",
    );
    let world = World::start_with(db, |mut setup| {
        for (name, sql, rest) in [
            ("rude", "select rude(:event_id)", HASTY),
            (
                "app",
                "insert into effects values (:event_id)",
                "retry = { attempts = 1, base = \"1s\", cap = \"1s\" }\n",
            ),
            ("idle", "select 1", "retry = { attempts = 1, base = \"1s\", cap = \"1s\" }\n"),
        ] {
            let handler = format!("[[handler]]\nname = \"{name}\"\nsources = [\"custom\"]\nsql = \"{sql}\"\n{rest}");
            setup.rest.push_str(&handler);
        }
        setup
    });
    for round in 0..10 {
        send(&world, &format!("r{round}-"), 10);
        let open = "select count(*) from oncebox.deliveries_v1 where handler in ('app', 'idle') and state in ('ready', 'claimed')";
        wait_until("they ran", PATIENCE, || world.db.query(open) == [["0"]]);
    }
    let ended = "select handler, state, count(*) from oncebox.deliveries_v1 where handler in ('app', 'idle') group by 1, 2 order by 1";
    assert_eq!(world.db.query(ended), [["app", "done", "100"], ["idle", "done", "100"]]);
    assert_eq!(world.db.query("select count(*) from effects"), [["100"]]);
}

#[test]
fn a_database_that_cannot_hold_every_text_is_refused() {
    let admin = Cluster::shared().url("postgres");
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let name = format!("oncebox_{}_{}", encoding.to_lowercase(), std::process::id());
        postgres_query(&admin, &format!("create database {name} encoding '{encoding}' template template0 locale 'C'"));
        let mut program = Setup::new(&Cluster::shared().url(&name)).launch();
        let code = program.wait_exit(PATIENCE).code();
        let said = format!("the database's encoding is {encoding}");
        wait_until("it says why", PATIENCE, || program.log().contains(&said));
        let config = program.config_path();
        let handler = "[[handler]]\nname = \"h\"\nsql = \"select 1\"\n";
        program.write_config(&format!("{}{handler}", std::fs::read_to_string(&config).expect("a config")));
        let args = ["check", "--config", config.to_str().expect("a path")];
        let checked = testkit::program::run(BIN, &args, &[], program.dir());
        assert_eq!(checked.status, Some(2), "{}{}", checked.stdout, checked.stderr);
        let cure = "make it with CREATE DATABASE ... ENCODING 'UTF8'";
        assert!(checked.stderr.contains(&said) && checked.stderr.contains(cure), "{}", checked.stderr);
        postgres_query(&admin, &format!("drop database {name}"));
        assert_eq!(code, Some(1));
    }
}

#[test]
fn a_role_that_owns_nothing_can_serve() {
    let db = TestDatabase::fresh(Backend::Postgres);
    let migrated = testkit::program::run(BIN, &["migrate", "--database", db.url()], &[], std::env::temp_dir());
    assert_eq!(migrated.status, Some(0), "{}", migrated.stderr);
    // Roles belong to the whole cluster; two databases that make them at once must take turns.
    db.execute(&format!("begin; {ROLES}; commit"));
    let role = format!("gateway_{}", std::process::id());
    db.execute(&format!("create role {role} login; grant oncebox_gateway to {role}"));
    db.execute("create table effects (event_id text, event_key text, attempt integer)");
    db.execute(&format!("grant insert on effects to {role}"));
    let mut setup = Setup::new(&db.url().replacen("postgres@", &format!("{role}@"), 1));
    setup.rest = setup.rest.replace("[[handler]]\nname = \"pull\"\npull = true\n", LEDGER);
    let mut world = World { program: setup.serve(), db };
    world.expect("custom", &custom(r#"{"id":"a","type":"t"}"#), "accepted");
    world.expect("custom", &custom(r#"{"id":"a","type":"t"}"#), "duplicate");
    wait_until("it ran", PATIENCE, || world.db.query("select event_id from effects") == [["a"]]);
    let run = http::post(world.program.admin_addr(), "/api/v1/retention/run", &[], b"");
    assert_eq!(run.status, 200, "{}", run.text());
    let owns = postgres_try_query(
        &world.db.url().replacen("postgres@", &format!("{role}@"), 1),
        "create table oncebox.mine (x int)",
    );
    assert!(owns.is_err(), "it may not change the schema");
    world.program.kill9();
    world.db.execute(&format!("drop owned by {role}; drop role {role}"));
}

#[test]
fn a_pooler_that_shares_sessions_is_refused_and_one_that_does_not_serves() {
    let db = TestDatabase::fresh(Backend::Postgres);
    let (_, name) = db.url().rsplit_once('/').expect("a URL names a database");
    for (mode, serves) in [("transaction", false), ("session", true)] {
        let bouncer = Bouncer::start(Cluster::shared().port(), mode);
        let setup = Setup::new(&format!("postgres://postgres@127.0.0.1:{}/{name}", bouncer.port()));
        if serves {
            let program = setup.serve();
            let answer = custom(r#"{"id":"through"}"#).post(program.public_addr(), "custom");
            assert_eq!(answer.status, 200, "{}", answer.text());
        } else {
            let mut program = setup.launch();
            assert_eq!(program.wait_exit(PATIENCE).code(), Some(1));
            wait_until("it says why", PATIENCE, || program.log().contains("pool_mode = transaction"));
        }
    }
}

#[test]
fn no_body_is_logged_whatever_the_filter_says() {
    for filter in ["trace,tokio_postgres::query=trace", "info,tokio_postgres::query=debug,tokio_postgres=trace"] {
        let db = TestDatabase::fresh(Backend::Postgres);
        let world = World::start_with(db, |setup| setup.env("ONCEBOX_LOG", filter));
        world.expect("custom", &custom(r#"{"id":"a","canary":"zq"}"#), "accepted");
        let log = world.program.log();
        // Bodies would be there as text or as numbers.
        let numbers: Vec<String> = b"canary".iter().map(u8::to_string).collect();
        assert!(!log.contains("canary\\\":") && !log.contains(&numbers.join(", ")), "{filter}");
        assert!(!log.contains("executing statement"), "{filter}");
    }
}
