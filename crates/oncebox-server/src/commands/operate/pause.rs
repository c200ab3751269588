//! `oncebox pause` and `resume`: whether anything of a handler is claimed.

use std::process::ExitCode;

use anyhow::bail;

use crate::cli::action::PauseArgs;
use crate::operator::Operator;
use crate::terminal;

pub(crate) async fn pause(args: &PauseArgs) -> anyhow::Result<ExitCode> {
    set(args, true).await
}

pub(crate) async fn resume(args: &PauseArgs) -> anyhow::Result<ExitCode> {
    set(args, false).await
}

async fn set(args: &PauseArgs, paused: bool) -> anyhow::Result<ExitCode> {
    let handler = terminal::plain(&args.handler);
    if !Operator::open(&args.operator).await?.pause(&args.handler, paused).await? {
        bail!("no server ever ran a handler {handler}; see `oncebox status`");
    }
    let view = serde_json::json!({ "handler": handler, "paused": paused });
    terminal::show(args.operator.json, &view, || {
        if paused {
            format!("{handler} is paused: its events wait, what runs now ends; `oncebox resume {handler}`")
        } else {
            format!("{handler} runs again")
        }
    })
}
