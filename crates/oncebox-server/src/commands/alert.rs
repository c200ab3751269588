//! `oncebox alert test`: sends a notice to every `[[alert]]`, so that nobody learns at night that none arrives.

use std::process::ExitCode;

use oncebox::Clock;
use serde::Serialize;

use crate::alert::notice::NoticeBody;
use crate::alert::receiver::Receiver;
use crate::cli::alert::{AlertArgs, AlertCommand, TestArgs};
use crate::config::Config;
use crate::serve::processing;
use crate::terminal;
use crate::usage::wrong_usage;

#[derive(Debug, Serialize)]
struct Tried {
    alert: String,
    told: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) async fn run(args: &AlertArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        AlertCommand::Test(args) => test(args).await,
    }
}

async fn test(args: &TestArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config.config, &args.config.overrides())?;
    if config.alerts.is_empty() {
        return Err(wrong_usage("the config has no [[alert]]; docs/alerts.md shows one"));
    }
    let (node, at) = (processing::node_name(config.server.listen), Clock::system().now());
    let mut tried = Vec::new();
    for receiver in Receiver::all(&config.alerts)? {
        let letter = NoticeBody { alert: &receiver.config.name, node: &node, at, dashboard: None };
        let error = receiver.try_tell(letter.trial(receiver.config.kind)).await.err();
        tried.push(Tried { alert: receiver.config.name.clone(), told: error.is_none(), error });
    }
    let line = |one: &Tried| match &one.error {
        None => format!("{}: sent", one.alert),
        Some(error) => format!("{}: not sent: {error}", one.alert),
    };
    terminal::show(args.json, &tried, || tried.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    Ok(if tried.iter().all(|one| one.told) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
