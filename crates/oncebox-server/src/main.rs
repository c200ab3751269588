//! The program `oncebox`: parse the command line, run the command.

#[expect(dead_code, reason = "the arguments of commands that are still to come")]
mod cli;
mod commands;
#[expect(dead_code, reason = "the settings of parts that are still to come")]
mod config;
#[cfg_attr(not(test), expect(dead_code, reason = "for the command `dev`, still to come"))]
mod dev;
#[cfg_attr(not(test), expect(dead_code, reason = "for the commands `dev` and `send`, still to come"))]
mod dev_secrets;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Check(args) => commands::check::run(&args),
        _ => {
            eprintln!("this command is not built yet");
            ExitCode::FAILURE
        }
    }
}
