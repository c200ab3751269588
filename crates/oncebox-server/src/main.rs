//! The program `oncebox`: parse the command line, run the command.

mod admin;
mod alert;
mod arming;
mod cli;
mod commands;
mod config;
mod dashboard;
mod database;
mod dev;
mod http;
mod observe;
mod operator;
mod public;
mod query;
mod serve;
mod setup;
mod terminal;
mod usage;
mod when;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Check(args) if args.database.is_some() => commands::check::store::run(&args).await,
        Command::Check(args) => commands::check::run(&args).await,
        Command::Dev(args) => commands::dev::run(&args, &cli.log).await,
        Command::Migrate(args) => commands::migrate::run(&args).await,
        Command::Serve(args) => commands::serve::run(&args, &cli.log).await,
        Command::Send(args) => commands::send::run(&args).await,
        Command::Events(args) => commands::inspect::events::run(&args).await,
        Command::Event(args) => commands::inspect::event::run(&args).await,
        Command::Tail(args) => commands::inspect::tail::run(&args).await,
        Command::DeadLetters(args) => commands::inspect::dead_letters::run(&args).await,
        Command::Outbox(args) => commands::inspect::outbox::run(&args).await,
        Command::Held(args) => commands::inspect::held::run(&args).await,
        Command::Replay(args) => commands::operate::actions::replay(&args).await,
        Command::Backfill(args) => commands::operate::actions::backfill(&args).await,
        Command::Release(args) => commands::operate::actions::release(&args).await,
        Command::Discard(args) => commands::operate::actions::discard(&args).await,
        Command::Forget(args) => commands::operate::actions::forget(&args).await,
        Command::Erase(args) => commands::operate::erase::run(&args).await,
        Command::Backup(args) => commands::backup::run(&args).await,
        Command::Reconcile(args) => commands::operate::reconcile::run(&args).await,
        Command::Pause(args) => commands::operate::pause::pause(&args).await,
        Command::Resume(args) => commands::operate::pause::resume(&args).await,
        Command::Actions(args) => commands::inspect::audit_log::run(&args).await,
        Command::Arm(args) => commands::operate::arm::run(&args).await,
        Command::Disarm(args) => commands::operate::arm::disarm(&args).await,
        Command::Retention(args) => commands::operate::retention::run(&args).await,
        Command::Status(args) => commands::inspect::status::run(&args).await,
        Command::Explain(args) => commands::explain::run(&args),
        Command::Providers(args) => commands::providers::run(&args),
        Command::Alert(args) => commands::alert::run(&args).await,
        Command::Bench(args) => commands::bench::run(&args).await,
    };
    outcome.unwrap_or_else(|error| commands::report(&error))
}
