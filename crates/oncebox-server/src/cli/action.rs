//! Arguments of the commands that act, and of the lists that say on what: `dead-letters`, `held`, `replay`, `backfill`,
//! `release`, `discard`, `forget`, `pause`, `resume`, `tail`, `actions`.

use clap::Args;
use serde::Serialize;

use super::operator::{OperatorArgs, PageArgs};
use super::values::when;
use crate::when::When;

/// Which events.
#[derive(Args, Debug, Serialize)]
pub(crate) struct EventFilterArgs {
    /// Only this source
    #[arg(long, value_name = "NAME", help_heading = "Which")]
    pub(crate) source: Option<String>,
    /// Only types that fit; * stands for anything
    #[arg(long = "type", value_name = "PATTERN", help_heading = "Which")]
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    /// Only events received since then: 10m (ago), 7d, 2026-11-15 or 2026-11-15T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = when, help_heading = "Which")]
    pub(crate) since: Option<When>,
    /// Only events received before then
    #[arg(long, value_name = "TIME", value_parser = when, help_heading = "Which")]
    pub(crate) until: Option<When>,
}

/// Which events or deliveries.
#[derive(Args, Debug, Serialize)]
pub(crate) struct FilterArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) events: EventFilterArgs,
    /// Only this handler
    #[arg(long, value_name = "NAME", help_heading = "Which")]
    pub(crate) handler: Option<String>,
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

/// Deliveries, one event's or many.
#[derive(Args, Debug)]
pub(crate) struct DeliveriesArgs {
    /// One event: its key, or source/event_id; or say which by filters
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Only this state, where the action starts from several; conflict is meant only where it is said
    #[arg(long, help_heading = "Which")]
    pub(crate) state: Option<String>,
}

/// Outbox messages, in place of deliveries.
#[derive(Args, Debug)]
pub(crate) struct MessagesArgs {
    /// Outbox messages to this destination, in place of deliveries
    #[arg(long, value_name = "NAME", conflicts_with = "key", help_heading = "Which")]
    pub(crate) destination: Option<String>,
    /// This outbox message, in place of deliveries
    #[arg(long, value_name = "ID", conflicts_with = "key", help_heading = "Which")]
    pub(crate) message: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) deliveries: DeliveriesArgs,
    #[command(flatten)]
    pub(crate) messages: MessagesArgs,
    /// What waits for its next attempt is due now, in place of dead letters
    #[arg(long, help_heading = "Which")]
    pub(crate) waiting: bool,
    #[command(flatten)]
    pub(crate) care: CareArgs,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug)]
pub(crate) struct BackfillArgs {
    /// The handler that gets the events
    #[arg(long, value_name = "NAME", help_heading = "Which")]
    pub(crate) handler: String,
    /// Events received since then: 10m (ago), 7d, 2026-11-15 or 2026-11-15T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = when, help_heading = "Which")]
    pub(crate) since: When,
    /// Only events received before then
    #[arg(long, value_name = "TIME", value_parser = when, help_heading = "Which")]
    pub(crate) until: Option<When>,
    /// Only this source
    #[arg(long, value_name = "NAME", help_heading = "Which")]
    pub(crate) source: Option<String>,
    /// Only types that fit; * stands for anything
    #[arg(long = "type", value_name = "PATTERN", help_heading = "Which")]
    pub(crate) event_type: Option<String>,
    #[command(flatten)]
    pub(crate) care: CareArgs,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) deliveries: DeliveriesArgs,
    #[command(flatten)]
    pub(crate) care: CareArgs,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    pub(crate) deliveries: DeliveriesArgs,
    #[command(flatten)]
    pub(crate) messages: MessagesArgs,
    #[command(flatten)]
    pub(crate) care: CareArgs,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ForgetArgs {
    /// One event: its key, or source/event_id; or say which by filters
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) events: EventFilterArgs,
    /// Only events in this state
    #[arg(long, value_parser = super::operator::STATES, help_heading = "Which")]
    pub(crate) state: Option<String>,
    #[command(flatten)]
    pub(crate) care: CareArgs,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug, Serialize)]
pub(crate) struct HeldArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) filter: EventFilterArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) page: PageArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) operator: OperatorArgs,
}

/// Arguments of `dead-letters`.
#[derive(Args, Debug, Serialize)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) page: PageArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug, Serialize)]
#[command(after_help = "Examples:
  oncebox outbox --state dead
  oncebox outbox --destination crm --since 1h --json
  oncebox outbox --event stripe/evt_1                   what the handlers of this event want sent
  oncebox outbox 019a8f3e-7c1d-7a33-8f0e-3b1f6f0c2d11   one, with attempts and the latest answer
  oncebox replay --destination crm                      another chance, under the same key
  oncebox discard --message 019a8f3e-7c1d-7a33-8f0e-3b1f6f0c2d11")]
pub(crate) struct OutboxArgs {
    /// Show this message
    #[serde(skip)]
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
    #[serde(rename = "key")]
    pub(crate) event: Option<String>,
    /// Only messages written since then: 10m (ago), 7d, 2026-11-15 or 2026-11-15T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) since: Option<When>,
    /// Only messages written before then
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) until: Option<When>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) page: PageArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug)]
pub(crate) struct PauseArgs {
    /// The handler
    pub(crate) handler: String,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

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
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug, Serialize)]
#[command(after_help = "Examples:
  oncebox actions
  oncebox actions --limit 1000 --json")]
pub(crate) struct ActionsArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) page: PageArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) operator: OperatorArgs,
}
