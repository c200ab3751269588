//! `oncebox bench`: how fast events are accepted, over real sockets, by a real server process.
//!
//! Without `--to` this same binary is started as `serve` on a throw-away config, so that what is measured is what runs in
//! production; only the load comes from this process. `bench/lab` measures what is not the senders' side.

mod child;
mod figures;
mod load;
mod process;
mod script;
mod wire;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::json;

use super::send::{Target, development_secret};
use crate::cli::send::BenchArgs;
use crate::config::store::StoreUrl;
use crate::terminal::{self, Progress};
use crate::usage::wrong_usage;
use child::{Folder, Server};
use figures::{Figures, median_of};
use load::{Load, Process};
use script::Script;

/// The embedded server's log level: what one would run with under load.
const LOG_LEVEL: &str = "warn";

pub(crate) async fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    tokio::select! {
        done = measure(args) => done,
        // Ends the child and removes the temporary database on the way out.
        _ = tokio::signal::ctrl_c() => bail!("stopped"),
    }
}

async fn measure(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if let Some(to) = &args.to {
        return against(args, to).await;
    }
    let folder = Folder::create()?;
    let database = args.database.clone().unwrap_or_else(|| StoreUrl::Sqlite(folder.0.join("bench.db")));
    if args.database.is_some() {
        eprintln!("warning: {database} is filled with made-up events; never use one that you need");
    }
    let secret = child::made_up_secret()?;
    let script = Arc::new(Script::stripe(&secret, args.body_size, args.duplicates)?);
    let server = Server::start(&folder, &database, &secret).await?;
    let rounds = rounds(args, server.address, &script, Some(server.process)).await?;
    drop(server);
    finish(args, &format!("embedded server on {}, log level {LOG_LEVEL}", kind(&database)), &rounds)
}

/// A server that runs already.
async fn against(args: &BenchArgs, to: &str) -> anyhow::Result<ExitCode> {
    let target = Target::parse(Some(to), "stripe")?;
    if target.url.scheme() != "http" {
        return Err(wrong_usage("--to: bench speaks plain http only, so that it measures the server and not TLS"));
    }
    let secret = match &args.secret {
        Some(secret) => secret.clone(),
        None => development_secret(None, "stripe")?,
    };
    let address = resolve(&target).await?;
    let script = Script::stripe(&secret, args.body_size, args.duplicates)?;
    let script = Arc::new(script.at(&target.path_and_query()));
    let rounds = rounds(args, address, &script, None).await?;
    finish(args, &format!("server at {}, its log level unknown", target.shown()), &rounds)
}

async fn resolve(target: &Target) -> anyhow::Result<SocketAddr> {
    let host = target.url.host_str().unwrap_or_default();
    let port = target.url.port_or_known_default().unwrap_or(80);
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = tokio::net::lookup_host((name, port)).await.with_context(|| format!("cannot find {host}"))?;
    found.next().with_context(|| format!("{host} has no address"))
}

async fn rounds(
    args: &BenchArgs,
    address: SocketAddr,
    script: &Arc<Script>,
    process: Option<Process>,
) -> anyhow::Result<Vec<Figures>> {
    let load = Load { address, connections: args.connections, seconds: args.seconds, process };
    let (mut rounds, mut progress) = (Vec::new(), Progress::of_long_steps(args.rounds, "rounds"));
    for _ in 0..args.rounds {
        rounds.push(load.run(script).await?);
        progress.step();
    }
    Ok(rounds)
}

fn finish(args: &BenchArgs, what: &str, rounds: &[Figures]) -> anyhow::Result<ExitCode> {
    let median = median_of(rounds).context("no round was run")?;
    let found = json!({
        "what": what, "connections": args.connections, "seconds": args.seconds, "duplicates": args.duplicates,
        "body_bytes": args.body_size, "median": median, "rounds": rounds,
    });
    terminal::show(args.json, &found, || {
        let head = format!(
            "{what}\n{} of {} s, {}, bodies of {} bytes, duplicates {:.0} %\n",
            terminal::counted(rounds.len() as u64, "round"),
            args.seconds,
            terminal::counted(args.connections, "connection"),
            args.body_size,
            args.duplicates * 100.0
        );
        format!("{head}\n{}", median.as_text())
    })?;
    if median.failed > 0 {
        bail!("{} requests were not answered with 2xx: {}", median.failed, median.refusals());
    }
    Ok(ExitCode::SUCCESS)
}

fn kind(database: &StoreUrl) -> &'static str {
    match database {
        StoreUrl::Sqlite(_) => "sqlite",
        StoreUrl::Postgres(_) => "postgres",
    }
}
