//! `oncebox arm`: lets the next handshake of a source bring its secret, once.

use std::process::ExitCode;

use crate::cli::operator::ArmArgs;
use crate::operator::Operator;
use crate::terminal;

/// Runs the command.
pub(crate) async fn run(args: &ArmArgs) -> anyhow::Result<ExitCode> {
    Operator::open(&args.operator).await?.arm(&args.source).await?;
    let source = &args.source;
    if args.operator.json {
        terminal::print_json(&serde_json::json!({ "source": source, "armed": true }))?;
    } else {
        terminal::print(format!("{source} is armed: the next handshake's secret is taken, and none after it\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
