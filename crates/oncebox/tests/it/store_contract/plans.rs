//! How the databases answer what people look at: no page may read a whole table, however many rows it has.
//!
//! Every statement behind a page is asked with the values that a page binds, on tables too large to be read at once,
//! before and after the database has statistics of them. SQLite tells its plan; Postgres tells how many rows it read.

use std::path::Path;

use testkit::{Backend, TestDatabase};

use crate::world::World;

const ROWS: i64 = 60_000;
/// Tables that grow with traffic.
const LARGE: [&str; 7] = ["events", "ledger", "payloads", "deliveries", "outbox", "attempts", "arrivals"];
/// What the statements call them.
const ALIASES: [&str; 6] = ["e", "d", "a", "h", "o", "m"];

/// A value as a page binds it.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// The key of the n-th event; its deliveries lie beside it.
    Key(i64),
    /// Below, or above, every key.
    Lowest,
    Highest,
    Text(&'static str),
    Int(i64),
    Null,
}

use Bound::{Highest, Int, Key, Lowest, Null, Text};

/// Rows of a table that a page may touch: as far as it looks back.
const READ_MAX: f64 = 20_001.0;
/// How far back a page looks.
const FLOOR: Bound = Key(ROWS - 20_000);

const STATEMENTS: [(&str, &[Bound]); 50] = [
    ("events_page", &[Null, Null, Null, Null, Null, Null, Highest, Int(101), Lowest]),
    ("events_page", &[Null, Null, Null, Null, Null, Null, Key(30_000), Int(101), Lowest]),
    ("events_page", &[Text("other"), Null, Null, Null, Null, Null, Highest, Int(101), FLOOR]),
    ("events_page", &[Null, Text("no.%"), Null, Null, Null, Text("%no%"), Highest, Int(101), FLOOR]),
    ("events_page", &[Null, Null, Text("accepted"), Int(1), Int(9), Null, Highest, Int(1001), FLOOR]),
    ("waiting_page", &[Null, Null, Text("held"), Null, Null, Null, Highest, Int(101), Lowest]),
    ("waiting_page", &[Text("src"), Null, Text("conflict"), Null, Null, Null, Highest, Int(101), FLOOR]),
    ("held_page", &[Null, Null, Null, Null, Null, Null, Highest, Int(101), FLOOR, FLOOR, Highest]),
    ("held_page", &[Null, Null, Null, Null, Null, Null, Highest, Int(1001), Lowest, Lowest, Highest]),
    ("events_floor", &[Highest, Int(19_999)]),
    ("events_ceiling", &[Lowest, Int(19_999)]),
    ("events_after", &[Lowest, Text("no"), Null, Null, Int(1000), Key(20_000)]),
    ("waiting_floor", &[Highest, Int(19_999), Text("held")]),
    ("deliveries_floor", &[Highest, Int(19_999)]),
    ("stopped_floor", &[Highest, Int(19_999), Text("dead")]),
    ("messages_floor", &[Highest, Int(19_999)]),
    ("dead_messages_floor", &[Highest, Int(19_999)]),
    ("deliveries_page", &[Highest, Null, Null, Null, Null, Null, Null, Null, Int(101), Lowest, Lowest, Highest]),
    ("deliveries_page", &[Highest, Text("done"), Null, Null, Null, Null, Null, Null, Int(101), FLOOR, FLOOR, Highest]),
    (
        "deliveries_page",
        &[Highest, Null, Text("mail"), Text("no"), Null, Null, Null, Null, Int(101), FLOOR, FLOOR, Highest],
    ),
    ("deliveries_page", &[Key(9), Null, Null, Null, Null, Null, Null, Key(8), Int(101), Key(8), Key(8), Key(9)]),
    ("stopped_page", &[Highest, Text("dead"), Null, Null, Null, Null, Null, Null, Int(101), Lowest, Lowest, Highest]),
    (
        "stopped_page",
        &[Highest, Text("held"), Text("no"), Text("no"), Null, Null, Null, Null, Int(101), FLOOR, FLOOR, Highest],
    ),
    (
        "events_in_delivery_state_page",
        &[Highest, Text("done"), Null, Null, Null, Null, Null, Null, Int(101), FLOOR, FLOOR, Highest],
    ),
    (
        "events_in_delivery_state_page",
        &[Highest, Text("superseded"), Text("mail"), Null, Null, Null, Null, Null, Int(101), FLOOR, FLOOR, Highest],
    ),
    (
        "events_stopped_page",
        &[Highest, Text("dead"), Null, Null, Null, Null, Null, Null, Int(101), FLOOR, FLOOR, Highest],
    ),
    ("outbox_page", &[Highest, Null, Null, Null, Null, Null, Null, Int(101), FLOOR]),
    ("outbox_page", &[Highest, Text("ready"), Text("no"), Null, Null, Null, Null, Int(101), FLOOR]),
    ("dead_messages_page", &[Highest, Text("dead"), Text("no"), Null, Null, Null, Null, Int(101), FLOOR]),
    ("recent_events", &[FLOOR, Highest, Int(i64::MAX)]),
    ("recent_events", &[Key(1000), Key(11_000), Int(1_731_700_009_000)]),
    ("recent_deliveries", &[FLOOR, Highest]),
    ("recent_first_failures", &[FLOOR, Highest]),
    ("recent_messages", &[Int(20_000), Highest]),
    ("ready_depths", &[Int(10_001)]),
    ("stopped_depths", &[Int(10_001)]),
    ("message_depths", &[Int(10_001)]),
    ("stopped_message_depths", &[Int(10_001)]),
    ("dead_errors", &[Int(10_001)]),
    ("dead_message_errors", &[Int(10_001)]),
    ("messages_of_event", &[Key(5), Int(1000)]),
    ("bodies_between", &[Highest, Lowest, Int(250), Int(65_536)]),
    ("sources_seen", &[Int(20_000), Highest]),
    ("ledger_rows", &[Key(ROWS - 1000)]),
    ("event_by_key", &[Key(5)]),
    ("event_by_identity", &[Key(5)]),
    ("arrivals_of", &[Key(5)]),
    ("deliveries_of", &[Key(5), Key(5), Key(6)]),
    ("attempts_of", &[Key(5), Key(6), Key(5)]),
    ("payload_of", &[Key(5)]),
];

testkit::contract! {
    async fn no_page_reads_a_whole_table(db: TestDatabase) {
        let world = World::new(db).await;
        fill(&world.db);
        // Before the planner knows anything of the tables, and after.
        let mut bad = offences(&world.db);
        world.db.execute("analyze");
        bad.extend(offences(&world.db));
        assert!(bad.is_empty(), "{}", bad.join("\n"));
    }
}

/// Every line of a plan that says that a page reads too much.
fn offences(db: &TestDatabase) -> Vec<String> {
    let mut bad = Vec::new();
    for (name, values) in STATEMENTS {
        let plan = plan(db, name, values);
        let tell = |line: &String| format!("{name} {values:?}: {line}\n  in {plan:#?}");
        bad.extend(plan.iter().filter(|line| is_scan(line)).chain(reads_much(&plan)).map(tell));
    }
    bad
}

/// Reading an index from its end up to a limit is fine; reading a table is not.
fn is_scan(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '-', '>']);
    if let Some((_, of)) = line.split_once("Seq Scan on ") {
        return is_large_on_postgres(of.split(' ').next().unwrap_or_default());
    }
    let Some(of) = line.strip_prefix("SCAN ") else { return false };
    let name = of.split(' ').next().unwrap_or_default();
    let is_large = ALIASES.contains(&name) || LARGE.iter().any(|large| name == format!("oncebox_{large}"));
    is_large && !of.contains(" USING ")
}

fn is_large_on_postgres(table: &str) -> bool {
    LARGE.contains(&table) || table.starts_with("payloads")
}

/// The nodes of a plan that Postgres executed that read more rows of a large table than a page looks back, shown or not.
fn reads_much(plan: &[String]) -> impl Iterator<Item = &String> {
    plan.iter().enumerate().filter_map(|(n, line)| {
        let table = line.split_once(" on ")?.1.split(' ').next()?;
        let (rows, loops) = (actual(line, " rows=")?, actual(line, " loops=")?);
        let own = plan[n + 1..].iter().take_while(|line| !line.contains("(actual "));
        let removed: f64 = own
            .filter_map(|line| line.split_once("Rows Removed by ")?.1.split(' ').next_back()?.parse::<f64>().ok())
            .sum();
        (is_large_on_postgres(table) && (rows + removed) * loops > READ_MAX).then_some(line)
    })
}

/// A figure of what a node did, as opposed to what was thought of it.
fn actual(line: &str, figure: &str) -> Option<f64> {
    let of = line.split_once("(actual")?.1.split_once(figure)?.1;
    of.split([' ', ')']).next()?.parse().ok()
}

fn plan(db: &TestDatabase, name: &str, values: &[Bound]) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("sql/shared/{name}.sql"));
    let mut text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
    if db.backend() == Backend::Sqlite {
        text = text
            .replace(" AS uuid)", " AS blob)")
            .replace("LIKE $3 ESCAPE '!'", "GLOB $3")
            .replace("oncebox.", "oncebox_");
    }
    for (n, value) in values.iter().enumerate().rev() {
        text = text.replace(&format!("${}", n + 1), &literal(db.backend(), *value));
    }
    match db.backend() {
        Backend::Sqlite => {
            db.query(&format!("explain query plan {text}")).into_iter().map(|mut row| row.remove(3)).collect()
        }
        Backend::Postgres => {
            let settings = include_str!("../../../sql/postgres/reader.sql");
            let lines = db.query(&format!("{settings}; explain (analyze, timing off) {text}"));
            lines.into_iter().map(|mut row| row.remove(0)).collect()
        }
    }
}

fn literal(backend: Backend, value: Bound) -> String {
    let key = |hex: &str| match backend {
        Backend::Sqlite => format!("x'{hex}'"),
        Backend::Postgres => format!("'{hex}'::uuid"),
    };
    match value {
        Key(n) => key(&format!("{:012x}70008000{n:012x}", 1_731_700_000_000 + n)),
        Lowest => key(&"0".repeat(32)),
        Highest => key(&"f".repeat(32)),
        Text(text) => format!("'{text}'"),
        Int(number) => number.to_string(),
        Null => "NULL".to_owned(),
    }
}

/// Mostly done, a little of everything else.
fn fill(db: &TestDatabase) {
    let (series, key, digest): (String, fn(&str) -> String, &str) = match db.backend() {
        Backend::Sqlite => (
            format!(
                "(with recursive s(n) as (select 1 union all select n + 1 from s where n < {ROWS}) select n from s) s"
            ),
            |middle: &str| format!("unhex(printf('%012x7000{middle}%012x', 1731700000000 + n, n))"),
            "zeroblob(32)",
        ),
        Backend::Postgres => (
            format!("generate_series(1, {ROWS}) s(n)"),
            |middle: &str| {
                format!(
                    "(lpad(to_hex(1731700000000 + n), 12, '0') || '7000{middle}' || lpad(to_hex(n), 12, '0'))::uuid"
                )
            },
            "decode(repeat('00', 32), 'hex')",
        ),
    };
    let (event, delivery, other) = (key("8000"), key("9000"), key("a000"));
    let bytes = if db.backend() == Backend::Sqlite { "x'7b7d'" } else { "'{}'::bytea" };
    let ms = "1731700000000 + n";
    let table = |name: &str| db.table(name);
    let insert = |name: &str, columns: &str, values: &str| {
        db.execute(&format!("insert into {} ({columns}) select {values} from {series}", table(name)));
    };
    insert(
        "events",
        "key, source, event_id, type, identity, body_sha256, state, received_at_ms",
        &format!(
            "{event}, 'src', 'evt_' || n, 'invoice.paid', 'id', {digest}, case when n % 500 = 0 then 'held' when n % 501 = 0 then 'conflict' else 'accepted' end, {ms}"
        ),
    );
    insert("ledger", "identity, key", &format!("{other}, {event}"));
    insert("payloads", "key, remote, headers, body", &format!("{event}, '::1', {bytes}, {bytes}"));
    insert("arrivals", "key, count, last_at_ms, recent", &format!("{event}, 1, {ms}, ''"));
    insert(
        "deliveries",
        "delivery, key, handler, state, attempt, due_at_ms, last_error",
        &format!(
            "{delivery}, {event}, 'mail', case when n % 500 = 0 then 'dead' when n % 501 = 0 then 'held' when n % 97 = 0 then 'ready' else 'done' end, 1, {ms}, 'x'"
        ),
    );
    insert("attempts", "delivery, attempt, ended_at_ms, outcome", &format!("{delivery}, 1, {ms}, 'failed'"));
    insert(
        "outbox",
        "id, destination, idempotency_key, body, key, state, due_at_ms, created_at_ms",
        &format!(
            "{other}, 'crm', 'k' || n, {bytes}, {event}, case when n % 500 = 0 then 'dead' when n % 97 = 0 then 'ready' else 'sent' end, {ms}, {ms}"
        ),
    );
    db.execute(&format!(
        "insert into {} (handler, attempts, base_ms, cap_ms, lease_ms, on_dead) values ('mail', 3, 1, 1, 1, 'skip')",
        table("handlers")
    ));
    db.execute(&format!("insert into {} (destination, attempts, ordered) values ('crm', 3, 0)", table("destinations")));
}
