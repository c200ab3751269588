//! The config file `oncebox.toml`: read and checked once, before anything starts.
//!
//! A file with mistakes yields all of them, each with its place and its cure; a config that was built is right as a
//! whole, so nobody checks again later. What comes from outside the text (environment, secret files, the command line)
//! is handed in.

pub(crate) mod alert;
pub(crate) mod at_start;
pub(crate) mod destination;
pub(crate) mod handler;
mod name;
pub(crate) mod outside;
pub(crate) mod problem;
mod readable;
mod reader;
pub(crate) mod retention;
pub(crate) mod secrets;
pub(crate) mod server;
pub(crate) mod source;
pub(crate) mod store;
mod suggest;
pub(crate) mod telemetry;
pub(crate) mod web;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use oncebox::gateway::delivery::routing::Routes;
pub(crate) use oncebox_verify::units;
use oncebox_verify::{Description, Secret};
use toml::de::DeTable;

use alert::AlertConfig;
use destination::DestinationConfig;
use handler::HandlerConfig;
use outside::{Outside, Overrides};
use problem::{Problem, Problems, Report};
use reader::{Item, Scope, Table};
use retention::RetentionConfig;
use server::{LogFormat, ServerConfig};
use source::SourceConfig;
use store::StoreConfig;
use telemetry::TelemetryConfig;

use crate::query::names::Configured;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// A config that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) server: ServerConfig,
    pub(crate) log: LogFormat,
    pub(crate) store: StoreConfig,
    pub(crate) retention: RetentionConfig,
    pub(crate) sources: Vec<SourceConfig>,
    pub(crate) handlers: Vec<HandlerConfig>,
    pub(crate) destinations: Vec<DestinationConfig>,
    pub(crate) alerts: Vec<AlertConfig>,
    pub(crate) telemetry: TelemetryConfig,
    /// What is allowed but a person should know.
    pub(crate) warnings: Vec<String>,
}

/// A file as far as it could be read, to be looked at further.
#[derive(Debug)]
pub(crate) struct Examined {
    /// Only to look at where there are problems: what is wrong was left out or has its default.
    pub(crate) config: Config,
    pub(crate) problems: Vec<Problem>,
    /// The database is the one that was meant.
    pub(crate) knows_store: bool,
}

/// What an operator's command needs in order to reach the server or its database.
#[derive(Debug)]
pub(crate) struct Reach {
    /// The listeners, and those tokens that this shell has.
    pub(crate) server: ServerConfig,
    /// The database; what is wrong with it matters only to whoever goes there.
    pub(crate) store: Result<StoreConfig, Problems>,
    pub(crate) configured: Configured,
    /// How each source's sender behaves, as far as that can be told without secrets.
    pub(crate) senders: BTreeMap<String, Description>,
}

impl Config {
    /// Reads a file, with the process's environment and secret files.
    pub(crate) fn load(path: &Path, overrides: &Overrides) -> Result<Self, Problems> {
        let Examined { config, problems, .. } = Self::examine(path, overrides)?;
        Problems::found(&path.display().to_string(), problems).map(|()| config)
    }

    /// Reads a text; `file_name` is only for the places of problems.
    pub(crate) fn parse(text: &str, file_name: &str, outside: &Outside<'_>) -> Result<Self, Problems> {
        let document = parse_toml(text, file_name)?;
        let report = Report::new(file_name, text);
        let config = Self::read(root(&report, outside, &document));
        report.finish().map(|warnings| Self { warnings, ..config })
    }

    /// Reads a file whatever is wrong with it; fails only where it is no TOML at all.
    pub(crate) fn examine(path: &Path, overrides: &Overrides) -> Result<Examined, Problems> {
        let (text, file_name, outside) = (read_text(path)?, path.display().to_string(), real(overrides));
        let document = parse_toml(&text, &file_name)?;
        let report = Report::new(&file_name, &text);
        let config = Self::read(root(&report, &outside, &document));
        let knows_store = !report.mentions("store.url");
        let (problems, mut warnings) = report.into_parts();
        warnings.extend(readable::warnings(path, &document, &config.store.url));
        Ok(Examined { config: Self { warnings, ..config }, problems, knows_store })
    }

    fn read(mut root: Table<'_>) -> Self {
        let server = ServerConfig::read(root.section("server"));
        let log = LogFormat::read(root.section("log"));
        let store = StoreConfig::read(root.section("store"));
        let retention = RetentionConfig::read(root.section("retention"));
        let telemetry = TelemetryConfig::read(root.section("telemetry"));
        let (sources, handlers, destinations) =
            (root.sections("source"), root.sections("handler"), root.sections("destination"));
        let alerts = root.sections("alert");
        [&sources, &handlers, &destinations, &alerts].into_iter().for_each(|tables| name::refuse_twins(tables));
        let names = names_of(&sources);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tokens: Vec<(String, Item<'_>)> = handlers.iter().filter_map(token_of).collect();
        let report = root.scope.report;
        if sources.is_empty() {
            report.warn("there is no [[source]]: every webhook is answered with 404");
        }
        root.finish();
        let handlers = handlers.into_iter().filter_map(|table| HandlerConfig::read(table, &names, store.url.dialect()));
        let handlers: Vec<HandlerConfig> = handlers.collect();
        refuse_shared_tokens(&server, &handlers, &tokens);
        Self {
            handlers,
            sources: sources.into_iter().filter_map(|table| SourceConfig::read(table, &server, &retention)).collect(),
            destinations: destinations.into_iter().filter_map(DestinationConfig::read).collect(),
            alerts: alerts
                .into_iter()
                .enumerate()
                .filter_map(|(index, table)| AlertConfig::read(table, index + 1))
                .collect(),
            telemetry,
            server,
            log,
            store,
            retention,
            warnings: Vec::new(),
        }
    }
}

/// The server's own tokens.
const TOKENS: [&str; 2] = ["server.admin_token", "server.viewer_token"];

impl Reach {
    /// Reads `[server]` and `[store]`, and no secret of a source: an operator's shell seldom has the secrets of every source.
    pub(crate) fn load(path: &Path, overrides: &Overrides) -> Result<Self, Problems> {
        let text = read_text(path)?;
        Self::parse(&text, &path.display().to_string(), &real(overrides))
    }

    /// Reads a text, as [`Reach::load`] reads a file.
    pub(crate) fn parse(text: &str, file_name: &str, outside: &Outside<'_>) -> Result<Self, Problems> {
        let document = parse_toml(text, file_name)?;
        let report = Report::new(file_name, text);
        let mut root = root(&report, outside, &document);
        let server = ServerConfig::read(root.section("server"));
        let of_store = Report::new(file_name, text);
        let store = StoreConfig::read(self::root(&of_store, outside, &document).section("store"));
        // What is wrong with a source is for `check` to say.
        let unheard = Report::new(file_name, text);
        let mut rest = self::root(&unheard, outside, &document);
        let (sources, handlers) = (rest.sections("source"), rest.sections("handler"));
        let destinations = names_of(&rest.sections("destination"));
        let (sources_named, handlers_named) = (names_of(&sources), names_of(&handlers));
        let routes = routes(&report, outside, &document, &sources_named);
        let configured = Configured { sources: sources_named, handlers: handlers_named, destinations, routes };
        let senders = sources.into_iter().filter_map(source::sender).collect();
        // A token that this shell does not have is the server's; whoever needs one is asked for it.
        let (mut problems, _) = report.into_parts();
        problems.retain(|problem| !TOKENS.contains(&problem.path.as_str()));
        Problems::found(file_name, problems)?;
        let store = of_store.finish().map(|_| store);
        Ok(Self { server, store, configured, senders })
    }
}

/// Which handler wants what; none where that cannot be told, since too much would run.
fn routes(of: &Report<'_>, outside: &Outside<'_>, document: &DeTable<'_>, sources: &[String]) -> Option<Routes> {
    let report = of.apart();
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let handlers = root(&report, outside, document).sections("handler").into_iter();
    let routes = handlers.map(|mut table| handler::read_route(&mut table, &sources, false).0).collect();
    report.finish().ok().map(|_| Routes::new(routes))
}

/// A handler's token opens that handler and nothing else: one that somebody else has, too, would take their rights away.
fn refuse_shared_tokens(server: &ServerConfig, handlers: &[HandlerConfig], items: &[(String, Item<'_>)]) {
    let of = |token: &Option<Secret>| token.as_ref().map(|token| token.expose().to_vec());
    let mut seen: Vec<Vec<u8>> = [&server.admin_token, &server.viewer_token].into_iter().filter_map(of).collect();
    for handler in handlers {
        let (Some(token), Some((_, item))) =
            (of(&handler.token), items.iter().find(|(name, _)| name == handler.name()))
        else {
            continue;
        };
        if seen.contains(&token) {
            item.problem("is the token of somebody else, too", "give each handler a token of its own");
        }
        if server.admin_token.is_none() {
            let path = &item.scope.path;
            item.scope.report.warn(format!(
                "{path}: without server.admin_token whoever is on this machine needs no token; set that one, too"
            ));
        }
        seen.push(token);
    }
}

/// A handler's name and where its token stands.
fn token_of<'a>(table: &Table<'a>) -> Option<(String, Item<'a>)> {
    let name = names_of(std::slice::from_ref(table)).pop()?;
    Some((name, table.peek("token")?))
}

fn names_of(tables: &[Table<'_>]) -> Vec<String> {
    let items = tables.iter().filter_map(|table| table.peek("name"));
    items.filter_map(|item| item.value.get_ref().as_str().map(str::to_owned)).collect()
}

fn real(overrides: &Overrides) -> Outside<'_> {
    Outside { env: &outside::process_env, file: &outside::secret_file, overrides }
}

fn root<'a>(report: &'a Report<'a>, outside: &'a Outside<'a>, document: &'a DeTable<'a>) -> Table<'a> {
    Table::new(Scope { report, outside, path: String::new(), at: 0 }, document)
}

fn read_text(path: &Path) -> Result<String, Problems> {
    let refuse = |what: String, cure: &str| Problems::whole_file(&path.display().to_string(), what, cure);
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => refuse("does not exist".to_owned(), "create it, or name another with --config"),
        kind => refuse(format!("cannot be read ({kind})"), "let this user read it, or name another with --config"),
    })?;
    String::from_utf8(bytes).map_err(|_invalid| refuse("is not UTF-8".to_owned(), "save it as UTF-8"))
}

/// Only the parser's message is kept: its full text would quote the line, and a secret may stand in it.
fn parse_toml<'a>(text: &'a str, file_name: &'a str) -> Result<DeTable<'a>, Problems> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let report = Report::new(file_name, text);
    for error in &errors {
        report.add(error.span().map_or(0, |span| span.start), "", error.message(), "correct the TOML");
    }
    report.finish().map(|_| document.into_inner())
}
