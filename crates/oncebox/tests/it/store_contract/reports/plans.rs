//! How the databases answer what people look at: no page may read a whole table, however many rows it has.
//!
//! Every statement behind a page is asked with the values that a page binds, on tables too large to be read at once,
//! before and after the database has statistics of them. SQLite tells its plan; Postgres tells how many rows it read.

use std::path::Path;

use oncebox::gateway::delivery::routing::{Glob, Route, Routes};
use oncebox::gateway::fault::Faults;
use oncebox::gateway::store::{Action, ActionFilter, ActionKind};
use testkit::{Backend, TestDatabase};

use crate::world::{NOW, World};

const ROWS: i64 = 60_000;
/// Tables that grow with traffic.
const LARGE: [&str; 8] =
    ["events", "ledger", "payloads", "deliveries", "outbox", "outbox_contents", "attempts", "arrivals"];
/// What the statements call them.
const ALIASES: [&str; 7] = ["e", "d", "a", "h", "o", "m", "k"];

/// A value as a page binds it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// The key of the n-th event; its deliveries lie beside it.
    Key(i64),
    /// The key just below that of the n-th event.
    Below(i64),
    /// The id of the n-th message.
    Other(i64),
    /// Below, or above, every key.
    Lowest,
    Highest,
    Text(&'static str),
    Int(i64),
    Null,
}

use Bound::{Below, Highest, Int, Key, Lowest, Null, Other, Text};

/// Rows of a table that a page may touch: as far as it looks back.
const READ_MAX: f64 = 20_001.0;
/// How far back a page looks.
const FLOOR: Bound = Key(ROWS - 20_000);

const STATEMENTS: &[(&str, &[Bound])] = &[
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
    // However little of it was counted.
    ("ledger_rows", &[Lowest, Int(20_000)]),
    ("count_next", &[Lowest, Int(20_000)]),
    ("event_by_key", &[Key(5)]),
    ("event_by_identity", &[Key(5)]),
    ("arrivals_of", &[Key(5)]),
    ("deliveries_of", &[Key(5), Key(5), Key(6)]),
    ("attempts_of", &[Key(5), Key(6), Key(5)]),
    ("payload_of", &[Key(5)]),
    ("events_after", &[Key(ROWS - 10), Null, Null, Null, Int(500), Highest]),
    ("events_by_id", &[Text("evt_5"), Text("src")]),
    ("count_recent", &[Lowest, Int(20_001)]),
    ("queue_depths", &[]),
    ("outbox_depths", &[]),
    ("message_by_id", &[Other(5)]),
    ("attempts_of_message", &[Other(5)]),
    ("ledger_rows_before", &[Int(5), Int(1)]),
    // What the pages that ask before an action count, and what it then does.
    ("action_count_events", &[Below(5), Null, Null, Null, Null, Key(5), Null]),
    ("action_events", &[Below(5), Null, Null, Null, Null, Key(5), Text("accepted"), Int(500)]),
    ("events_edge", &[Lowest, Highest, Int(19_999)]),
    ("waiting_action_count", &[Below(5), Null, Null, Null, Null, Key(5), Text("held")]),
    ("waiting_action_count", &[Lowest, Text("src"), Null, Null, Null, Highest, Text("held")]),
    ("waiting_action_events", &[Below(5), Null, Null, Null, Null, Key(5), Text("held"), Int(500)]),
    ("waiting_action_events", &[Lowest, Text("no"), Null, Null, Null, Highest, Text("held"), Int(500)]),
    ("count_bare_events", &[Below(500), Null, Null, Null, Null, Key(500), Text("held")]),
    ("count_bare_events", &[Lowest, Text("src"), Null, Null, Null, Highest, Text("held")]),
    ("action_count", &[Key(4), Null, Null, Null, Null, Key(6), Null, Text("dead"), Text("held"), Key(5)]),
    ("action_count", &[Lowest, Text("src"), Null, Null, Null, Highest, Null, Text("dead"), Text("dead"), Null]),
    (
        "action_slice",
        &[Key(4), Null, Null, Null, Null, Key(6), Null, Text("dead"), Text("held"), Null, Null, Int(500), Key(5)],
    ),
    (
        "action_slice",
        &[Lowest, Text("no"), Null, Null, Null, Highest, Null, Text("dead"), Text("held"), Null, Null, Int(500), Null],
    ),
    ("message_action_count", &[Other(499), Null, Null, Null, Null, Other(500)]),
    ("message_action_count", &[Lowest, Text("no"), Null, Null, Null, Highest]),
    ("message_action_slice", &[Other(499), Null, Null, Null, Null, Other(500), Null, Null, Int(500), Null]),
    ("message_action_slice", &[Lowest, Text("no"), Null, Null, Null, Highest, Null, Null, Int(500), Null]),
    ("waiting_attempts", &[Lowest, Text("src"), Null, Null, Null, Highest, Null, Null, Int(1), Null]),
    ("hurry", &[Lowest, Text("no"), Null, Null, Null, Highest, Null, Null, Int(1), Int(500), Null]),
    ("waiting_attempts_of_messages", &[Lowest, Text("crm"), Null, Null, Null, Highest, Int(1), Null]),
    ("hurry_messages", &[Lowest, Text("no"), Null, Null, Null, Highest, Int(1), Int(500), Null]),
    ("ready:message_action_count", &[Lowest, Text("crm"), Null, Null, Null, Highest]),
    ("ready:message_action_slice", &[Lowest, Text("no"), Null, Null, Null, Highest, Null, Null, Int(500), Null]),
];

/// Ranges that are narrow although a plan does not tell: the deliveries of one event lie side by side.
const NARROW: [(&str, &str); 1] = [("count_bare_events", "SEARCH d ")];
/// Indexes of what waits or is stopped, which is little: they may be read whole.
const SMALL: [&str; 6] = ["events_waiting", "_ready", "_claimed", "_stopped", "_lost", "_dead"];

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

    async fn identities_are_counted_in_whole_slices_and_looked_at_up_to_a_bound(db: TestDatabase) {
        let world = World::new(db).await;
        fill(&world.db);
        let rows = async |examined_max: usize| {
            let found = world.store.ledger_rows(examined_max).await.unwrap();
            (found.total(), found.is_least)
        };
        assert_eq!((rows(100).await, rows(100_000).await), ((100, true), (ROWS, false)));
        // Nobody counts where somebody may still write.
        assert!(!world.store.has_slice_to_count(NOW + 1000).await.unwrap());
        let later = NOW + 1000 * ROWS;
        for counted in [20_000, 40_000] {
            assert!(world.store.has_slice_to_count(later).await.unwrap());
            assert!(world.store.count_ledger(later).await.unwrap());
            assert_eq!((rows(100).await, rows(100_000).await), ((counted + 100, true), (ROWS, false)));
        }
        assert!(!world.store.has_slice_to_count(later).await.unwrap(), "the last slice is not whole");
        assert!(!world.store.count_ledger(later).await.unwrap());
        assert_eq!(rows(100).await, (ROWS, false));
    }

    async fn an_action_that_few_fit_goes_through_all_in_slices(db: TestDatabase) {
        let world = World::new(db).await;
        fill(&world.db);
        let events = world.db.table("events");
        for id in ["evt_7", "evt_59999"] {
            world.db.execute(&format!("update {events} set type = 'rare' where event_id = '{id}'"));
        }
        let route = Route { handler: "late".into(), sources: Vec::new(), types: vec![Glob::parse("rare").unwrap()], serial: None };
        let routes = Routes::new(vec![route]);
        let (event_type, handler) = (Some("rare".to_owned()), Some("late".to_owned()));
        let filter = ActionFilter { event_type, handler, since: Some(1), ..ActionFilter::default() };
        let backfill = Action { id: "r".to_owned(), kind: ActionKind::Backfill, filter, who: "ann".to_owned() };
        // Each slice looks at no more than a page may.
        let cut_off = world.store.clone().with_faults(Faults::parse("actions.slice=fail@3").unwrap());
        assert!(cut_off.act(&backfill, Some(&routes), NOW).await.is_err());
        assert_eq!(world.store.actions_after(None, 1).await.unwrap()[0].acted, 1, "as far as it came");
        assert_eq!(world.store.act(&backfill, Some(&routes), NOW).await.unwrap(), 2);
        let late = world.query("select count(*) from {deliveries} where handler = 'late' and state = 'ready'");
        assert_eq!(late, [["2"]]);
    }
}

/// Every line of a plan that says that a page reads too much.
fn offences(db: &TestDatabase) -> Vec<String> {
    let mut bad = Vec::new();
    for (name, values) in STATEMENTS {
        let text = text_of(db.backend(), name);
        let is_open = is_open(&text, values);
        let plan = plan(db, text, values);
        let tell = |line: &String| format!("{name} {values:?}: {line}\n  in {plan:#?}");
        let is_narrow = |line: &str| NARROW.iter().any(|(of, begin)| of == name && line.starts_with(begin));
        let scans = plan.iter().filter(|line| is_scan(line, is_open && !is_narrow(line)));
        bad.extend(scans.chain(reads_much(&plan)).map(tell));
    }
    bad
}

/// True where only an index can keep a statement from reading all there is: it has no limit, or a filter that nothing fits
/// lets it never reach the limit, and no keys that bound it from both sides.
fn is_open(text: &str, values: &[Bound]) -> bool {
    let is_wide = values.contains(&Lowest) && values.contains(&Highest);
    let is_limited = text.contains("LIMIT");
    if is_limited {
        is_wide && values.contains(&Text("no"))
    } else {
        is_wide || !(text.contains(" <") || text.contains("BETWEEN"))
    }
}

/// Reading an index from its end up to a limit is fine; reading a table is not.
fn is_scan(line: &str, is_open: bool) -> bool {
    let line = line.trim_start_matches([' ', '-', '>']);
    if let Some((_, of)) = line.split_once("Seq Scan on ") {
        return is_large_on_postgres(of.split(' ').next().unwrap_or_default());
    }
    let is_search = line.starts_with("SEARCH ");
    let Some(of) = line.strip_prefix("SCAN ").or(line.strip_prefix("SEARCH ")) else { return false };
    let name = of.split(' ').next().unwrap_or_default();
    let is_large = ALIASES.contains(&name) || LARGE.iter().any(|large| name == format!("oncebox_{large}"));
    let index = of.split_once(" INDEX ").map(|(_, rest)| rest.split(' ').next().unwrap_or_default());
    let is_small = index.is_some_and(|index| SMALL.iter().any(|small| index.ends_with(small)));
    // A search by a range alone goes from one end of it to the other.
    let seeks = is_search && of.contains("=?");
    is_large && ((!is_search && index.is_none()) || (is_open && !is_small && !seeks))
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

/// A statement as the database gets it. Of one that changes rows it is the question which ones.
fn text_of(backend: Backend, name: &str) -> String {
    if let Some(name) = name.strip_prefix("ready:") {
        let of_destination = ("(CAST($2 AS text) IS NULL OR m.destination = $2)", "m.destination = $2");
        return text_of(backend, name).replace("'dead'", "'ready'").replace(of_destination.0, of_destination.1);
    }
    let read = |folder: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("sql/{folder}/{name}.sql"));
        std::fs::read_to_string(file).ok()
    };
    let own = if backend == Backend::Sqlite { "sqlite" } else { "postgres" };
    let text = read("shared").or_else(|| read(own)).unwrap_or_else(|| panic!("there is no {name}.sql"));
    let dead = "m.state = 'dead' AND (CAST($2 AS text) IS NULL OR m.destination = $2)";
    let text = text.replace("{which}", dead);
    let asks = text.split_once(" IN (\n    SELECT ").and_then(|(_, rest)| rest.split_once(")\nRETURNING"));
    let text = asks
        .filter(|_| name.ends_with("_slice") || name.starts_with("hurry"))
        .map_or(text.clone(), |(asks, _)| format!("SELECT {asks}"));
    if backend == Backend::Postgres {
        return text;
    }
    text.replace("FOR UPDATE SKIP LOCKED", "")
        .replace("FOR UPDATE", "")
        .replace(" AS uuid)", " AS blob)")
        .replace("LIKE $3 ESCAPE '!'", "GLOB $3")
        .replace("oncebox.now_ms(", "(")
        .replace("oncebox.steady_ms(", "coalesce(")
        .replace("oncebox.", "oncebox_")
        .replace('?', "$")
}

fn plan(db: &TestDatabase, mut text: String, values: &[Bound]) -> Vec<String> {
    for (n, value) in values.iter().enumerate().rev() {
        text = text.replace(&format!("${}", n + 1), &literal(db.backend(), *value));
    }
    match db.backend() {
        Backend::Sqlite => {
            db.query(&format!("explain query plan {text}")).into_iter().map(|mut row| row.remove(3)).collect()
        }
        Backend::Postgres => {
            let settings = include_str!("../../../../sql/postgres/reader.sql");
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
        Below(n) => key(&format!("{:012x}70008000{:012x}", 1_731_700_000_000 + n, n - 1)),
        Other(n) => key(&format!("{:012x}7000a000{n:012x}", 1_731_700_000_000 + n)),
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
        "id, destination, size, state, due_at_ms, created_at_ms",
        &format!(
            "{other}, 'crm', 2, case when n % 500 = 0 then 'dead' when n % 97 = 0 then 'ready' else 'sent' end, {ms}, {ms}"
        ),
    );
    insert("outbox_contents", "id, idempotency_key, body, key", &format!("{other}, 'k' || n, {bytes}, {event}"));
    db.execute(&format!(
        "insert into {} (handler, attempts, base_ms, cap_ms, lease_ms, on_dead) values ('mail', 3, 1, 1, 1, 'skip')",
        table("handlers")
    ));
    db.execute(&format!("insert into {} (destination, attempts, ordered) values ('crm', 3, 0)", table("destinations")));
}
