//! Order with the real program: the newest version wins whatever order they come in, and one key's events are committed
//! in the order of arrival while every other key goes on. On Postgres three nodes do it, on SQLite one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use testkit::program::Program;
use testkit::{Backend, TestDatabase, contract};

use super::nodes::with_handlers;
use super::share::nodes_on;
use crate::chance::{Random, number};
use crate::world::{PATIENCE, custom, wait_until};

const OBJECTS: usize = 20;
const VERSIONS: usize = 15;
const SERIAL_EVENTS: usize = 1_000;
const SERIAL_KEYS: usize = 50;
/// The key whose event fails for as long as the test wants, and the key with a slow one.
const FAILING_KEY: usize = 7;
const SLOW_KEY: usize = 11;
const SLOW_SECONDS: u32 = 2;

contract! {
    async fn whatever_order_versions_come_in_the_newest_is_applied_last(db: TestDatabase) {
        db.execute("create table objects (id text primary key, version integer)");
        create_effects(&db, "version integer, ok integer check (ok = 1)");
        let nodes = start(&db, &latest(&db));
        let mut events: Vec<(usize, usize)> =
            (0..OBJECTS).flat_map(|object| (1..=VERSIONS).map(move |version| (object, version))).collect();
        Random::seeded().shuffle(&mut events);
        std::thread::scope(|scope| {
            let mut senders: Vec<Vec<(usize, usize)>> = vec![Vec::new(); 6];
            events.iter().enumerate().for_each(|(nth, event)| senders[nth % 6].push(*event));
            for (place, mine) in senders.into_iter().enumerate() {
                let node = &nodes[place % nodes.len()];
                scope.spawn(move || mine.iter().for_each(|(object, version)| {
                    post(node, &format!(r#"{{"id":"{object}_{version}","type":"t","object":"{object}","v":{version}}}"#));
                }));
            }
        });
        wait_while_open(&db);
        let ended = by_state(&db);
        println!("latest on {:?}: {} events of {OBJECTS} objects, {ended:?}", db.backend(), events.len());
        let effects = db.query("select object, version from effects order by n");
        assert_eq!(effects.len(), ended["done"], "each that is done has one effect, and no other has any");
        assert_eq!(ended["done"] + ended["superseded"], events.len(), "{ended:?}");
        let mut applied: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &effects {
            let version: usize = row[1].parse().expect("a version");
            let before = applied.insert(&row[0], version).unwrap_or(0);
            assert!(before < version, "version {version} of {} ran after {before}", row[0]);
        }
        let newest = VERSIONS.to_string();
        let objects = db.query("select id, version from objects");
        assert_eq!(objects.len(), OBJECTS);
        assert!(objects.iter().all(|row| row[1] == newest), "{objects:?}");
    }

    async fn a_keys_events_commit_in_order_and_no_key_waits_for_another(db: TestDatabase) {
        let events = number("ONCEBOX_TEST_EVENTS").unwrap_or(SERIAL_EVENTS);
        create_effects(&db, "nth integer, ok integer not null");
        db.execute("create table broken (event_id text)");
        db.execute(&format!("insert into broken values ('{FAILING_KEY}_2')"));
        let nodes = start(&db, &serial(&db));
        let begun = Instant::now();
        send_in_order(&nodes, events);
        let of_others = format!("select count(*) from effects where object not in ('{FAILING_KEY}', '{SLOW_KEY}')");
        let others = (0..events).filter(|nth| ![FAILING_KEY, SLOW_KEY].contains(&(nth % SERIAL_KEYS))).count();
        wait_until("every other key is done", patience(events), || db.query(&of_others) == [[others.to_string()]]);
        let others_done = begun.elapsed();
        let failing = db.query(&format!("select count(*) from effects where object = '{FAILING_KEY}'"));
        assert_eq!(failing, [["2"]], "the failing key stands still where it fails");
        db.execute("delete from broken");
        wait_while_open(&db);
        println!(
            "serial on {:?}: {events} events over {SERIAL_KEYS} keys; all but the failing and the slow key after {:.1} s, \
             all after {:.1} s",
            db.backend(), others_done.as_secs_f64(), begun.elapsed().as_secs_f64(),
        );
        // Each effect counted those of its key that were committed before it: the place in its key, and no gap.
        let rows = db.query("select event_id, object, nth from effects");
        assert_eq!(rows.len(), events);
        for row in rows {
            assert_eq!(row[0], format!("{}_{}", row[1], row[2]), "out of order");
        }
    }
}

fn create_effects(db: &TestDatabase, columns: &str) {
    let serial = match db.backend() {
        Backend::Sqlite => "n integer primary key autoincrement",
        Backend::Postgres => "n serial",
    };
    db.execute(&format!("create table effects ({serial}, event_id text, object text, {columns})"));
}

/// Three nodes where the database can be shared.
fn start(db: &TestDatabase, handlers: &str) -> Vec<Program> {
    match db.backend() {
        Backend::Sqlite => vec![with_handlers(db, handlers).serve()],
        Backend::Postgres => nodes_on(db, handlers),
    }
}

/// A field of the body in the database's own words.
fn field(db: &TestDatabase, name: &str) -> String {
    match db.backend() {
        Backend::Sqlite => format!("json_extract(:body, '$.{name}')"),
        Backend::Postgres => format!("(:body::json ->> '{name}')"),
    }
}

fn handler(sql: &str, rest: &str) -> String {
    format!(
        "[[handler]]\nname = \"ordered\"\nsources = [\"custom\"]\nlease = \"20s\"\nsql = \"\"\"{sql}\"\"\"\n\
         retry = {{ attempts = 1000, base = \"20ms\", cap = \"200ms\" }}\n{rest}\n"
    )
}

/// Every third version fails the first time, so that older ones come again after newer ones.
fn latest(db: &TestDatabase) -> String {
    let (object, version) = (field(db, "object"), format!("cast({} as integer)", field(db, "v")));
    let sql = format!(
        "insert into objects (id, version) values ({object}, {version}) \
             on conflict (id) do update set version = excluded.version; \
         insert into effects (event_id, object, version, ok) select :event_id, {object}, {version}, \
             case when :attempt = 1 and {version} % 3 = 0 then 0 else 1 end"
    );
    handler(&sql, "order = { key = \"/object\", version = \"/v\", rule = \"latest\" }")
}

fn serial(db: &TestDatabase) -> String {
    let object = field(db, "object");
    let slow = match db.backend() {
        // Its one writer would be slow for everybody.
        Backend::Sqlite => String::new(),
        Backend::Postgres => {
            format!("select pg_sleep(case when :event_id = '{SLOW_KEY}_1' then {SLOW_SECONDS} else 0 end);")
        }
    };
    let sql = format!(
        "{slow} insert into effects (event_id, object, nth, ok) select :event_id, {object}, \
             (select count(*) from effects e where e.object = {object}), \
             case when exists (select 1 from broken b where b.event_id = :event_id) then null else 1 end"
    );
    handler(&sql, "order = { key = \"/object\", rule = \"serial\" }")
}

/// A key's events go to one node, one after the other; keys go side by side.
fn send_in_order(nodes: &[Program], events: usize) {
    const SENDERS: usize = 10;
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let mine = (0..events).filter(move |event| event % SERIAL_KEYS % SENDERS == sender);
            scope.spawn(move || {
                for event in mine {
                    let (key, nth) = (event % SERIAL_KEYS, event / SERIAL_KEYS);
                    let node = &nodes[key % nodes.len()];
                    post(node, &format!(r#"{{"id":"{key}_{nth}","type":"t","object":"{key}"}}"#));
                }
            });
        }
    });
}

fn post(node: &Program, body: &str) {
    let answer = custom(body).post(node.public_addr(), "custom");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn patience(events: usize) -> Duration {
    PATIENCE + Duration::from_millis(20) * u32::try_from(events).expect("it fits")
}

fn wait_while_open(db: &TestDatabase) {
    let open = format!("select count(*) from {} where state in ('ready', 'claimed')", db.table("deliveries"));
    wait_until("nothing is open", patience(SERIAL_EVENTS), || db.query(&open) == [["0"]]);
}

fn by_state(db: &TestDatabase) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::from(["done", "superseded"].map(|state| (state.to_owned(), 0)));
    let sql = format!("select state, count(*) from {} group by state", db.table("deliveries"));
    states.extend(db.query(&sql).into_iter().map(|row| (row[0].clone(), row[1].parse().expect("a count"))));
    states
}
