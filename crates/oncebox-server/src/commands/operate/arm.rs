//! `oncebox arm`: lets the next handshake of a source bring its secret, once, and waits for it if asked to; `oncebox
//! disarm` takes that back.

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use crate::arming::{ArmingView, WAIT_MAX};
use crate::cli::operator::{ArmArgs, DisarmArgs};
use crate::config::units::show_duration;
use crate::operator::Operator;
use crate::terminal;
use crate::usage::wrong_usage;

/// Whoever is refused hears so sooner than this.
const REFUSED_WITHIN: Duration = Duration::from_millis(500);

pub(crate) async fn run(args: &ArmArgs) -> anyhow::Result<ExitCode> {
    if args.wait.is_some_and(|patience| patience > WAIT_MAX) {
        return Err(wrong_usage("--wait: ten minutes are the longest, since a source is armed for no longer"));
    }
    let operator = Operator::open_with(&args.operator, true).await?;
    let mut arming = pin!(operator.arm(&args.source, args.wait));
    let view = match (args.wait, tokio::time::timeout(REFUSED_WITHIN, &mut arming).await) {
        (_, Ok(view)) => view?,
        (None, Err(_)) => arming.await?,
        (Some(patience), Err(_)) => {
            eprintln!(
                "waiting up to {} for the handshake of {}: start it at the vendor now (Ctrl-C stops waiting, the source \
                 stays armed for ten minutes)",
                show_duration(patience),
                args.source
            );
            arming.await?
        }
    };
    terminal::show(args.operator.json, &view, || told(&view, args.wait))?;
    Ok(if args.wait.is_some() && view.armed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn told(view: &ArmingView, wait: Option<Duration>) -> String {
    let source = &view.source;
    match (&view.secret, view.armed, wait) {
        (Some(secret), ..) => {
            format!("the secret of {source} arrived; type it in at the vendor, it is not shown again:\n\n{secret}")
        }
        (None, false, _) => format!("the secret of {source} arrived"),
        (None, true, None) => format!(
            "{source} is armed for ten minutes: the next handshake's secret is taken, and none after it; \
             `oncebox disarm {source}` ends it before"
        ),
        (None, true, Some(_)) => {
            format!("no handshake of {source} came in time; it stays armed until ten minutes are over")
        }
    }
}

pub(crate) async fn disarm(args: &DisarmArgs) -> anyhow::Result<ExitCode> {
    let operator = Operator::open_with(&args.operator, true).await?;
    let view = operator.disarm(&args.source).await?;
    terminal::show(args.operator.json, &view, || format!("{} takes no handshake's secret", view.source))
}
