//! `oncebox migrate`: brings the schema up to date.

use std::process::ExitCode;

use anyhow::Context as _;
use oncebox::gateway::store::Access;

use crate::cli::MigrateArgs;
use crate::config::Reach;
use crate::config::outside::Overrides;
use crate::{database, terminal};

pub(crate) async fn run(args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let config = match &args.database {
        Some(url) => database::config_of(url),
        None => Reach::load(&args.config, &Overrides::default())?.store?,
    };
    let store = database::open(&config, Access::Visitor).await?;
    let steps = store.migrate().await.context("cannot bring the schema up to date")?;
    match steps {
        0 => println!("the schema of {} is up to date", config.url),
        steps => println!("{} applied to {}", terminal::counted(steps as u64, "migration"), config.url),
    }
    Ok(ExitCode::SUCCESS)
}
