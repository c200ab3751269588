//! Arguments of `alert`.

use clap::{Args, Subcommand};

use super::ConfigArgs;

#[derive(Args, Debug)]
pub(crate) struct AlertArgs {
    #[command(subcommand)]
    pub(crate) command: AlertCommand,
}

/// What can be done with alerts.
#[derive(Debug, Subcommand)]
pub(crate) enum AlertCommand {
    /// Send a test notice to every [[alert]] of the config
    Test(TestArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Exit status 1 when one of them could not be told.

Examples:
  oncebox alert test
  oncebox alert test --config /etc/oncebox/oncebox.toml --json")]
pub(crate) struct TestArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
