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
        Command::Check(args) if args.database.is_some() => commands::check_database::run(&args).await,
        Command::Check(args) => commands::check::run(&args).await,
        Command::Dev(args) => commands::dev::run(&args, &cli.log).await,
        Command::Migrate(args) => commands::migrate::run(&args).await,
        Command::Serve(args) => commands::serve::run(&args, &cli.log).await,
        Command::Send(args) => commands::send::run(&args).await,
        Command::Events(args) => commands::events::run(&args).await,
        Command::Event(args) => commands::event::run(&args).await,
        Command::Tail(args) => commands::tail::run(&args).await,
        Command::DeadLetters(args) => commands::dead_letters::run(&args).await,
        Command::Outbox(args) => commands::outbox::run(&args).await,
        Command::Held(args) => commands::held::run(&args).await,
        Command::Replay(args) => commands::act::replay(&args).await,
        Command::Backfill(args) => commands::act::backfill(&args).await,
        Command::Release(args) => commands::act::release(&args).await,
        Command::Discard(args) => commands::act::discard(&args).await,
        Command::Forget(args) => commands::act::forget(&args).await,
        Command::Erase(args) => commands::erase::run(&args).await,
        Command::Backup(args) => commands::backup::run(&args).await,
        Command::Reconcile(args) => commands::reconcile::run(&args).await,
        Command::Pause(args) => commands::pause::pause(&args).await,
        Command::Resume(args) => commands::pause::resume(&args).await,
        Command::Actions(args) => commands::actions::run(&args).await,
        Command::Arm(args) => commands::arm::run(&args).await,
        Command::Disarm(args) => commands::arm::disarm(&args).await,
        Command::Retention(args) => commands::retention::run(&args).await,
        Command::Status(args) => commands::status::run(&args).await,
        Command::Explain(args) => commands::explain::run(&args),
        Command::Providers(args) => commands::providers::run(&args),
        Command::Alert(args) => commands::alert::run(&args).await,
        Command::Bench(args) => commands::bench::run(&args).await,
    };
    outcome.unwrap_or_else(|error| commands::report(&error))
}
