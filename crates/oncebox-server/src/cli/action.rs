//! Arguments of the commands that act, and of the lists that say on what: `dead-letters`, `held`, `replay`, `release`,
//! `discard`, `forget`, `reconcile`, `pause`, `resume`, `tail`, `actions`.

use clap::Args;

use super::operator::{OperatorArgs, PageArgs};
use super::values::{When, when};

/// Which events or deliveries.
#[derive(Args, Debug)]
pub(crate) struct FilterArgs {
    /// Only this source
    #[arg(long, value_name = "NAME", help_heading = "Which")]
    pub(crate) source: Option<String>,
    /// Only types that fit; * stands for anything
    #[arg(long = "type", value_name = "PATTERN", help_heading = "Which")]
    pub(crate) event_type: Option<String>,
    /// Only this handler
    #[arg(long, value_name = "NAME", help_heading = "Which")]
    pub(crate) handler: Option<String>,
    /// Only events received since then: 2026-11-15T12:00:00Z, or 10m for ten minutes ago
    #[arg(long, value_name = "TIME", value_parser = when, help_heading = "Which")]
    pub(crate) since: Option<When>,
    /// Only events received before then
    #[arg(long, value_name = "TIME", value_parser = when, help_heading = "Which")]
    pub(crate) until: Option<When>,
}

/// How an action that changes many things is kept from changing the wrong ones.
#[derive(Args, Debug)]
pub(crate) struct CareArgs {
    /// Say how many, change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// An id of your own: submitted twice under one id, it acts once and goes on where it was killed
    #[arg(long, value_name = "ID")]
    pub(crate) action_id: Option<String>,
}

/// Arguments of `replay`, `release`, `discard` and `forget`.
#[derive(Args, Debug)]
pub(crate) struct ActionArgs {
    /// One event: its key, or source/event_id; or say which by filters
    pub(crate) key: Option<String>,
    /// Which.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Only this state
    #[arg(long, help_heading = "Which")]
    pub(crate) state: Option<String>,
    /// Dead outbox messages to this destination, in place of deliveries; discard also takes those that wait if the
    /// destination is not configured
    #[arg(long, value_name = "NAME", conflicts_with = "key", help_heading = "Which")]
    pub(crate) destination: Option<String>,
    /// This dead outbox message, in place of deliveries; discard also takes one that waits for a destination that is not
    /// configured
    #[arg(long, value_name = "ID", conflicts_with = "key", help_heading = "Which")]
    pub(crate) message: Option<String>,
    /// With what care.
    #[command(flatten)]
    pub(crate) care: CareArgs,
    /// Where to look.
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

/// Arguments of `dead-letters` and `held`.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// How many, and from where.
    #[command(flatten)]
    pub(crate) page: PageArgs,
    /// Where to look.
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

/// Arguments of `outbox`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  oncebox outbox --state dead
  oncebox outbox --destination crm --since 1h --json
  oncebox outbox --event stripe/evt_1                   what the handlers of this event want sent
  oncebox outbox 019a8f3e-7c1d-7a33-8f0e-3b1f6f0c2d11   one, with every attempt and the latest answer
  oncebox replay --destination crm                      dead ones get another chance, under the same key
  oncebox discard --message 019a8f3e-7c1d-7a33-8f0e-3b1f6f0c2d11")]
pub(crate) struct OutboxArgs {
    /// Show this message
    pub(crate) id: Option<String>,
    /// Only this state
    #[arg(long, value_parser = ["ready", "claimed", "sent", "dead", "discarded"])]
    pub(crate) state: Option<String>,
    /// Only this destination
    #[arg(long, value_name = "NAME")]
    pub(crate) destination: Option<String>,
    /// Only messages that this handler wrote
    #[arg(long, value_name = "NAME")]
    pub(crate) handler: Option<String>,
    /// Only messages that were written for this event: its key, or source/event_id
    #[arg(long, value_name = "KEY")]
    pub(crate) event: Option<String>,
    /// Only messages written since then: 2026-11-15T12:00:00Z, or 10m for ten minutes ago
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) since: Option<When>,
    /// Only messages written before then
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) until: Option<When>,
    /// How many, and from where.
    #[command(flatten)]
    pub(crate) page: PageArgs,
    /// Where to look.
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

/// Arguments of `reconcile`.
#[derive(Args, Debug)]
#[command(
    after_help = "The query runs on the same database, may only read, and returns event ids (or keys) in its first column.
Whatever is marked done and is not among them has lost its effect: a row deleted by hand, a restored table.
Without --requeue nothing is changed. This is the only way to run an event again that is done.

Examples:
  oncebox reconcile --source stripe --against 'select event_id from payments'
  oncebox reconcile --source stripe --since 7d --against 'select event_id from payments' --json
  oncebox reconcile --source stripe --handler ledger --against 'select event_id from payments' --requeue"
)]
pub(crate) struct ReconcileArgs {
    /// The source whose events are compared
    #[arg(long, value_name = "NAME")]
    pub(crate) source: String,
    /// The query that returns the ids your tables know
    #[arg(long, value_name = "SQL")]
    pub(crate) against: String,
    /// Only this handler; needed to requeue where several were done with these events
    #[arg(long, value_name = "NAME")]
    pub(crate) handler: Option<String>,
    /// Only events received since then: 2026-11-15T12:00:00Z, or 7d for a week ago
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) since: Option<When>,
    /// Only events received before then
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) until: Option<When>,
    /// Put what is found back in line; asks on a terminal
    #[arg(long)]
    pub(crate) requeue: bool,
    /// Do not ask
    #[arg(long, short, requires = "requeue")]
    pub(crate) yes: bool,
    /// An id of your own: submitted twice under one id, it acts once
    #[arg(long, value_name = "ID", requires = "requeue")]
    pub(crate) action_id: Option<String>,
    /// Where to look.
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

/// Arguments of `pause` and `resume`.
#[derive(Args, Debug)]
pub(crate) struct PauseArgs {
    /// The handler
    pub(crate) handler: String,
    /// Where to look.
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

/// Arguments of `tail`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  oncebox tail
  oncebox tail --source stripe --type 'invoice.*'
  oncebox tail --json | jq .event_id")]
pub(crate) struct TailArgs {
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Only types that fit; * stands for anything
    #[arg(long = "type", value_name = "PATTERN")]
    pub(crate) event_type: Option<String>,
    /// Only this state
    #[arg(long, value_parser = super::operator::STATES)]
    pub(crate) state: Option<String>,
    /// Where to look.
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

/// Arguments of `actions`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  oncebox actions
  oncebox actions --limit 1000 --json")]
pub(crate) struct ActionsArgs {
    /// Which page.
    #[command(flatten)]
    pub(crate) page: PageArgs,
    /// Where to look.
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}
