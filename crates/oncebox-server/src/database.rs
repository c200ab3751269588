//! Opening the database that a URL names.

use anyhow::Context as _;
use oncebox::gateway::store::{Access, Connections, Durability, Store};

use crate::config::store::{StoreConfig, StoreUrl};

/// Connections beside the writers: arrival counts, the admin API, readiness.
const OTHER_CONNECTIONS: usize = 6;
/// Connections of the workers: one to claim, one to write down ended calls, and some handlers' transactions at once.
const WORKER_CONNECTIONS: usize = 12;

pub(crate) async fn open(config: &StoreConfig, access: Access) -> anyhow::Result<Store> {
    let opened = match &config.url {
        StoreUrl::Sqlite(path) => Store::open_sqlite(path, access, config.durability).await,
        StoreUrl::Postgres(url) => {
            let connections = Connections { ingest: config.writers, work: OTHER_CONNECTIONS + WORKER_CONNECTIONS };
            Store::connect_postgres(url, connections, config.durability).await
        }
    };
    let store = opened.with_context(|| format!("cannot open the database {}", config.url))?;
    if config.secure_delete {
        store.overwrite_deleted().await.context("cannot have deleted rows overwritten")?;
    }
    Ok(store)
}

/// Opens a database to look at: one that flushes nothing may be looked at, too, and a file that is missing stays missing.
pub(crate) async fn visit(config: &StoreConfig) -> anyhow::Result<Option<Store>> {
    look_at(config, Durability::Unsafe).await
}

/// As [`visit`], and refused where it does not promise so much.
pub(crate) async fn look_at(config: &StoreConfig, durability: Durability) -> anyhow::Result<Option<Store>> {
    if matches!(&config.url, StoreUrl::Sqlite(path) if !path.exists()) {
        return Ok(None);
    }
    open(&StoreConfig { durability, ..config.clone() }, Access::Visitor).await.map(Some)
}

/// The config of a database named on the command line.
pub(crate) fn config_of(url: &StoreUrl) -> StoreConfig {
    StoreConfig {
        url: url.clone(),
        durability: Durability::Restart,
        batch: 512,
        writers: 1,
        secret_key: None,
        secure_delete: false,
    }
}
