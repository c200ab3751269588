//! `oncebox check --database`: looks a database over while others work on it, and changes nothing.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use oncebox::gateway::store::{Depth, Finding};
use serde_json::json;

use crate::cli::database::{CheckArgs, DEFAULT_CONFIG};
use crate::config::Config;
use crate::config::store::{StoreConfig, StoreUrl};
use crate::database;
use crate::terminal::{self, Progress, Tone};

pub(crate) async fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let config = store_config(args)?;
    let store = database::visit(&config).await?;
    let store = store.with_context(|| format!("there is no database {}", config.url))?;
    let depth = if args.full { Depth::All } else { Depth::Newest(args.sample) };
    let mut bar = Progress::new(0, "rows");
    let found = store.inspect(depth, |rows| bar.reach(rows.unsigned_abs())).await;
    drop(bar);
    store.close().await;
    let found = found.with_context(|| format!("cannot look {} over", config.url))?;
    let wrong: i64 = found.iter().flat_map(|finding| &finding.faults).map(|fault| fault.count).sum();
    terminal::show(args.json, &view(&config.url, &found, wrong), || text(&config.url, &found, wrong))?;
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The config is read too, where there is one: a database is often looked over where its config is not.
fn store_config(args: &CheckArgs) -> anyhow::Result<StoreConfig> {
    match args.named_database() {
        Some(url) if args.config == Path::new(DEFAULT_CONFIG) && !args.config.exists() => Ok(database::config_of(url)),
        _ => {
            let config = args.config_args();
            Ok(Config::load(&config.config, &config.overrides())?.store)
        }
    }
}

fn view(url: &StoreUrl, found: &[Finding], wrong: i64) -> serde_json::Value {
    let checks = found.iter().map(|finding| {
        let faults = finding.faults.iter();
        let faults: Vec<_> =
            faults.map(|fault| json!({"what": fault.what, "count": fault.count, "examples": fault.examples})).collect();
        json!({"check": finding.check, "looked_at": finding.looked_at, "faults": faults})
    });
    json!({"database": url.to_string(), "ok": wrong == 0, "wrong": wrong, "checks": checks.collect::<Vec<_>>()})
}

fn text(url: &StoreUrl, found: &[Finding], wrong: i64) -> String {
    let mut table = terminal::table(&["check", "looked at", "wrong", "what", "for example"]);
    for finding in found {
        let (check, looked_at) = (terminal::cell(&finding.check), terminal::cell(finding.looked_at.to_string()));
        if finding.faults.is_empty() {
            table.add_row([check, looked_at, terminal::toned("0", Some(Tone::Good))]);
            continue;
        }
        for fault in &finding.faults {
            table.add_row([
                check.clone(),
                looked_at.clone(),
                terminal::toned(&fault.count.to_string(), Some(Tone::Bad)),
                terminal::cell(&fault.what),
                terminal::cell(fault.examples.join(", ")),
            ]);
        }
    }
    let verdict = match wrong {
        0 => terminal::paint("nothing wrong was found", Tone::Good),
        _ => terminal::paint(&format!("{} wrong", terminal::counted(wrong, "thing")), Tone::Bad),
    };
    format!("{url}\n\n{}\n\n{verdict}", table.trim_fmt())
}
