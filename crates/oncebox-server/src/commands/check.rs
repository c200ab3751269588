//! `oncebox check`: reads the config, prints every problem at once with its place, changes nothing.
//!
//! The database is asked about the handlers' SQL where it is there; a config is often checked where it is not.

use std::process::ExitCode;
use std::time::Duration;

use oncebox::store::{Access, Store};

use crate::cli::ConfigArgs;
use crate::config::Config;
use crate::config::problem::Problems;
use crate::config::store::{StoreConfig, StoreUrl};
use crate::{database, handler_sql};

/// A database that is out of reach must not hold a check up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) async fn run(args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config, &args.overrides())?;
    for warning in &config.warnings {
        eprintln!("warning: {warning}");
    }
    if handler_sql::is_any(&config.handlers) {
        match tokio::time::timeout(PATIENCE, look(&config, &args.config.display().to_string())).await {
            Ok(Ok(found)) => found?,
            Ok(Err(reason)) => eprintln!("note: the handlers' SQL was not tried: {reason}"),
            Err(_) => eprintln!("note: the handlers' SQL was not tried: {} does not answer", config.store.url),
        }
    }
    println!("{}", summary(&config));
    Ok(ExitCode::SUCCESS)
}

/// What the database says; the outer failure is why it could not be asked.
async fn look(config: &Config, file: &str) -> Result<Result<(), Problems>, String> {
    let store = open(&config.store).await?;
    let problems = handler_sql::problems(&store, &config.handlers).await.map_err(|error| error.chain());
    store.close().await;
    Ok(Problems::found(file, problems?))
}

/// Opens the database to look at; a file that is missing stays missing.
async fn open(config: &StoreConfig) -> Result<Store, String> {
    if let StoreUrl::Sqlite(path) = &config.url
        && !path.exists()
    {
        return Err(format!("there is no database {} yet", config.url));
    }
    let config = StoreConfig { accept_unflushed: true, ..config.clone() };
    database::open(&config, Access::Visitor).await.map_err(|error| format!("{error:#}"))
}

fn summary(config: &Config) -> String {
    let counted = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    format!(
        "ok: {}, {}, {}",
        counted(config.sources.len(), "source"),
        counted(config.handlers.len(), "handler"),
        counted(config.destinations.len(), "destination")
    )
}
