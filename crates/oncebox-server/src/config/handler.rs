//! `[[handler]]`: what reacts to events.

use std::sync::Arc;
use std::time::Duration;

use oncebox::RetryPolicy;
use oncebox::gateway::delivery::routing::{Glob, Route};
use oncebox::gateway::lane::rate::Rate;
use oncebox::gateway::outgoing::forward::SigningKey;
use oncebox::gateway::outgoing::{AddressRange, Target};
use oncebox::gateway::store::{Dialect, HandlerSql, HandlerSqlError};
use oncebox::gateway::worker::handler::{Latest, OncePer, OrderRules, Otherwise, WaitFor};
use oncebox_verify::{BodyPointer, Secret};

use super::problem::Place;
use super::reader::{Item, Table};
use super::{DAY, HOUR, SECOND, name, suggest, web};

const MILLISECOND: Duration = Duration::from_millis(1);
const LEASE_DEFAULT: Duration = Duration::from_secs(60);
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
const WINDOW_DEFAULT: Duration = Duration::from_secs(600);
const CONCURRENCY_MAX: usize = 4096;
const ATTEMPTS_MAX: u32 = 1000;
const SQL_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct HandlerConfig {
    /// Its name and which events it wants.
    pub(crate) route: Route,
    pub(crate) kind: HandlerKind,
    /// How long a worker may keep a delivery.
    pub(crate) lease: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) concurrency: usize,
    /// What order asks for, beside the route's one at a time.
    pub(crate) order: OrderRules,
    /// Opens claim, finish, fail and extend of this handler over HTTP, and nothing else.
    pub(crate) token: Option<Secret>,
}

#[derive(Clone, Debug)]
pub(crate) enum HandlerKind {
    /// Statements in the same transaction as `done`, and where they stand in the file and under which key.
    Sql(Arc<HandlerSql>, Place, String),
    /// A call to the user's application.
    Http(Box<HttpHandler>),
    /// Claimed by others, over SQL or HTTP.
    Pull,
    /// Writes a log line; only in development.
    Log,
}

/// The application that an `http` handler calls.
#[derive(Clone, Debug)]
pub(crate) struct HttpHandler {
    pub(crate) url: Target,
    /// How long one call may take; always shorter than the lease.
    pub(crate) timeout: Duration,
    pub(crate) signing: Option<SigningKey>,
    pub(crate) rate: Option<Rate>,
    /// Link-local addresses it may reach.
    pub(crate) allow: Vec<AddressRange>,
}

impl HandlerKind {
    /// The word that the config has for it.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Sql(..) => "sql",
            Self::Http(_) => "http",
            Self::Pull => "pull",
            Self::Log => "log",
        }
    }
}

impl HandlerConfig {
    /// One that has its defaults.
    pub(crate) fn new(route: Route, kind: HandlerKind) -> Self {
        let (retry, order) = (RetryPolicy::default(), OrderRules::default());
        Self { route, kind, lease: LEASE_DEFAULT, retry, concurrency: 16, order, token: None }
    }

    pub(crate) fn name(&self) -> &str {
        &self.route.handler
    }

    /// Reads one entry; `sources` are the names it may refer to, `dialect` is what its SQL is written in.
    pub(crate) fn read(mut table: Table<'_>, sources: &[&str], dialect: Dialect) -> Option<Self> {
        let lease = table.duration("lease", SECOND..=DAY).unwrap_or(LEASE_DEFAULT);
        let token = read_token(&mut table);
        let kind = read_kind(&mut table, lease, dialect);
        let (route, order) = read_route(&mut table, sources, matches!(kind, Some(HandlerKind::Pull)));
        let retry = read_retry(table.section("retry"));
        let concurrency = table.count("concurrency", 1..=CONCURRENCY_MAX).unwrap_or(16);
        table.finish();
        Some(Self { route, kind: kind?, lease, retry, concurrency, order, token })
    }
}

/// Reads of an entry its name, blank where it cannot be used, and which events it wants, with the rules of order; no secret.
pub(crate) fn read_route(table: &mut Table<'_>, known: &[&str], is_pull: bool) -> (Route, OrderRules) {
    let handler = name::other(table).unwrap_or_default().into();
    let (sources, types) = (read_sources(table, known), read_types(table));
    let (serial, order) = read_rules(table, is_pull);
    (Route { handler, sources, types, serial }, order)
}

/// A token is for consumers, and only pull handlers have any.
fn read_token(table: &mut Table<'_>) -> Option<Secret> {
    let (item, kind) = (table.peek("token"), ["sql", "http"].into_iter().find(|key| table.peek(key).is_some()));
    if let (Some(item), Some(kind)) = (item, kind) {
        let what = format!("is for consumers, and this handler's work is done by the server ({kind})");
        item.problem(what, "remove it, or write pull = true");
    }
    table.token("token")
}

/// Reads `retry = { attempts, base, cap }`.
pub(crate) fn read_retry(mut table: Table<'_>) -> RetryPolicy {
    let default = RetryPolicy::default();
    let attempts = table.count("attempts", 1..=ATTEMPTS_MAX).unwrap_or(default.attempts);
    let base_item = table.peek("base");
    let base = table.duration("base", MILLISECOND..=DAY);
    let cap = table.duration("cap", MILLISECOND..=7 * DAY);
    if let (Some(item), Some(base), Some(cap)) = (base_item, base, cap)
        && base > cap
    {
        item.problem("is longer than cap", "write a shorter base or a longer cap");
    }
    table.finish();
    let base = base.unwrap_or(default.base.min(cap.unwrap_or(default.cap)));
    RetryPolicy { attempts, base, cap: cap.unwrap_or(default.cap.max(base)) }
}

fn read_kind(table: &mut Table<'_>, lease: Duration, dialect: Dialect) -> Option<HandlerKind> {
    let (sql, http, pull) = (table.take("sql"), table.take("http"), table.take("pull"));
    let what = match [&sql, &http, &pull].into_iter().flatten().count() {
        0 => Some("has none of sql, http and pull"),
        1 => None,
        _ => Some("has more than one of sql, http and pull"),
    };
    if let Some(what) = what {
        table.scope.problem(what, "keep exactly one");
    }
    let http = http.and_then(|item| read_http(&item, lease)).map(|http| HandlerKind::Http(Box::new(http)));
    let sql = sql.and_then(|item| read_sql(&item, dialect));
    sql.or(http).or(pull.map(|item| read_pull(&item)))
}

fn read_sql(item: &Item<'_>, dialect: Dialect) -> Option<HandlerKind> {
    let sql = item.text()?;
    let problem = match sql {
        _ if sql.trim().is_empty() => Some(("is blank", "write a statement, or use http or pull")),
        _ if sql.len() > SQL_BYTES_MAX => {
            Some(("is longer than 64KiB", "move the work into a function of the database"))
        }
        _ if sql.contains('\0') => Some(("holds a NUL character", "remove it")),
        _ => None,
    };
    if let Some((what, cure)) = problem {
        item.problem(what, cure);
        return None;
    }
    for problem in HandlerSql::problems(sql, dialect) {
        let cure = match &problem {
            HandlerSqlError::Unknown { bind, .. } => suggest::cure(bind, &HandlerSql::BINDS),
            _ => "correct the statement".to_owned(),
        };
        item.problem(problem.to_string(), cure);
    }
    let sql = HandlerSql::parse(sql, dialect).ok()?;
    Some(HandlerKind::Sql(Arc::new(sql), item.place(), item.scope.path.clone()))
}

fn read_pull(item: &Item<'_>) -> HandlerKind {
    if item.value.get_ref().as_bool() != Some(true) {
        item.problem("can only be true", "write pull = true, or remove it");
    }
    HandlerKind::Pull
}

fn read_http(item: &Item<'_>, lease: Duration) -> Option<HttpHandler> {
    let mut table = item.table()?;
    let timeout_item = table.peek("timeout");
    let timeout = table.duration("timeout", MILLISECOND..=HOUR);
    if let (Some(timeout), Some(item)) = (timeout, timeout_item)
        && timeout >= lease
    {
        item.problem("is not shorter than the handler's lease", "write a shorter timeout or a longer lease");
    }
    let (url, allow) = web::target(&mut table, "write url = \"http://127.0.0.1:3000/hooks\"");
    let (signing, rate) = (web::signing(&mut table), web::rate(&mut table));
    table.finish();
    Some(HttpHandler { url: url?, timeout: timeout.unwrap_or(TIMEOUT_DEFAULT.min(lease / 2)), signing, rate, allow })
}

fn read_sources(table: &mut Table<'_>, known: &[&str]) -> Vec<String> {
    let cure = "name a source, or remove the key to take all";
    let list = table.take("sources").and_then(|item| item.filled_list(cure)).unwrap_or_default();
    let mut sources = Vec::new();
    for item in list {
        let Some(name) = item.text() else { continue };
        if !known.contains(&name) {
            let cure = suggest::nearest(name, known.iter().copied()).map(|near| format!("did you mean {near:?}?"));
            let cure = cure.unwrap_or_else(|| "add a [[source]] of that name".to_owned());
            item.problem(format!("there is no source {name:?}"), cure);
        }
        sources.push(name.to_owned());
    }
    sources
}

fn read_types(table: &mut Table<'_>) -> Vec<Glob> {
    let cure = "write a pattern, or remove the key to take all";
    let list = table.take("types").and_then(|item| item.filled_list(cure)).unwrap_or_default();
    let form = "a pattern of plain characters, * and ? such as \"invoice.*\"";
    list.iter().filter_map(|item| item.parsed(Glob::parse, form)).collect()
}

/// One at a time per key, and the rules that are judged. Whoever pulls works in a transaction of its own, in which nobody of
/// ours judges; one at a time is kept by the claim.
fn read_rules(table: &mut Table<'_>, is_pull: bool) -> (Option<BodyPointer>, OrderRules) {
    let (order, wait_for, once_per) = (table.take("order"), table.take("wait_for"), table.take("once_per"));
    let mut rules = OrderRules {
        wait_for: wait_for.as_ref().and_then(read_wait_for),
        once_per: once_per.as_ref().and_then(read_once_per),
        ..OrderRules::default()
    };
    let serial = order.as_ref().and_then(|item| read_order(item, &mut rules));
    let latest = order.filter(|_| rules.latest.is_some());
    for (item, cure) in [
        (latest, "ask oncebox.newer in the consumer's transaction, or write rule = \"serial\""),
        (wait_for, "remove it, and let the consumer fail what came too early, to be tried again"),
        (once_per, "remove it, and ask oncebox.once in the consumer's transaction"),
    ] {
        if let Some(item) = item.filter(|_| is_pull) {
            item.problem("is not judged for a pull handler", cure);
        }
    }
    (serial, rules)
}

/// The key of rule `serial`; rule `latest` goes among the others.
fn read_order(order: &Item<'_>, rules: &mut OrderRules) -> Option<BodyPointer> {
    let mut table = order.table()?;
    let key = table.required("key", "write key = \"/data/object/id\"").and_then(|item| pointer(&item));
    let (version_item, dead_item) = (table.peek("version"), table.peek("on_dead"));
    let version = table.take("version").and_then(|item| pointer(&item));
    let block = table.word("on_dead", &[("skip", false), ("block", true)]);
    if table.peek("rule").is_none() {
        order.problem("rule is missing", "write rule = \"latest\" or rule = \"serial\"");
    }
    let is_serial = table.word("rule", &[("latest", false), ("serial", true)]);
    table.finish();
    let is_serial = is_serial?;
    let (misplaced, what, cure) = match is_serial {
        true => (version_item.as_ref(), "means nothing to rule \"serial\"", "remove it, or write rule = \"latest\""),
        false => (dead_item.as_ref(), "means nothing to rule \"latest\"", "remove it, or write rule = \"serial\""),
    };
    if let Some(item) = misplaced {
        item.problem(what, cure);
    }
    if is_serial {
        rules.block_on_dead = block.unwrap_or(false);
        return key;
    }
    if version_item.is_none() {
        order.problem("version is missing", "write version = \"/created\"");
    }
    rules.latest = key.zip(version).map(|(key, version)| Latest { key, version });
    None
}

fn read_wait_for(item: &Item<'_>) -> Option<WaitFor> {
    let mut table = item.table()?;
    let named = |text: &str| (!text.trim().is_empty()).then(|| text.to_owned());
    let event_type = table
        .required("type", "write type = \"customer.created\"")
        .and_then(|item| item.parsed(named, "an event type such as \"customer.created\""));
    let key = table.required("key", "write key = \"/data/object/customer\"").and_then(|item| pointer(&item));
    let on = table.required("on", "write on = \"/data/object/id\"").and_then(|item| pointer(&item));
    let within = table.duration("within", SECOND..=30 * DAY).unwrap_or(WINDOW_DEFAULT);
    let words = [("run", Otherwise::Run), ("dead", Otherwise::Dead)];
    let otherwise = table.word("otherwise", &words).unwrap_or(Otherwise::Run);
    table.finish();
    Some(WaitFor { event_type: event_type?, key: key?, on: on?, within, otherwise })
}

fn read_once_per(item: &Item<'_>) -> Option<OncePer> {
    let mut table = item.table()?;
    let fields = table.required("fields", "write fields = [\"/type\", \"/data/object/id\"]");
    let fields = fields.and_then(|item| item.filled_list("name at least one field"));
    let window = table.duration("window", SECOND..=30 * DAY).unwrap_or(WINDOW_DEFAULT);
    table.finish();
    Some(OncePer { fields: fields?.iter().filter_map(pointer).collect(), window })
}

/// A JSON pointer (RFC 6901) to something inside the body, no deeper than bodies are read.
fn pointer(item: &Item<'_>) -> Option<BodyPointer> {
    let escapes_end_well = |text: &str| text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    let is_pointer = |text: &str| text.starts_with('/') && text.len() <= 255 && escapes_end_well(text);
    let form = "a JSON pointer such as \"/data/object/id\"";
    item.parsed(|text| is_pointer(text).then(|| BodyPointer::parse(text)).flatten(), form)
}
