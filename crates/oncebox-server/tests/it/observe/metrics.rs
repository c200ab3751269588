//! The metrics of the real program: all that the manual names is there, and nothing else; dashboards and rules ask for
//! nothing that is not.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use testkit::sender;
use testkit::{TestDatabase, contract};

use crate::handling::{HASTY, LEDGER, event};
use crate::world::{PATIENCE, STRIPE, Setup, World, custom, now, stripe, wait_until};

const PAGE: &str = include_str!("../../../../../docs/metrics.md");
const DASHBOARD: &str = include_str!("../../../../../ops/grafana/oncebox.json");
const RULES: &str = include_str!("../../../../../ops/prometheus/alerts.yml");
/// Labels that Prometheus adds or that stand for a bucket.
const FOREIGN: [&str; 3] = ["job", "instance", "le"];

/// A metric: its type, and the values of each label that were seen.
#[derive(Clone, Debug, Default)]
struct Metric {
    kind: String,
    labels: BTreeMap<String, BTreeSet<String>>,
}

type Scrape = BTreeMap<String, Metric>;

/// A server with every kind of thing configured, after every kind of traffic.
fn after_traffic(db: TestDatabase) -> (World, Scrape) {
    db.execute("create table effects (event_id text, event_key text, attempt integer)");
    // A secret out of the environment has a name.
    let mut setup = Setup::new(db.url()).env("STRIPE_SECRET", STRIPE);
    setup.rest = setup.rest.replace(&format!("{{ value = \"{STRIPE}\" }}"), "{ env = \"STRIPE_SECRET\" }");
    setup.rest.push_str(LEDGER);
    setup.rest.push_str("[[destination]]\nname = \"crm\"\nurl = \"http://127.0.0.1:9/\"\n");
    setup.rest.push_str(&format!(
        "[[handler]]\nname = \"away\"\nsources = [\"custom\"]\nhttp = {{ url = \"http://127.0.0.1:9/\" }}\n{HASTY}"
    ));
    let world = World { program: setup.serve(), db };
    world.expect("custom", &event(1), "accepted");
    world.expect("custom", &event(1), "duplicate");
    world.expect("stripe", &stripe("evt_1"), "accepted");
    let mut forged = custom(r#"{"id":"forged"}"#);
    forged.body = br#"{"id":"forger"}"#.to_vec();
    world.expect_401("custom", &forged);
    let done = r#"oncebox_attempts_total{handler="ledger",try="first",outcome="done"} 1"#;
    wait_until("the handler ran", PATIENCE, || world.metrics().contains(done));
    let scrape = read_scrape(&world.metrics());
    (world, scrape)
}

fn read_scrape(text: &str) -> Scrape {
    let mut found = Scrape::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            found.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#') {
            let series = line.rsplit_once(' ').expect("a value").0;
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let is_part = |name: &&str| found.get(*name).is_some_and(|metric| metric.kind == "histogram");
            let parts = ["_bucket", "_sum", "_count"];
            let whole = parts.iter().find_map(|part| name.strip_suffix(part)).filter(is_part).unwrap_or(name);
            let metric = found.get_mut(whole).unwrap_or_else(|| panic!("{name} has no type"));
            for (label, value) in matchers(labels.trim_end_matches('}')) {
                metric.labels.entry(label.to_owned()).or_default().insert(value.to_owned());
            }
        }
    }
    found
}

/// `a="b",c=~"d|e"` as names and values.
fn matchers(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let quoted = after.trim_start_matches('~').strip_prefix('"').expect("a value in quotes");
        let (value, after) = quoted.split_once('"').expect("a closing quote");
        found.push((name, value));
        rest = after.trim_start_matches(',');
    }
    found
}

/// The rows of the manual's table: name, type, labels.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `oncebox_") && line.split('|').count() >= 6);
    let read = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let labels = cells[2].split(',').map(|label| label.trim().trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        (cells[0].trim_matches('`').to_owned(), (cells[1].to_owned(), labels))
    };
    rows.map(read).collect()
}

/// Every expression of the dashboard.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| expressions(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

/// Every name, label and value that a query asks for must be in the scrape.
#[track_caller]
fn check_query(query: &str, scrape: &Scrape) -> usize {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
    let mut count = 0;
    for (at, _) in query.match_indices("oncebox_") {
        let rest = &query[at..];
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        let metric = scrape.get(name).or_else(|| scrape.get(name.strip_suffix("_bucket")?));
        let metric = metric.unwrap_or_else(|| panic!("{name} is not there: {query}"));
        let labels = rest[name.len()..].strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |x| x.0);
        for (label, values) in matchers(labels).into_iter().filter(|(label, _)| !FOREIGN.contains(label)) {
            let seen = metric.labels.get(label).unwrap_or_else(|| panic!("{name} has no label {label}: {query}"));
            let missing: Vec<&str> = values.split('|').filter(|value| !seen.contains(*value)).collect();
            assert!(missing.is_empty(), "{name} is never {label} {missing:?}, only {seen:?}: {query}");
        }
        count += 1;
    }
    for (at, _) in query.match_indices("by (") {
        let inner = query[at + 4..].split_once(')').expect("a closing bracket").0;
        for label in inner.split(',').map(str::trim).filter(|label| !FOREIGN.contains(label)) {
            assert!(scrape.values().any(|metric| metric.labels.contains_key(label)), "no label {label}: {query}");
        }
    }
    count
}

contract! {
    async fn the_manual_names_what_is_shown_and_nothing_else(db: TestDatabase) {
        let (_world, scrape) = after_traffic(db);
        let documented = documented();
        assert!(documented.len() >= 14, "{documented:?}");
        for (name, metric) in &scrape {
            let (kind, labels) = documented.get(name).unwrap_or_else(|| panic!("docs/metrics.md does not name {name}"));
            assert_eq!(&metric.kind, kind, "{name}");
            let shown: BTreeSet<String> = metric.labels.keys().filter(|label| *label != "le").cloned().collect();
            assert_eq!(&shown, labels, "{name}");
        }
        for name in documented.keys() {
            assert!(scrape.contains_key(name), "docs/metrics.md names {name}, which is not there");
        }
        for (name, metric) in scrape.iter().filter(|(_, metric)| metric.kind == "histogram") {
            let row = PAGE.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{name}`")) && line.contains("0.0005"));
            let written: BTreeSet<&str> = row.unwrap_or_else(|| panic!("the buckets of {name} are not documented"))
                .trim_matches('|').rsplit_once('|').expect("cells").1.split(',').map(str::trim).collect();
            let mut bounds: BTreeSet<&str> = metric.labels["le"].iter().map(String::as_str).collect();
            bounds.remove("+Inf");
            assert_eq!(bounds, written, "{name}");
        }
    }

    async fn dashboard_and_rules_ask_for_what_is_there(db: TestDatabase) {
        let (_world, scrape) = after_traffic(db);
        let mut queries = Vec::new();
        expressions(&serde_json::from_str(DASHBOARD).expect("the dashboard is JSON"), &mut queries);
        assert!(queries.len() >= 20, "{queries:?}");
        let asked: usize = queries.iter().map(|query| check_query(query, &scrape)).sum();
        // Prose may name a metric, too; it must exist all the same.
        assert!(asked >= 20 && check_query(RULES, &scrape) >= 10);
    }

    async fn a_clock_that_is_off_shows(db: TestDatabase) {
        let world = World::start(db);
        let value = |against: &str| -> f64 {
            let series = format!("oncebox_clock_skew_seconds{{against=\"{against}\"}} ");
            let metrics = world.metrics();
            let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
            line.unwrap_or_else(|| panic!("no {series}")).parse().expect("a number")
        };
        assert_eq!((value("senders_median"), value("senders_farthest")), (0.0, 0.0));
        assert!(value("database").abs() < 5.0, "one machine has one clock");
        for (id, off) in [("a", 100), ("b", 101), ("c", 250)] {
            let body = format!(r#"{{"id":"{id}","type":"t"}}"#);
            world.expect("stripe", &sender::stripe_bytes(STRIPE, now() - off, body.into_bytes()), "accepted");
        }
        assert!((100.0..110.0).contains(&value("senders_median")), "{}", value("senders_median"));
        assert!((250.0..260.0).contains(&value("senders_farthest")), "{}", value("senders_farthest"));
    }

    async fn the_first_of_its_kind_is_a_step_from_zero(db: TestDatabase) {
        let world = World::start(db);
        let metrics = world.metrics();
        for line in [
            r#"oncebox_arrivals_total{source="github",result="rejected"} 0"#,
            r#"oncebox_rejections_total{source="github",reason="mismatch"} 0"#,
            r#"oncebox_secret_matches_total{source="github",secret="1"} 0"#,
            r#"oncebox_id_mismatches_total{source="github"} 0"#,
            r#"oncebox_attempts_total{handler="pull",try="first",outcome="failed"} 0"#,
            r#"oncebox_handler_seconds_count{handler="pull"} 0"#,
            "oncebox_ack_seconds_count 0",
        ] {
            assert!(metrics.lines().any(|one| one == line), "{line} is not in:\n{metrics}");
        }
    }
}
