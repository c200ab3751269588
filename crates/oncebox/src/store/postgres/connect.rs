//! Sessions on Postgres, made by ourselves: every host of the URL is tried, the first that takes writes wins, and what
//! the server says unasked is heard.
//!
//! The driver tries hosts one after the other and waits for each as long as it likes, so a frozen first host would hide
//! the second. It also drops warnings, and one of them says that a commit may not be on the standby.

use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use futures_util::future::join;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::Host;
use tokio_postgres::error::{DbError, Severity};
use tokio_postgres::{AsyncMessage, Config, Connection};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::postgres::batch::MostlyKnown;
use crate::store::postgres::durability::{Facts, LastGood, foreign_engine};
use crate::store::postgres::tls;
use crate::store::postgres::{classify, within};
use crate::store::sql::postgres as sql;
use crate::store::{Durability, StoreError};

/// How long one host may take for everything up to a session that can be used; a sender's own deadline is a few seconds.
const HOST_WAIT: Duration = Duration::from_secs(2);
/// How long the next host waits for the one before it, at most.
const NEXT_HOST: Duration = Duration::from_millis(250);
/// How long a session that comes out of the pool may take to say that all is well.
const PROBE_WAIT: Duration = Duration::from_secs(3);
/// After so much silence the operating system asks whether the other end is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

pub(in crate::store) type Pool = deadpool::managed::Pool<Sessions>;
pub(in crate::store) type Object = deadpool::managed::Object<Sessions>;

/// A connection, and what is known of it.
#[derive(Debug)]
pub(in crate::store) struct Session {
    client: ClientWrapper,
    /// What the server warned of last, unasked.
    warned: Warned,
    born: Era,
    backend: i32,
}

type Warned = Arc<Mutex<Option<String>>>;

/// How many times all connections were given up, and all prepared statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Era {
    link: u64,
    plans: u64,
}

impl Deref for Session {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.client
    }
}

impl Session {
    pub(in crate::store) fn into_client(self) -> ClientWrapper {
        self.client
    }

    pub(in crate::store) fn backend(&self) -> i32 {
        self.backend
    }

    /// From here on a warning counts.
    pub(in crate::store) fn listen(&self) {
        *self.warned.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What the server has warned of since.
    pub(in crate::store) fn warning(&self) -> Option<String> {
        self.warned.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What a pool's sessions are for.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Purpose {
    pub(in crate::store) settings: &'static str,
    /// How long what was sent may go unacknowledged. A server that is busy with a statement reads nothing meanwhile, so
    /// this is longer where statements are not ours.
    pub(in crate::store) unacknowledged: Duration,
    /// Whether handlers' statements run on them, whose plans may go out of date.
    pub(in crate::store) handlers: bool,
}

/// Makes the sessions of one pool.
#[derive(Debug)]
pub(in crate::store) struct Sessions {
    link: Arc<Link>,
    purpose: Purpose,
}

impl Sessions {
    pub(in crate::store) fn new(link: Arc<Link>, purpose: Purpose) -> Self {
        Self { link, purpose }
    }
}

impl Manager for Sessions {
    type Type = Session;
    type Error = StoreError;

    async fn create(&self) -> Result<Session, StoreError> {
        // Boxed, because the futures of all hosts would make every transaction's future large.
        let made = Box::pin(self.link.open(&self.purpose)).await;
        self.link.note(made.as_ref().err());
        made
    }

    async fn recycle(&self, session: &mut Session, _: &Metrics) -> RecycleResult<StoreError> {
        let now = self.link.era();
        let is_old = session.born.link != now.link || (self.purpose.handlers && session.born.plans != now.plans);
        if is_old || session.is_closed() {
            return Err(RecycleError::message("the connection is not to be used again"));
        }
        match within(PROBE_WAIT, self.link.last_good.refusal(session, self.link.durability)).await {
            Ok(None) => Ok(()),
            Ok(Some(refusal)) => Err(RecycleError::Backend(refusal)),
            Err(error) => {
                self.link.given_up(session, &error);
                Err(RecycleError::Backend(error))
            }
        }
    }
}

/// What all pools of a database share: its hosts, and what is known of the way to them.
pub(in crate::store) struct Link {
    hosts: Vec<Place>,
    config: Config,
    /// The URL has no word about it.
    patience_is_ours: bool,
    tls: MakeRustlsConnect,
    durability: Durability,
    /// The host that took writes last.
    preferred: AtomicUsize,
    links: AtomicU64,
    plans: AtomicU64,
    last_good: LastGood,
    mostly_known: MostlyKnown,
    trouble: Mutex<Option<String>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// One host of the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    host: Option<Host>,
    address: Option<IpAddr>,
    port: u16,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.address) {
            (Some(Host::Tcp(name)), _) => write!(f, "{name}:{}", self.port),
            #[cfg(unix)]
            (Some(Host::Unix(folder)), _) => write!(f, "{} ({})", folder.display(), self.port),
            (None, Some(address)) => write!(f, "{address}:{}", self.port),
            (None, None) => write!(f, "port {}", self.port),
        }
    }
}

impl Link {
    pub(in crate::store) fn new(url: &str, durability: Durability) -> Result<Self, StoreError> {
        let (url, proof) = tls::read_mode(url);
        let mut config: Config = url.parse().map_err(|error| StoreError::Refused(Box::new(BadUrl(error))))?;
        let hosts = places(&config)?;
        if !says(&url, "keepalives_idle") {
            config.keepalives_idle(KEEPALIVE);
        }
        Ok(Self {
            hosts,
            patience_is_ours: !says(&url, "tcp_user_timeout"),
            config,
            tls: tls::connector(&proof)?,
            durability,
            preferred: AtomicUsize::new(0),
            links: AtomicU64::new(0),
            plans: AtomicU64::new(0),
            last_good: LastGood::now(),
            mostly_known: MostlyKnown::default(),
            trouble: Mutex::new(None),
        })
    }

    /// Why the last session could not be made; none since one could.
    pub(in crate::store) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(in crate::store) fn durability(&self) -> Durability {
        self.durability
    }

    pub(in crate::store) fn mostly_known(&self) -> MostlyKnown {
        self.mostly_known.clone()
    }

    pub(in crate::store) fn failover_risk(&self) -> Option<String> {
        self.last_good.failover_risk()
    }

    fn note(&self, failed: Option<&StoreError>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = failed.map(StoreError::chain);
    }

    fn era(&self) -> Era {
        Era { link: self.links.load(Ordering::Acquire), plans: self.plans.load(Ordering::Acquire) }
    }

    /// Takes note of how a question of ours ended. A silence, or an end without a word, is the way's fault: whatever was
    /// connected over it before will not answer, either.
    pub(in crate::store) fn given_up(&self, session: &Session, error: &StoreError) {
        let born = session.born;
        // Once for each time: sessions that were made since are good.
        let next = |era: &AtomicU64, born: u64| {
            let _ = era.compare_exchange(born, born + 1, Ordering::AcqRel, Ordering::Relaxed);
        };
        if error.is_stale() {
            next(&self.plans, born.plans);
        } else if error.is_silence() || error.is_read_only() {
            next(&self.links, born.link);
        }
    }

    /// Tries all hosts, each a little after the one before it or as soon as that failed.
    async fn open(&self, purpose: &Purpose) -> Result<Session, StoreError> {
        let first = self.preferred.load(Ordering::Relaxed);
        let order = (0..self.hosts.len()).map(|nth| (first + nth) % self.hosts.len());
        let tries = order.map(async |nth| {
            let place = &self.hosts[nth];
            match within(self.wait(), self.reach(place, purpose)).await {
                Ok(session) => Ok((nth, session)),
                Err(error) => Err(Tried { place: place.to_string(), error }),
            }
        });
        match race(tries, self.pause()).await {
            Ok((nth, session)) => {
                self.preferred.store(nth, Ordering::Relaxed);
                Ok(session)
            }
            Err(tried) => Err(none_of(tried)),
        }
    }

    fn wait(&self) -> Duration {
        self.config.get_connect_timeout().copied().unwrap_or(HOST_WAIT)
    }

    fn pause(&self) -> Duration {
        let hosts = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX).max(1);
        (self.wait() / 2 / hosts).min(NEXT_HOST)
    }

    /// A session on one host, at whichever of its addresses answers first.
    async fn reach(&self, place: &Place, purpose: &Purpose) -> Result<Session, StoreError> {
        let addresses = match (&place.host, place.address) {
            (Some(Host::Tcp(name)), None) => {
                let found = tokio::net::lookup_host((name.as_str(), place.port)).await;
                let found = found.map_err(|error| StoreError::Disconnected(error.into()))?;
                found.map(|address| Some(address.ip())).collect()
            }
            (_, address) => vec![address],
        };
        let tries = addresses.into_iter().map(|address| self.session(self.one(place, address, purpose), purpose));
        race(tries, self.pause()).await.map_err(|mut failed| {
            failed.pop().unwrap_or_else(|| StoreError::Disconnected("the name has no address".into()))
        })
    }

    async fn session(&self, config: Config, purpose: &Purpose) -> Result<Session, StoreError> {
        let born = self.era();
        let (client, connection) = config.connect(self.tls.clone()).await.map_err(classify)?;
        let warned = Warned::default();
        let heard = tokio::spawn(hear(connection, warned.clone()));
        let client = ClientWrapper::new(client, heard);
        let (engine, facts) = join(client.query_one(sql::ENGINE, &[]), Facts::ask(&client)).await;
        let engine: String = engine.and_then(|row| row.try_get(0)).map_err(classify)?;
        if let Some(refusal) = foreign_engine(&engine, host_name(&config)) {
            return Err(refusal);
        }
        let facts = facts.map_err(classify)?;
        if let Some(refusal) = facts.refusal(self.durability) {
            return Err(refusal);
        }
        self.last_good.note(&facts);
        client.batch_execute(purpose.settings).await.map_err(classify)?;
        Ok(Session { client, warned, born, backend: facts.backend })
    }

    /// The config of one address of one host.
    fn one(&self, place: &Place, address: Option<IpAddr>, purpose: &Purpose) -> Config {
        let (all, mut one) = (&self.config, Config::new());
        match &place.host {
            Some(Host::Tcp(name)) => drop(one.host(name)),
            #[cfg(unix)]
            Some(Host::Unix(folder)) => drop(one.host_path(folder)),
            None => {}
        }
        address.map(|address| one.hostaddr(address));
        one.port(place.port).application_name("oncebox").connect_timeout(self.wait());
        all.get_user().map(|user| one.user(user));
        all.get_password().map(|password| one.password(password));
        all.get_dbname().map(|name| one.dbname(name));
        all.get_options().map(|options| one.options(options));
        one.ssl_mode(all.get_ssl_mode()).ssl_negotiation(all.get_ssl_negotiation());
        one.channel_binding(all.get_channel_binding());
        one.keepalives(all.get_keepalives()).keepalives_idle(all.get_keepalives_idle());
        all.get_keepalives_interval().map(|interval| one.keepalives_interval(interval));
        all.get_keepalives_retries().map(|retries| one.keepalives_retries(retries));
        match all.get_tcp_user_timeout() {
            Some(timeout) => drop(one.tcp_user_timeout(*timeout)),
            None if self.patience_is_ours => drop(one.tcp_user_timeout(purpose.unacknowledged)),
            None => {}
        }
        one
    }
}

fn host_name(config: &Config) -> Option<&str> {
    config.get_hosts().iter().find_map(|host| match host {
        Host::Tcp(name) => Some(name.as_str()),
        #[cfg(unix)]
        Host::Unix(_) => None,
    })
}

/// Starts one after the other, each as soon as the one before it failed or `pause` has passed; the first success wins.
async fn race<T, E, F>(tries: impl Iterator<Item = F>, pause: Duration) -> Result<T, Vec<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let (mut running, mut failed) = (FuturesUnordered::new(), Vec::new());
    for one in tries {
        running.push(one);
        match tokio::time::timeout(pause, running.next()).await {
            Ok(Some(Ok(won))) => return Ok(won),
            Ok(Some(Err(error))) => failed.push(error),
            Ok(None) | Err(_) => {}
        }
    }
    while let Some(ended) = running.next().await {
        match ended {
            Ok(won) => return Ok(won),
            Err(error) => failed.push(error),
        }
    }
    Err(failed)
}

/// Carries the messages of a connection until it ends, and listens for warnings.
async fn hear<S, T>(mut connection: Connection<S, T>, warned: Warned)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            // Heard before the answer that follows it is handed on.
            Ok(AsyncMessage::Notice(notice)) if is_warning(&notice) => {
                let text = format!("{} ({})", notice.message(), notice.code().code());
                *warned.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
            }
            Ok(_) => {}
            Err(error) => return tracing::debug!("a connection to the database ended: {error}"),
        }
    }
}

/// A warning of the server's own; what a function of the application says by RAISE has a context.
fn is_warning(notice: &DbError) -> bool {
    notice.parsed_severity() == Some(Severity::Warning) && notice.where_().is_none()
}

/// Whether the options of a URL name this one.
fn says(url: &str, option: &str) -> bool {
    let options = url.split_once('?').map_or("", |(_, options)| options);
    options.split('&').any(|one| one.split('=').next() == Some(option))
}

fn places(config: &Config) -> Result<Vec<Place>, StoreError> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(addresses.len());
    let fits = |given: usize| given == 0 || given == count;
    if count == 0 || !fits(hosts.len()) || !fits(addresses.len()) || (ports.len() > 1 && !fits(ports.len())) {
        return Err(StoreError::Refused("the database URL names no host, or not as many ports as hosts".into()));
    }
    let place = |nth: usize| Place {
        host: hosts.get(nth).cloned(),
        address: addresses.get(nth).copied(),
        port: ports.get(nth).or(ports.first()).copied().unwrap_or(5432),
    };
    Ok((0..count).map(place).collect())
}

/// What a host said, or that it did not.
struct Tried {
    place: String,
    error: StoreError,
}

/// One error out of all: an unsafe server must be set right, a refusal may be, and the rest may heal by itself.
fn none_of(mut tried: Vec<Tried>) -> StoreError {
    if let Some(at) = tried.iter().position(|one| matches!(one.error, StoreError::Unsafe(_))) {
        return tried.swap_remove(at).error;
    }
    let is_final = tried.iter().all(|one| matches!(one.error, StoreError::Refused(_)));
    let said: Vec<String> = tried.iter().map(|one| format!("{}: {}", one.place, one.error.reason())).collect();
    let said = NoHost(said.join("; "));
    if is_final { StoreError::Refused(said.into()) } else { StoreError::Disconnected(said.into()) }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoHost(String);

/// A URL that could not be read; the URL itself may hold a password and is not shown.
#[derive(Debug, thiserror::Error)]
#[error("the database URL cannot be read")]
struct BadUrl(#[source] tokio_postgres::Error);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_success_wins_whatever_the_others_do() {
        const SILENT: Option<bool> = None;
        const GOOD: Option<bool> = Some(true);
        const BAD: Option<bool> = Some(false);
        for (tries, won) in [
            (vec![GOOD, GOOD], Ok(0)),
            (vec![SILENT, GOOD], Ok(1)),
            (vec![BAD, GOOD], Ok(1)),
            (vec![SILENT, SILENT, GOOD], Ok(2)),
            (vec![BAD, SILENT, GOOD, SILENT], Ok(2)),
            (vec![BAD, BAD], Err(vec![0, 1])),
            (vec![], Err(vec![])),
        ] {
            let all = tries.iter().enumerate().map(async |(nth, does)| match does {
                Some(true) => Ok(nth),
                Some(false) => Err(nth),
                None => std::future::pending().await,
            });
            assert_eq!(race(all, Duration::from_millis(1)).await, won, "{tries:?}");
        }
    }

    #[test]
    fn hosts_and_options_are_read_from_the_url() {
        let read = |url: &str| {
            let config: Config = url.parse().unwrap();
            places(&config).map(|places| places.iter().map(Place::to_string).collect::<Vec<_>>()).ok()
        };
        for (url, expected) in [
            ("postgres://u@a:1,b:2/d", Some(vec!["a:1", "b:2"])),
            ("postgres://u@a,b/d", Some(vec!["a:5432", "b:5432"])),
            ("postgres://u@a/d?hostaddr=127.0.0.1", Some(vec!["a:5432"])),
            ("postgres://u@%2Frun/d", Some(vec!["/run (5432)"])),
            ("postgres:///d", None),
        ] {
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(read(url), expected, "{url}");
        }
        assert!(says("postgres://h/d?a=b&tcp_user_timeout=0", "tcp_user_timeout"));
        assert!(!says("postgres://u:tcp_user_timeout=1@h/d?a=tcp_user_timeout", "tcp_user_timeout"));
    }
}
