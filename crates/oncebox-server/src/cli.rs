//! The command line: arguments and their help, nothing else.
//!
//! A value that may hold a secret (tokens, database URLs, settings) is parsed by [`private`], which never repeats the
//! value in an error. Variables beginning with `ONCEBOX_` stand in for the options that name them. The options of a list
//! are the parameters of its route, and are sent as they are.

pub(crate) mod action;
pub(crate) mod alert;
pub(crate) mod database;
pub(crate) mod operator;
mod private;
pub(crate) mod reconcile;
pub(crate) mod retention;
pub(crate) mod send;
pub(crate) mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use oncebox_verify::Secret;

use crate::config::outside::Overrides;
use crate::config::store::StoreUrl;

use action::{
    ActionsArgs, BackfillArgs, DiscardArgs, ForgetArgs, HeldArgs, ListArgs, OutboxArgs, PauseArgs, ReleaseArgs,
    ReplayArgs, TailArgs,
};
use alert::AlertArgs;
use database::{BackupArgs, CheckArgs, EraseArgs};
use operator::{ArmArgs, DisarmArgs, EventArgs, EventsArgs, ExplainArgs, ProvidersArgs, StatusArgs};
use private::{Private, secret, store_url};
use reconcile::ReconcileArgs;
use retention::RetentionArgs;
use send::{BenchArgs, SendArgs};
use values::listen;

/// The exactly-once webhook inbox.
#[derive(Debug, Parser)]
#[command(name = "oncebox", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Start here:
  oncebox dev                    run an inbox on this machine, no set-up
  oncebox send stripe --copies 5 send it one signed event five times
  oncebox events                 see that it is stored once

Exit status: 0 ok, 1 the command's work failed, 2 wrong usage or config.")]
pub(crate) struct Cli {
    /// What to log: error, warn, info, debug, trace, or a filter such as info,oncebox=debug
    #[arg(long, global = true, value_name = "LEVEL", env = "ONCEBOX_LOG", default_value = values::LOG_DEFAULT, value_parser = values::log_filter)]
    pub(crate) log: String,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an inbox on this machine without any set-up
    Dev(DevArgs),
    /// Run the gateway: ingest, admin API, metrics
    Serve(ServeArgs),
    /// Read the config and print every problem at once, or inspect a live database; changes nothing
    Check(CheckArgs),
    /// Bring the database schema up to date
    Migrate(MigrateArgs),
    /// Send signed sample events, or deliberately bad ones
    Send(SendArgs),
    /// List stored events
    Events(EventsArgs),
    /// Show one event with its arrivals, deliveries and attempts
    Event(EventArgs),
    /// Follow what arrives
    Tail(TailArgs),
    /// List deliveries and outbox messages that gave up
    #[command(after_help = "Examples:
  oncebox dead-letters
  oncebox dead-letters --handler billing --since 1d
  oncebox event stripe/evt_1PqK       every attempt of one, with its error
  oncebox replay stripe/evt_1PqK      another chance")]
    DeadLetters(ListArgs),
    /// List outbox messages, or show one
    Outbox(OutboxArgs),
    /// List what waits for a person
    #[command(
        after_help = "Stored and acknowledged, but not run: no usable id, bytes seen before under another id, a broken
promise.

Examples:
  oncebox held
  oncebox event KEY                   why it is held, and its bytes
  oncebox release KEY                 run it
  oncebox discard KEY                 never run it"
    )]
    Held(HeldArgs),
    /// Give dead letters another chance, or try now what waits for its next attempt
    #[command(
        after_help = "Dead letters get a fresh budget of attempts. With --waiting it is not the dead that are meant
but what waits for its next attempt: it is due now, and its budget stays. Shows how many it
concerns and asks, unless --yes. Identity and idempotency keys stay the same. Killed midway, the
same command with the same --action-id goes on where it stopped.

Examples:
  oncebox replay stripe/evt_1PqK
  oncebox replay --handler billing --dry-run
  oncebox replay --handler billing --waiting  its target is repaired: try now what waits
  oncebox replay --destination crm            dead outbox messages, or with --waiting others
  oncebox replay --source stripe --type 'invoice.*' --since 2h --yes"
    )]
    Replay(ReplayArgs),
    /// Give a handler stored events that it never had
    #[command(
        after_help = "A handler that is added sees new events; this gives it the stored ones that it wants and never
had, as long as their payload is kept. Those that it had, whatever came of them, are left alone.
Shows how many and asks, unless --yes.

Examples:
  oncebox backfill --handler new-report --since 30d --dry-run
  oncebox backfill --handler new-report --since 2026-11-01 --until 2026-11-08 --action-id report-1"
    )]
    Backfill(BackfillArgs),
    /// Let held events and deliveries run, or the other body of a conflict
    #[command(
        after_help = "A conflict (a known id with another body) is meant only by its key or by --state conflict. Its
release runs the other body as a second effect, under keys of its own; the event that has the id
is left alone. From then on a copy of that body is a duplicate.

Examples:
  oncebox release stripe/evt_1PqK
  oncebox release --source github --since 1h --dry-run
  oncebox release stripe/evt_1PqK --state conflict   the other body under this id
  oncebox release --state conflict --source stripe --dry-run"
    )]
    Release(ReleaseArgs),
    /// Decide that dead or held ones never run, and be told of a conflict no more
    #[command(
        after_help = "A conflict is meant only by its key or by --state conflict. It stays in the list of events.

Examples:
  oncebox discard 019a8f3e-7c1d-7a33-8f0e-3b1f6f0c2d11
  oncebox discard --state conflict --source stripe   be told of these no more
  oncebox discard --handler old-report --state dead --yes
  oncebox discard --destination old-crm       outbox messages: dead, or never to be sent"
    )]
    Discard(DiscardArgs),
    /// Drop identities, so that a redelivery counts as new
    #[command(after_help = "The event stays; only the memory of its identity goes. Ask the sender to send it again
afterwards: it is a new event then, with new idempotency keys, and every handler runs it, also
one that was done with it before.

Examples:
  oncebox forget stripe/evt_1PqK
  oncebox forget --source stripe --since 1h --dry-run")]
    Forget(ForgetArgs),
    /// Remove the payloads of one event, or of everything about a subject
    Erase(EraseArgs),
    /// Find events marked done whose effect is missing, and run them again
    Reconcile(ReconcileArgs),
    /// Stop running a handler; its events wait
    #[command(after_help = "Examples:
  oncebox pause billing")]
    Pause(PauseArgs),
    /// Run a paused handler again
    #[command(after_help = "Examples:
  oncebox resume billing")]
    Resume(PauseArgs),
    /// Show what operators did, newest first
    Actions(ActionsArgs),
    /// Judge captured requests offline and say why one was refused
    Explain(ExplainArgs),
    /// List the catalogue, or show what to click and which secret to copy
    Providers(ProvidersArgs),
    /// Show rates, queues, dead letters, held events and paused handlers
    Status(StatusArgs),
    /// Show how long things are kept and what was removed, or remove now what is over
    Retention(RetentionArgs),
    /// Let the next handshake of a source bring its secret, once
    Arm(ArmArgs),
    /// Take an arming back
    Disarm(DisarmArgs),
    /// Try whether notices arrive
    Alert(AlertArgs),
    /// Copy an SQLite database while the server goes on
    Backup(BackupArgs),
    /// Measure how fast events are accepted
    Bench(BenchArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Every provider of the catalogue becomes a source named by its slug, with a secret made for
development and kept beside the database. Loopback only.

Examples:
  oncebox dev
  oncebox dev --listen 127.0.0.1:9000 --database sqlite:/tmp/try.db
  oncebox dev --database postgres://postgres@localhost/try")]
pub(crate) struct DevArgs {
    /// Where webhooks come in
    #[arg(long, value_name = "ADDRESS", env = "ONCEBOX_LISTEN", default_value = "127.0.0.1:8080", value_parser = listen)]
    pub(crate) listen: SocketAddr,
    /// Where the admin API and metrics are
    #[arg(long, value_name = "ADDRESS", env = "ONCEBOX_ADMIN_LISTEN", default_value = "127.0.0.1:8081", value_parser = listen)]
    pub(crate) admin_listen: SocketAddr,
    /// Where events are kept
    #[arg(long, value_name = "URL", env = "ONCEBOX_DATABASE", hide_env_values = true, default_value = "sqlite:oncebox.db", value_parser = Private(store_url))]
    pub(crate) database: StoreUrl,
}

#[derive(Args, Debug)]
#[command(after_help = "SIGTERM stops accepting, finishes what is under way and exits with 0.
SIGHUP reads sources and handlers again, all or nothing.

Examples:
  oncebox serve
  oncebox serve --config /etc/oncebox/oncebox.toml
  ONCEBOX_DATABASE=postgres://… oncebox serve")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "`serve` does this too, under a lock. Run it as the owner of the schema when the
server's own user may not change tables (on Postgres the role oncebox_gateway, docs/sql/roles.sql).

Examples:
  oncebox migrate
  oncebox migrate --database postgres://owner@db/app")]
pub(crate) struct MigrateArgs {
    /// The config file
    #[arg(long, value_name = "FILE", env = "ONCEBOX_CONFIG", default_value = "oncebox.toml")]
    pub(crate) config: PathBuf,
    /// The database, in place of the config's
    #[arg(long, value_name = "URL", env = "ONCEBOX_DATABASE", hide_env_values = true, value_parser = Private(store_url))]
    pub(crate) database: Option<StoreUrl>,
}

/// Which config file, and what to replace in it.
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    /// The config file
    #[arg(long, value_name = "FILE", env = "ONCEBOX_CONFIG", default_value = "oncebox.toml")]
    pub(crate) config: PathBuf,
    /// The public listener, in place of server.listen
    #[arg(long, value_name = "ADDRESS", env = "ONCEBOX_LISTEN", value_parser = listen)]
    pub(crate) listen: Option<SocketAddr>,
    /// The admin listener, in place of server.admin_listen
    #[arg(long, value_name = "ADDRESS", env = "ONCEBOX_ADMIN_LISTEN", value_parser = listen)]
    pub(crate) admin_listen: Option<SocketAddr>,
    /// The database, in place of store.url
    #[arg(long, value_name = "URL", env = "ONCEBOX_DATABASE", hide_env_values = true, value_parser = Private(store_url))]
    pub(crate) database: Option<StoreUrl>,
    /// The operator's token, in place of server.admin_token; better given by the environment
    #[arg(long, value_name = "TOKEN", env = "ONCEBOX_ADMIN_TOKEN", hide_env_values = true, value_parser = Private(secret))]
    pub(crate) admin_token: Option<Secret>,
}

impl ConfigArgs {
    /// What the command line says in place of the file.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            listen: self.listen,
            admin_listen: self.admin_listen,
            database: self.database.clone(),
            admin_token: self.admin_token.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
