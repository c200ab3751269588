//! `oncebox dev`: an inbox on this machine without any set-up.

use std::process::ExitCode;

use anyhow::Context as _;
use oncebox::fault::Faults;

use super::wrong_usage;
use crate::cli::DevArgs;
use crate::config::Config;
use crate::dev::{dev_config, dev_slugs};
use crate::dev_secrets::DevSecrets;
use crate::server::Server;
use crate::telemetry;

/// Runs the command.
pub(crate) async fn run(args: &DevArgs, log: &str) -> anyhow::Result<ExitCode> {
    let secrets =
        DevSecrets::load_or_create(&args.database, &dev_slugs()).context("cannot keep development secrets")?;
    let config = || dev_config(args.listen, args.admin_listen, &args.database, &secrets).map_err(wrong_usage);
    let first = config()?;
    telemetry::init_logs(first.log, log);
    let metrics = telemetry::init_metrics()?;
    let server = Server::open(&first, Faults::none()).await?;
    println!("{}", banner(&first, &server, &secrets)?);
    server.run(metrics, config).await?;
    Ok(ExitCode::SUCCESS)
}

fn banner(config: &Config, server: &Server, secrets: &DevSecrets) -> anyhow::Result<String> {
    let (public, admin) = (server.public_address()?, server.admin_address()?);
    let names: Vec<&str> = config.sources.iter().map(|source| source.spec.name.as_str()).collect();
    let to = if public.port() == 8080 { String::new() } else { format!(" --to http://{public}") };
    Ok(format!(
        "\
oncebox dev: an inbox on this machine, ready for webhooks

  webhooks  http://{public}/in/{{source}}   (sources: {sources})
  admin     http://{admin}
  database  {database}
  secrets   {secrets}

Now, in a second terminal:

  oncebox send stripe --copies 50 --concurrency 50{to}    one event, sent fifty times, stored once
  oncebox events                                          what is in the inbox

Ctrl-C stops.",
        sources = names.join(", "),
        database = config.store.url,
        secrets = secrets.path().display(),
    ))
}
