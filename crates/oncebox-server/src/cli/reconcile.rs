//! Arguments of `reconcile`.

use std::path::PathBuf;

use clap::Args;

use super::operator::OperatorArgs;
use super::values::when;
use crate::when::When;

#[derive(Args, Debug)]
#[command(after_help = "What is marked done and is not among the ids that your tables know has lost its effect: a row
deleted by hand, a restored table. The query runs on the same database, may only read, and
returns event ids (or keys) in its first column. Ids from elsewhere come as a list, one a line;
what was done after the file was written, or after the command began, is left out. Without
--requeue nothing is changed; with it, what is missing runs again, although it is done. It asks
first: where nobody can answer, and always where the ids are none at all, it needs --yes.

Exit status: 0 nothing is missing, or all of it was put back in line; 1 something is missing.

Examples:
  oncebox reconcile --source stripe --against 'select event_id from payments'
  oncebox reconcile --source stripe --since 7d --against 'select event_id from payments' --json
  oncebox reconcile --source stripe --handler ledger --against 'select id from payments' --requeue
  oncebox reconcile --source stripe --handler ledger --ids paid.txt --requeue --yes")]
pub(crate) struct ReconcileArgs {
    /// The source whose events are compared
    #[arg(long, value_name = "NAME")]
    pub(crate) source: String,
    /// The query that returns the ids your tables know
    #[arg(long, value_name = "SQL", required_unless_present = "ids", conflicts_with = "ids")]
    pub(crate) against: Option<String>,
    /// The ids that the business has, one a line, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) ids: Option<PathBuf>,
    /// Only this handler; needed to requeue where several were done with these events
    #[arg(long, value_name = "NAME")]
    pub(crate) handler: Option<String>,
    /// Only events received since then: 7d (ago), 2026-11-15 or 2026-11-15T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) since: Option<When>,
    /// Only events received before then
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) until: Option<When>,
    /// Put what is missing back in line; asks first
    #[arg(long)]
    pub(crate) requeue: bool,
    /// Do not ask
    #[arg(long, short, requires = "requeue")]
    pub(crate) yes: bool,
    /// An id of your own: submitted twice under one id, it acts once
    #[arg(long, value_name = "ID", requires = "requeue")]
    pub(crate) action_id: Option<String>,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}
