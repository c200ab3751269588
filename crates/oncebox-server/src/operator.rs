//! How an operator's command gets its answers: from the running server's admin API, or straight from the database when
//! no server runs. Both give the same views, so that a command need not know which it was.

mod arm;
mod client;
mod live;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use oncebox::Clock;
use oncebox::gateway::store::{Access, ActionKind, Store, StoreError};
use oncebox_verify::Secret;

use crate::cli::operator::OperatorArgs;
use crate::config::Reach;
use crate::config::outside::Overrides;
use crate::config::problem::Problems;
use crate::config::store::{StoreConfig, StoreUrl};
use crate::database;
use crate::query::PageQuery;
use crate::query::actions::{ActionRequest, Known};
use crate::query::deliveries::DeliveriesQuery;
use crate::query::destinations::Destinations;
use crate::query::erase::{EraseRequest, Erased};
use crate::query::names::{self, Configured};
use crate::query::outbox::OutboxQuery;
use crate::query::retention::RetentionView;
use crate::query::tail::{POLL_EVERY, Tail, TailQuery};
use crate::query::view::{
    ActionView, DeadLetterView, Done, EventDetailView, EventView, Items, MessageDetailView, MessageView, StatsView,
};
use crate::query::{self, EventsQuery, QueryError};
use crate::terminal;
use crate::usage::{contradiction, wrong_usage};
use client::{Client, Probe};
use live::Following;

const DEFAULT_CONFIG: &str = "oncebox.toml";
const DEFAULT_ADMIN: &str = "http://127.0.0.1:8081";

/// Where answers come from.
#[derive(Debug)]
pub(crate) enum Operator {
    /// A running server.
    Server(Client),
    /// The database itself, and what the config names where one is at hand.
    Database(Store, Option<Configured>),
}

impl Operator {
    /// Decides: `--database` alone goes straight there; else the server, and its database when nothing listens.
    pub(crate) async fn open(args: &OperatorArgs) -> anyhow::Result<Self> {
        if let (Some(url), None) = (&args.database, &args.admin_url) {
            return Ok(Self::Database(look(&database::config_of(url)).await?, None));
        }
        let place = Place::find(args)?;
        let client = Client::new(&place.admin_url, place.token.as_ref())?;
        match (client.probe().await?, place.database) {
            (Probe::Answers, _) => Ok(Self::Server(client)),
            (Probe::Silent, Some(Ok(store))) => Ok(Self::Database(look(&store).await?, place.configured)),
            (Probe::Silent, Some(Err(problems))) => {
                terminal::note(format!("nothing listens at {}, and its database is not known:", place.admin_url));
                Err(problems.into())
            }
            (Probe::Silent, None) => {
                bail!("nothing listens at {}; start the server, or name its database with --database", place.admin_url)
            }
        }
    }

    /// A page of events.
    pub(crate) async fn events(&self, query: EventsQuery) -> anyhow::Result<Items<EventView>> {
        match self {
            Self::Server(client) => client.list("events", &query).await,
            Self::Database(store, names) => {
                names::check(store, names.as_ref(), query.source.as_deref(), None).await.map_err(refuse)?;
                query::events(store, &Clock::system(), query).await.map_err(refuse)
            }
        }
    }

    /// A page of what waits for a person.
    pub(crate) async fn held(&self, query: EventsQuery) -> anyhow::Result<Items<EventView>> {
        match self {
            Self::Server(client) => client.list("held", &query).await,
            Self::Database(store, names) => {
                names::check(store, names.as_ref(), query.source.as_deref(), None).await.map_err(refuse)?;
                query::held(store, &Clock::system(), query).await.map_err(refuse)
            }
        }
    }

    /// A page of dead letters, deliveries and messages.
    pub(crate) async fn dead_letters(&self, query: DeliveriesQuery) -> anyhow::Result<Items<DeadLetterView>> {
        match self {
            Self::Server(client) => client.list("dead-letters", &query).await,
            Self::Database(store, names) => {
                let (source, handler) = (query.source.as_deref(), query.handler.as_deref());
                names::check(store, names.as_ref(), source, handler).await.map_err(refuse)?;
                query::outbox::dead_letters(store, &Clock::system(), query).await.map_err(refuse)
            }
        }
    }

    /// A page of outbox messages.
    pub(crate) async fn messages(&self, query: OutboxQuery) -> anyhow::Result<Items<MessageView>> {
        match self {
            Self::Server(client) => client.list("outbox", &query).await,
            Self::Database(store, names) => {
                let destinations = destinations(store, names.as_ref()).await?;
                destinations.check(store, query.destination.as_deref()).await.map_err(refuse)?;
                query::outbox::messages(store, &Clock::system(), query, &destinations).await.map_err(refuse)
            }
        }
    }

    /// One outbox message.
    pub(crate) async fn message(&self, id: &str) -> anyhow::Result<Option<MessageDetailView>> {
        match self {
            Self::Server(client) => client.message(id).await,
            Self::Database(store, names) => {
                let destinations = destinations(store, names.as_ref()).await?;
                query::outbox::message(store, id, &destinations).await.map_err(refuse)
            }
        }
    }

    /// Counts, or acts. Without a server only a config tells what handlers want, which some actions must know.
    pub(crate) async fn act(&self, kind: ActionKind, request: &ActionRequest) -> anyhow::Result<Done> {
        match self {
            Self::Server(client) => match client.act(kind.as_str(), request).await? {
                Some(done) => Ok(done),
                None => match &request.filter.message {
                    Some(id) => bail!("there is no message {id}"),
                    None => bail!("there is no event {}", request.filter.key.as_deref().unwrap_or("of this name")),
                },
            },
            Self::Database(store, names) => {
                let (source, handler) = (request.filter.source.as_deref(), request.filter.handler.as_deref());
                names::check(store, names.as_ref(), source, handler).await.map_err(refuse)?;
                let destinations = destinations(store, names.as_ref()).await?;
                let routes = names.as_ref().and_then(|names| names.routes.as_ref());
                let known = Known { routes, destinations: &destinations };
                query::actions::act(store, &Clock::system(), known, kind, request.clone()).await.map_err(refuse)
            }
        }
    }

    /// Counts, or erases.
    pub(crate) async fn erase(&self, request: &EraseRequest) -> anyhow::Result<Erased> {
        match self {
            Self::Server(client) => match client.erase(request).await? {
                Some(erased) => Ok(erased),
                None => bail!("there is no event {}", request.filter.key.as_deref().unwrap_or("of this name")),
            },
            Self::Database(store, names) => {
                let source = request.filter.source.as_deref();
                names::check(store, names.as_ref(), source, None).await.map_err(refuse)?;
                query::erase::erase(store, &Clock::system(), request.clone()).await.map_err(refuse)
            }
        }
    }

    /// How far an action came.
    pub(crate) async fn action(&self, id: &str) -> anyhow::Result<Option<ActionView>> {
        match self {
            Self::Server(client) => client.action(id).await,
            Self::Database(store, _) => query::actions::action(store, id).await.map_err(refuse),
        }
    }

    /// The audit log, newest first.
    pub(crate) async fn actions(&self, query: &PageQuery) -> anyhow::Result<Items<ActionView>> {
        match self {
            Self::Server(client) => client.list("actions", query).await,
            Self::Database(store, _) => query::actions::actions(store, query).await.map_err(refuse),
        }
    }

    /// Pauses or resumes a handler; false where nobody knows it.
    pub(crate) async fn pause(&self, handler: &str, paused: bool, who: String) -> anyhow::Result<bool> {
        match self {
            Self::Server(client) => client.pause(handler, paused, who).await,
            Self::Database(store, _) => {
                let paused = query::deliveries::pause(store, &Clock::system(), (handler, paused), Some(who)).await;
                paused.map_err(refuse)
            }
        }
    }

    /// Follows what arrives.
    pub(crate) async fn tail(self, query: TailQuery) -> anyhow::Result<Watch> {
        match self {
            Self::Server(client) => Ok(Watch::Live(Following::open(client, query).await?)),
            Self::Database(store, names) => {
                names::check(&store, names.as_ref(), query.source.as_deref(), None).await.map_err(refuse)?;
                let tail = Tail::new(store, Clock::system(), query, None).map_err(refuse)?;
                Ok(Watch::Polled(tail))
            }
        }
    }

    /// One event by its key or `source/event_id`.
    pub(crate) async fn event(&self, name: &str) -> anyhow::Result<Option<EventDetailView>> {
        match self {
            Self::Server(client) => client.event(name).await,
            Self::Database(store, names) => {
                query::event(store, name, &destinations(store, names.as_ref()).await?).await.map_err(refuse)
            }
        }
    }

    /// What is kept for how long, and what went.
    pub(crate) async fn retention(&self) -> anyhow::Result<RetentionView> {
        match self {
            Self::Server(client) => client.retention().await,
            Self::Database(store, _) => query::retention::show(store, &Clock::system(), None).await.map_err(refuse),
        }
    }

    /// Says that the time is right; false when nothing was stopped.
    pub(crate) async fn confirm_time(&self, who: String) -> anyhow::Result<bool> {
        match self {
            Self::Server(client) => client.confirm_time(who).await,
            Self::Database(store, _) => {
                query::retention::confirm(store, &Clock::system(), Some(who)).await.map_err(refuse)
            }
        }
    }

    /// The numbers of `status`.
    pub(crate) async fn stats(&self) -> anyhow::Result<StatsView> {
        match self {
            Self::Server(client) => client.stats().await,
            Self::Database(store, names) => {
                let destinations = destinations(store, names.as_ref()).await?;
                query::stats(store, &Clock::system(), Vec::new(), &destinations).await.map_err(refuse)
            }
        }
    }
}

async fn destinations(store: &Store, names: Option<&Configured>) -> anyhow::Result<Destinations> {
    Destinations::of_database(store, names).await.map_err(refuse)
}

/// Opens the database itself, whether a server runs or not: for a query that is not ours to send to a server. With it
/// comes what the config names, where there is one.
pub(crate) async fn database_of(args: &OperatorArgs) -> anyhow::Result<(Store, Option<Configured>)> {
    let place = Place::find(args)?;
    match place.database.transpose()? {
        Some(config) => Ok((look(&config).await?, place.configured)),
        None => Err(wrong_usage("this works on the database itself: name it with --database or --config")),
    }
}

/// Somebody who watches what arrives.
#[derive(Debug)]
pub(crate) enum Watch {
    /// Over the server's stream.
    Live(Following),
    /// By asking the database.
    Polled(Tail),
}

impl Watch {
    /// What came, oldest first, as soon as something did.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Vec<EventView>> {
        match self {
            Self::Live(following) => following.next().await,
            Self::Polled(tail) => loop {
                let fresh = tail.poll().await.map_err(refuse)?;
                if !fresh.is_empty() {
                    return Ok(fresh);
                }
                if !tail.is_behind() {
                    tokio::time::sleep(POLL_EVERY).await;
                }
            },
        }
    }
}

/// What the command line and the config say about where to look.
#[derive(Debug)]
struct Place {
    admin_url: String,
    token: Option<Secret>,
    database: Option<Result<StoreConfig, Problems>>,
    configured: Option<Configured>,
}

impl Place {
    fn find(args: &OperatorArgs) -> anyhow::Result<Self> {
        let reach = reach(args)?;
        let named = args.database.as_ref().map(|url| Ok(database::config_of(url)));
        let token = args.admin_token.clone();
        let token = token.or_else(|| reach.as_ref().and_then(|reach| reach.server.admin_token.clone()));
        let token = token.filter(|token| !token.is_blank());
        let configured = reach.as_ref().map(|reach| reach.configured.clone());
        let (admin_url, database) = match (&args.admin_url, reach) {
            (Some(url), _) => (url.clone(), named),
            (None, Some(reach)) => (admin_url(reach.server.admin_listen), Some(reach.store)),
            (None, None) => {
                let here = database::config_of(&StoreUrl::Sqlite(PathBuf::from("oncebox.db")));
                (DEFAULT_ADMIN.to_owned(), named.or(Some(Ok(here))))
            }
        };
        Ok(Self { admin_url, token, database, configured })
    }
}

/// The config: the one that is named, else the one in this folder, if there is one.
fn reach(args: &OperatorArgs) -> anyhow::Result<Option<Reach>> {
    let path = match &args.config {
        Some(path) => path.as_path(),
        None if Path::new(DEFAULT_CONFIG).exists() => Path::new(DEFAULT_CONFIG),
        None => return Ok(None),
    };
    Ok(Some(Reach::load(path, &args.overrides())?))
}

/// True where the config in this folder is that of the server with this public address: commands find it by themselves.
pub(crate) fn is_found_here(public: SocketAddr) -> bool {
    let here = Path::new(DEFAULT_CONFIG);
    let reach = here.exists().then(|| Reach::load(here, &Overrides::default()).ok()).flatten();
    reach.is_some_and(|reach| {
        let listen = reach.server.listen;
        listen.port() == public.port() && (listen.ip() == public.ip() || listen.ip().is_unspecified())
    })
}

/// A server that listens everywhere is reached on this machine by loopback.
fn admin_url(listen: SocketAddr) -> String {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, listen.port()))
}

/// Opens a database to look at: one that flushes nothing may be looked at too, and a missing file stays missing.
async fn look(config: &StoreConfig) -> anyhow::Result<Store> {
    if let StoreUrl::Sqlite(path) = &config.url
        && !path.exists()
    {
        bail!(
            "no server listens and there is no database {}; start one with `oncebox dev`, or say where to look with \
             --admin-url or --database",
            config.url
        );
    }
    let store = database::open(&StoreConfig { accept_unflushed: true, ..config.clone() }, Access::Visitor).await?;
    match store.events(&oncebox::gateway::store::EventFilter::default(), 1).await {
        Ok(_) => {
            store.begin_time(&Clock::system()).await.with_context(|| format!("cannot read {}", config.url))?;
            Ok(store)
        }
        Err(StoreError::Refused(_)) => {
            bail!("{} holds no inbox yet; start the server once, or run `oncebox migrate`", config.url)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", config.url)),
    }
}

/// A refusal as a command reports it.
pub(crate) fn refuse(error: QueryError) -> anyhow::Error {
    match error {
        QueryError::Bad(sentence) => wrong_usage(sentence),
        QueryError::Missing(sentence) => anyhow::anyhow!(sentence),
        QueryError::Conflict(sentence) => contradiction(sentence),
        QueryError::Store(error) => anyhow::Error::new(error).context("the database does not answer"),
    }
}

/// Who the audit log names.
pub(crate) fn name_of_caller() -> String {
    std::env::var("USER").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "somebody".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_everywhere_is_reached_by_loopback() {
        for (listen, expected) in [
            ("127.0.0.1:8081", "http://127.0.0.1:8081"),
            ("0.0.0.0:9000", "http://127.0.0.1:9000"),
            ("[::]:9000", "http://[::1]:9000"),
            ("10.1.2.3:80", "http://10.1.2.3:80"),
        ] {
            assert_eq!(admin_url(listen.parse().expect("an address")), expected);
        }
    }
}
