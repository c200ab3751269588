//! The program `oncebox`: parse the command line, run the command.

mod cli;
mod commands;
#[expect(dead_code, reason = "what handlers, destinations and retention are told is checked before they run")]
mod config;
mod database;
mod dev;
mod dev_secrets;
mod http;
mod query;
mod rejections;
mod server;
mod telemetry;
mod view;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Check(args) => Ok(commands::check::run(&args)),
        Command::Dev(args) => commands::dev::run(&args, &cli.log).await,
        Command::Migrate(args) => commands::migrate::run(&args).await,
        Command::Serve(args) => commands::serve::run(&args, &cli.log).await,
        _ => Err(anyhow::anyhow!("this command is not built yet")),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
