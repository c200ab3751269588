//! `oncebox check`: reads the config, prints every problem at once with its place, changes nothing.

use std::process::ExitCode;

use crate::cli::ConfigArgs;
use crate::config::Config;

/// Runs the command.
pub(crate) fn run(args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config, &args.overrides())?;
    for warning in &config.warnings {
        eprintln!("warning: {warning}");
    }
    println!("{}", summary(&config));
    Ok(ExitCode::SUCCESS)
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
