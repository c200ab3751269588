//! `lab`: one command for each measurement.

use clap::Parser as _;
use lab::args::{Cli, Command};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let shown = match Cli::parse().command {
        Command::Fill(args) => lab::fill::run(&args).await,
        Command::Growth(args) => lab::growth::run(&args).await,
        Command::Handling(args) => lab::handling::run(&args).await,
        Command::Relay(args) => lab::relay::run(&args).await,
        Command::Instructions(args) => lab::instructions::run(&args).await,
    }?;
    println!("{shown}");
    Ok(())
}
