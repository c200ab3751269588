//! `oncebox check`: reads the config, prints every problem at once with its place, changes nothing.
//!
//! The database is asked about the handlers' SQL where it is there, whatever else is wrong with the file; a config is
//! often checked where it is not.

pub(crate) mod store;

use std::process::ExitCode;
use std::time::Duration;

use oncebox::gateway::store::{Store, StoreError};
use serde_json::json;

use crate::cli::ConfigArgs;
use crate::cli::database::CheckArgs;
use crate::config::problem::{Problem, Problems};
use crate::config::store::{StoreConfig, StoreUrl};
use crate::config::{Config, Examined};
use crate::serve::handler_sql;
use crate::{database, terminal};

/// A database that is out of reach must not hold a check up.
const PATIENCE: Duration = Duration::from_secs(5);
const WRONG_CONFIG: u8 = 2;

pub(crate) async fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    match check(&args.config_args()).await {
        Ok(config) => {
            let found = json!({"problems": [], "warnings": config.warnings});
            terminal::show(args.json, &found, || summary(&config))
        }
        Err(problems) if !args.json => Err(problems.into()),
        Err(problems) => {
            terminal::print_json(&json!({"problems": problems.as_json()}))?;
            Ok(ExitCode::from(WRONG_CONFIG))
        }
    }
}

async fn check(args: &ConfigArgs) -> Result<Config, Problems> {
    let Examined { mut config, mut problems, knows_store } = Config::examine(&args.config, &args.overrides())?;
    if handler_sql::is_any(&config.handlers) || matches!(config.store.url, StoreUrl::Postgres(_)) {
        match ask(&config, knows_store).await {
            Ok(found) => {
                problems.extend(found.problems);
                config.warnings.extend(found.warnings);
            }
            Err(reason) => eprintln!("note: the database was not asked: {reason}"),
        }
    }
    for warning in &config.warnings {
        eprintln!("warning: {warning}");
    }
    Problems::found(&args.config.display().to_string(), problems)?;
    Ok(config)
}

/// What the database says; the failure is why it could not be asked.
async fn ask(config: &Config, knows_store: bool) -> Result<Found, String> {
    if !knows_store {
        return Err("store.url has to be right first".to_owned());
    }
    let answer = tokio::time::timeout(PATIENCE, look(config)).await;
    answer.unwrap_or_else(|_too_late| Err(format!("{} does not answer", config.store.url)))
}

#[derive(Default)]
struct Found {
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

async fn look(config: &Config) -> Result<Found, String> {
    let store = match open(&config.store).await {
        Ok(store) => store,
        Err(Unopened::Away(reason)) => return Err(reason),
        Err(Unopened::Refused(problem)) => return Ok(Found { problems: vec![problem], ..Found::default() }),
    };
    let warnings = store.failover_risk().map(|risk| format!("{risk}; see store.survive")).into_iter().collect();
    let problems = handler_sql::problems(&store, &config.handlers).await.map_err(|error| error.chain());
    store.close().await;
    Ok(Found { problems: problems?, warnings })
}

/// Opens what a server would open.
async fn open(config: &StoreConfig) -> Result<Store, Unopened> {
    let opened = database::look_at(config, config.durability).await.map_err(|error| match error.downcast_ref() {
        Some(StoreError::Unsafe(why)) => {
            let (what, cure) = why.split_once("; ").unwrap_or((why, "use another database"));
            let (path, what, cure) = ("store".to_owned(), what.to_owned(), cure.to_owned());
            Unopened::Refused(Problem { place: None, path, what, cure })
        }
        _ => Unopened::Away(format!("{error:#}")),
    })?;
    opened.ok_or_else(|| Unopened::Away(format!("there is no database {} yet", config.url)))
}

enum Unopened {
    /// It is not there, and a config is often checked where it is not.
    Away(String),
    /// It is there, and a server would refuse it.
    Refused(Problem),
}

fn summary(config: &Config) -> String {
    let counted = |count: usize, noun: &str| terminal::counted(count as u64, noun);
    format!(
        "ok: {}, {}, {}",
        counted(config.sources.len(), "source"),
        counted(config.handlers.len(), "handler"),
        counted(config.destinations.len(), "destination")
    )
}
