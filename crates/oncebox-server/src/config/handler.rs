//! `[[handler]]`: what reacts to events.

use std::time::Duration;

use oncebox::gateway::delivery::routing::{Glob, Route};
use oncebox::gateway::store::{Dialect, HandlerSql, HandlerSqlError};
use oncebox_verify::{BodyPointer, Secret};

use super::problem::Place;
use super::reader::{Item, Table};
use super::units::{Rate, parse_rate};
use super::web::{self, AddressRange};
use super::{name, suggest};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const CONCURRENCY_MAX: usize = 4096;
const ATTEMPTS_MAX: usize = 1000;
const SQL_BYTES_MAX: usize = 64 * 1024;

/// What reacts to events.
#[derive(Clone, Debug)]
pub(crate) struct HandlerConfig {
    /// Its name.
    pub(crate) name: String,
    /// The sources it listens to; empty means all.
    pub(crate) sources: Vec<String>,
    /// The types it wants; empty means all.
    pub(crate) types: Vec<Glob>,
    /// How it works.
    pub(crate) kind: HandlerKind,
    /// Where its SQL stands in the file and under which key, if it has any.
    pub(crate) sql_place: Option<(Place, String)>,
    /// How long a worker may keep a delivery.
    pub(crate) lease: Duration,
    /// When to try again and when to give up.
    pub(crate) retry: RetryConfig,
    /// Deliveries at once.
    pub(crate) concurrency: usize,
    /// Order among events of one key.
    pub(crate) order: Option<Order>,
    /// What must be done before.
    pub(crate) wait_for: Option<WaitFor>,
    /// Two ids, one business change.
    pub(crate) once_per: Option<OncePer>,
    /// Opens claim, finish, fail and extend of this handler over HTTP, and nothing else.
    pub(crate) token: Option<Secret>,
}

/// How a handler works.
#[derive(Clone, Debug)]
pub(crate) enum HandlerKind {
    /// Statements in the same transaction as `done`.
    Sql(String),
    /// A call to the user's application.
    Http(HttpHandler),
    /// Claimed by others, over SQL or HTTP.
    Pull,
    /// Writes a log line; only in development.
    Log,
}

/// The application that an `http` handler calls.
#[derive(Clone, Debug)]
pub(crate) struct HttpHandler {
    /// Where.
    pub(crate) url: String,
    /// How long one call may take; always shorter than the lease.
    pub(crate) timeout: Duration,
    /// Signs the call.
    pub(crate) secret: Option<Secret>,
    /// How fast at most.
    pub(crate) rate: Option<Rate>,
    /// Link-local addresses it may reach.
    pub(crate) allow: Vec<AddressRange>,
}

/// When to try again and when to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryConfig {
    /// Tries in all.
    pub(crate) attempts: usize,
    /// The first pause at most.
    pub(crate) base: Duration,
    /// Any pause at most.
    pub(crate) cap: Duration,
}

/// Order among events of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// JSON pointer to the key.
    pub(crate) key: String,
    /// What order means.
    pub(crate) rule: OrderRule,
}

/// What order means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OrderRule {
    /// Strictly older versions become superseded; the JSON pointer tells the version.
    Latest(String),
    /// One at a time, in arrival order.
    Serial(OnDead),
}

/// What a dead delivery does to those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDead {
    /// They go on.
    Skip,
    /// They wait.
    Block,
}

/// A prerequisite of the same handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitFor {
    /// The prerequisite's type.
    pub(crate) event_type: String,
    /// JSON pointer to the shared key in this event.
    pub(crate) key: String,
    /// JSON pointer to the shared key in the prerequisite.
    pub(crate) on: String,
    /// How long to wait.
    pub(crate) within: Duration,
    /// What happens at the deadline.
    pub(crate) otherwise: Otherwise,
}

/// What happens when the prerequisite never came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// Run without it.
    Run,
    /// Give up.
    Dead,
}

/// Events with the same fields within the window are one business change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OncePer {
    /// JSON pointers.
    pub(crate) fields: Vec<String>,
    /// The window.
    pub(crate) window: Duration,
}

impl HandlerKind {
    /// The word that the config has for it.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Sql(_) => "sql",
            Self::Http(_) => "http",
            Self::Pull => "pull",
            Self::Log => "log",
        }
    }
}

impl HandlerConfig {
    /// Reads one entry; `sources` are the names it may refer to, `dialect` is what its SQL is written in.
    pub(crate) fn read(mut table: Table<'_>, sources: &[&str], dialect: Dialect) -> Option<Self> {
        let name = name::other(&mut table);
        let lease = table.duration("lease", SECOND..=DAY).unwrap_or(Duration::from_secs(60));
        let sql_place = table.peek("sql").map(|item| (item.place(), item.scope().path.clone()));
        let kind = read_kind(&mut table, lease, dialect);
        let token = read_token(&mut table, kind.as_ref());
        let judged = [table.peek("order"), table.peek("wait_for"), table.peek("once_per")];
        let handler = Self {
            name: name.unwrap_or_default().to_owned(),
            sources: read_sources(&mut table, sources),
            types: read_types(&mut table),
            kind: kind.clone().unwrap_or(HandlerKind::Pull),
            sql_place,
            lease,
            retry: RetryConfig::read(table.section("retry")),
            concurrency: table.count("concurrency", 1..=CONCURRENCY_MAX).unwrap_or(16),
            order: table.take("order").and_then(|item| read_order(&item)),
            wait_for: table.take("wait_for").and_then(|item| read_wait_for(&item)),
            once_per: table.take("once_per").and_then(|item| read_once_per(&item)),
            token,
        };
        table.finish();
        if let Some(HandlerKind::Pull) = kind {
            handler.refuse_what_is_not_judged(judged);
        }
        kind.map(|_| handler)
    }
}

/// Reads of an entry only which events it wants, and no secret.
pub(crate) fn read_route(mut table: Table<'_>, sources: &[&str]) -> Option<Route> {
    let name = name::other(&mut table)?;
    let order = table.take("order").and_then(|item| read_order(&item));
    let (sources, types) = (read_sources(&mut table, sources), read_types(&mut table));
    Some(Route { handler: name.into(), sources, types, serial: serial_key(order.as_ref()) })
}

fn serial_key(order: Option<&Order>) -> Option<BodyPointer> {
    let order = order.filter(|order| matches!(order.rule, OrderRule::Serial(_)))?;
    BodyPointer::parse(&order.key)
}

/// A token is for consumers, and only pull handlers have any.
fn read_token(table: &mut Table<'_>, kind: Option<&HandlerKind>) -> Option<Secret> {
    let item = table.peek("token");
    let token = table.token("token");
    if let (Some(item), Some(kind)) = (item, kind.filter(|kind| !matches!(kind, HandlerKind::Pull))) {
        let what = format!("is for consumers, and this handler's work is done by the server ({})", kind.as_str());
        item.problem(what, "remove it, or write pull = true");
    }
    token
}

impl HandlerConfig {
    /// Which events it wants.
    pub(crate) fn route(&self) -> Route {
        Route {
            handler: self.name.as_str().into(),
            sources: self.sources.clone(),
            types: self.types.clone(),
            serial: serial_key(self.order.as_ref()),
        }
    }

    /// Whoever pulls works in a transaction of its own, in which nobody of ours judges; one at a time is kept by the claim.
    fn refuse_what_is_not_judged(&self, [order, wait_for, once_per]: [Option<Item<'_>>; 3]) {
        let is_latest = matches!(&self.order, Some(Order { rule: OrderRule::Latest(_), .. }));
        for (item, cure) in [
            (
                order.filter(|_| is_latest),
                "ask oncebox.newer in the consumer's transaction, or write rule = \"serial\"",
            ),
            (wait_for, "remove it, and let the consumer fail what came too early, to be tried again"),
            (once_per, "remove it, and ask oncebox.once in the consumer's transaction"),
        ] {
            if let Some(item) = item {
                item.problem("is not judged for a pull handler", cure);
            }
        }
    }
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self { attempts: 12, base: Duration::from_secs(5), cap: HOUR }
    }
}

impl RetryConfig {
    /// Reads `retry = { attempts, base, cap }`.
    pub(crate) fn read(mut table: Table<'_>) -> Self {
        let default = Self::default();
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
        Self { attempts, base, cap: cap.unwrap_or(default.cap.max(base)) }
    }
}

fn read_kind(table: &mut Table<'_>, lease: Duration, dialect: Dialect) -> Option<HandlerKind> {
    let (sql, http, pull) = (table.take("sql"), table.take("http"), table.take("pull"));
    let given = usize::from(sql.is_some()) + usize::from(http.is_some()) + usize::from(pull.is_some());
    if given != 1 {
        let what =
            if given == 0 { "has none of sql, http and pull" } else { "has more than one of sql, http and pull" };
        table.scope().problem(what, "keep exactly one");
    }
    let http = http.and_then(|item| read_http(&item, lease)).map(HandlerKind::Http);
    let sql = sql.and_then(|item| read_sql(&item, dialect)).map(HandlerKind::Sql);
    let pull = pull.and_then(|item| read_pull(&item));
    sql.or(http).or(pull)
}

fn read_sql(item: &Item<'_>, dialect: Dialect) -> Option<String> {
    let sql = item.text()?;
    if sql.trim().is_empty() {
        item.problem("is blank", "write a statement, or use http or pull");
    } else if sql.len() > SQL_BYTES_MAX {
        item.problem("is longer than 64KiB", "move the work into a function of the database");
    } else if sql.contains('\0') {
        item.problem("holds a NUL character", "remove it");
    } else {
        for problem in HandlerSql::problems(sql, dialect) {
            let cure = match &problem {
                HandlerSqlError::Unknown { bind, .. } => suggest::cure(bind, &HandlerSql::BINDS),
                _ => "correct the statement".to_owned(),
            };
            item.problem(problem.to_string(), cure);
        }
    }
    Some(sql.to_owned())
}

fn read_pull(item: &Item<'_>) -> Option<HandlerKind> {
    if item.value().get_ref().as_bool() != Some(true) {
        item.problem("can only be true", "write pull = true, or remove it");
    }
    Some(HandlerKind::Pull)
}

fn read_http(item: &Item<'_>, lease: Duration) -> Option<HttpHandler> {
    let mut table = item.table()?;
    let url_item = table.required("url", "write url = \"http://127.0.0.1:3000/hooks\"");
    let timeout_item = table.peek("timeout");
    let timeout = table.duration("timeout", MILLISECOND..=HOUR);
    if let (Some(timeout), Some(item)) = (timeout, timeout_item)
        && timeout >= lease
    {
        item.problem("is not shorter than the handler's lease", "write a shorter timeout or a longer lease");
    }
    let secret = table.secret("secret");
    let rate = table.take("rate").and_then(|item| item.parsed(parse_rate, "a rate such as \"50/s\" or \"100/m\""));
    let allow = web::allow(&mut table);
    let url = url_item.and_then(|item| web::target_url(&item, &allow, "bodies"));
    table.finish();
    let timeout = timeout.unwrap_or(Duration::from_secs(10).min(lease / 2));
    Some(HttpHandler { url: url?, timeout, secret, rate, allow })
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

fn read_order(item: &Item<'_>) -> Option<Order> {
    let mut table = item.table()?;
    let key = table.required("key", "write key = \"/data/object/id\"").and_then(|item| pointer(&item));
    let version = table.take("version");
    let on_dead = table.take("on_dead");
    let serial = match table.word("rule", &[("latest", false), ("serial", true)]) {
        Some(serial) => serial,
        None => {
            if !item.scope().report.mentions(&format!("{}.rule", item.scope().path)) {
                item.problem("rule is missing", "write rule = \"latest\" or rule = \"serial\"");
            }
            table.finish();
            return None;
        }
    };
    table.finish();
    let rule = if serial { serial_rule(version, on_dead) } else { latest_rule(item, version, on_dead) };
    Some(Order { key: key?, rule: rule? })
}

fn serial_rule(version: Option<Item<'_>>, on_dead: Option<Item<'_>>) -> Option<OrderRule> {
    if let Some(version) = version {
        version.problem("means nothing to rule \"serial\"", "remove it, or write rule = \"latest\"");
    }
    let Some(item) = on_dead else { return Some(OrderRule::Serial(OnDead::Skip)) };
    match item.text()? {
        "skip" => Some(OrderRule::Serial(OnDead::Skip)),
        "block" => Some(OrderRule::Serial(OnDead::Block)),
        other => {
            item.problem(format!("{other:?} is not a word for it"), "use one of skip, block");
            None
        }
    }
}

fn latest_rule(order: &Item<'_>, version: Option<Item<'_>>, on_dead: Option<Item<'_>>) -> Option<OrderRule> {
    if let Some(on_dead) = on_dead {
        on_dead.problem("means nothing to rule \"latest\"", "remove it, or write rule = \"serial\"");
    }
    if version.is_none() {
        order.problem("version is missing", "write version = \"/created\"");
    }
    version.and_then(|item| pointer(&item)).map(OrderRule::Latest)
}

fn read_wait_for(item: &Item<'_>) -> Option<WaitFor> {
    let mut table = item.table()?;
    let event_type = table.required("type", "write type = \"customer.created\"").and_then(|item| {
        item.parsed(
            |text| (!text.trim().is_empty()).then(|| text.to_owned()),
            "an event type such as \"customer.created\"",
        )
    });
    let key = table.required("key", "write key = \"/data/object/customer\"").and_then(|item| pointer(&item));
    let on = table.required("on", "write on = \"/data/object/id\"").and_then(|item| pointer(&item));
    let within = table.duration("within", SECOND..=30 * DAY).unwrap_or(Duration::from_secs(600));
    let words = [("run", Otherwise::Run), ("dead", Otherwise::Dead)];
    let otherwise = table.word("otherwise", &words).unwrap_or(Otherwise::Run);
    table.finish();
    Some(WaitFor { event_type: event_type?, key: key?, on: on?, within, otherwise })
}

fn read_once_per(item: &Item<'_>) -> Option<OncePer> {
    let mut table = item.table()?;
    let fields = table.required("fields", "write fields = [\"/type\", \"/data/object/id\"]");
    let fields = fields.and_then(|item| item.filled_list("name at least one field"));
    let window = table.duration("window", SECOND..=30 * DAY).unwrap_or(Duration::from_secs(600));
    table.finish();
    Some(OncePer { fields: fields?.iter().filter_map(pointer).collect(), window })
}

/// A JSON pointer (RFC 6901) to something inside the body.
fn pointer(item: &Item<'_>) -> Option<String> {
    item.parsed(|text| is_pointer(text).then(|| text.to_owned()), "a JSON pointer such as \"/data/object/id\"")
}

fn is_pointer(text: &str) -> bool {
    let escapes_end_well = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    text.starts_with('/') && text.len() <= 255 && escapes_end_well
}
