//! Where an operator's command looks: what the command line says, else the config, else this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use oncebox::Clock;
use oncebox::gateway::store::{EventFilter, Store, StoreError};
use oncebox_verify::Secret;

use crate::cli::operator::OperatorArgs;
use crate::config::Reach;
use crate::config::outside::Overrides;
use crate::config::problem::Problems;
use crate::config::store::{StoreConfig, StoreUrl};
use crate::database;
use crate::query::names::Configured;
use crate::usage::wrong_usage;

const DEFAULT_CONFIG: &str = "oncebox.toml";
const DEFAULT_ADMIN: &str = "http://127.0.0.1:8081";

/// What the command line and the config say about where to look.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) admin_url: String,
    pub(super) token: Option<Secret>,
    pub(super) database: Option<Result<StoreConfig, Problems>>,
    pub(super) reach: Option<Reach>,
}

impl Place {
    pub(super) fn find(args: &OperatorArgs) -> anyhow::Result<Self> {
        let reach = reach(args)?;
        let named = args.database.as_ref().map(|url| Ok(database::config_of(url)));
        let token = args.admin_token.clone();
        let token = token.or_else(|| reach.as_ref().and_then(|reach| reach.server.admin_token.clone()));
        let token = token.filter(|token| !token.is_blank());
        let (admin_url, database) = match (&args.admin_url, &reach) {
            (Some(url), _) => (url.clone(), named),
            (None, Some(reach)) => (admin_url(reach.server.admin_listen), Some(reach.store.clone())),
            (None, None) => {
                let here = database::config_of(&StoreUrl::Sqlite(PathBuf::from("oncebox.db")));
                (DEFAULT_ADMIN.to_owned(), named.or(Some(Ok(here))))
            }
        };
        Ok(Self { admin_url, token, database, reach })
    }
}

/// The config: the one that is named, else the one in this folder, if there is one.
pub(super) fn reach(args: &OperatorArgs) -> anyhow::Result<Option<Reach>> {
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

/// Opens a database to look at.
pub(super) async fn look(config: &StoreConfig) -> anyhow::Result<Store> {
    let Some(store) = database::visit(config).await? else {
        bail!(
            "no server listens and there is no database {}; start one with `oncebox dev`, or say where to look with \
             --admin-url or --database",
            config.url
        );
    };
    match store.events(&EventFilter::default(), 1).await {
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

/// Opens the database itself, whether a server runs or not: for a query that is not ours to send to a server. With it
/// comes what the config names, where there is one.
pub(crate) async fn database_of(args: &OperatorArgs) -> anyhow::Result<(Store, Option<Configured>)> {
    let place = Place::find(args)?;
    match place.database.transpose()? {
        Some(config) => Ok((look(&config).await?, place.reach.map(|reach| reach.configured))),
        None => Err(wrong_usage("this works on the database itself: name it with --database or --config")),
    }
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
