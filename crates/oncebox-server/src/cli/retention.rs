//! Arguments of `retention`.

use clap::{Args, Subcommand};

use super::operator::OperatorArgs;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = false)]
#[command(after_help = "Payloads go after retention.payload, identities and all that is known of an event after
retention.ledger. What a handler or a person still needs (not ended, dead, held) stays until it
was dealt with. A clock that jumped by more than ten minutes stops everything until somebody
confirms that the time is right.

Examples:
  oncebox retention                 windows, schedule, what was removed
  oncebox retention run             remove now what is over
  oncebox retention confirm         the time is right: go on after a jump of the clock")]
pub(crate) struct RetentionArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<RetentionVerb>,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

/// What `retention` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum RetentionVerb {
    /// Remove now what is over
    Run {
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Say that the time is right, so that deleting goes on
    Confirm {
        #[command(flatten)]
        operator: OperatorArgs,
    },
}
