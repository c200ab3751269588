//! Arguments of the commands that look after a database: `check`, `backup`, `erase`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use oncebox_verify::Secret;

use super::ConfigArgs;
use super::action::CareArgs;
use super::operator::OperatorArgs;
use super::private::{Private, secret, store_url};
use super::values::{listen, when};
use crate::config::store::StoreUrl;
use crate::when::When;

#[derive(Args, Debug)]
#[command(after_help = "With --database the database is looked over too, and only that where there is no config file:
the schema, the settings that the promise rests on, and what must hold between the tables. It
only reads, in small steps, and may run beside a busy server. Exit status 1 where something is
wrong.

Examples:
  oncebox check
  oncebox check --config /etc/oncebox/oncebox.toml --json
  oncebox check --database                      the config's database, its newest rows
  oncebox check --database sqlite:oncebox.db --full
  oncebox check --database --sample 100000 --json")]
pub(crate) struct CheckArgs {
    /// The config file
    #[arg(long, value_name = "FILE", env = "ONCEBOX_CONFIG", default_value = DEFAULT_CONFIG)]
    pub(crate) config: PathBuf,
    /// The public listener, in place of server.listen
    #[arg(long, value_name = "ADDRESS", env = "ONCEBOX_LISTEN", value_parser = listen)]
    pub(crate) listen: Option<SocketAddr>,
    /// The admin listener, in place of server.admin_listen
    #[arg(long, value_name = "ADDRESS", env = "ONCEBOX_ADMIN_LISTEN", value_parser = listen)]
    pub(crate) admin_listen: Option<SocketAddr>,
    /// Look the database over as well: the config's, or this one
    #[arg(long, value_name = "URL", num_args = 0..=1, value_parser = Private(store_url))]
    pub(crate) database: Option<Option<StoreUrl>>,
    /// What the environment says in place of store.url; it asks for no look at the database
    #[arg(long, hide = true, env = "ONCEBOX_DATABASE", hide_env_values = true, value_parser = Private(store_url))]
    pub(crate) store_url: Option<StoreUrl>,
    /// The operator's token, in place of server.admin_token; better given by the environment
    #[arg(long, value_name = "TOKEN", env = "ONCEBOX_ADMIN_TOKEN", hide_env_values = true, value_parser = Private(secret))]
    pub(crate) admin_token: Option<Secret>,
    /// Look at so many of the newest rows of each table
    #[arg(long, value_name = "N", requires = "database", default_value_t = 10_000, value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) sample: i64,
    /// Look at every row
    #[arg(long, requires = "database", conflicts_with = "sample")]
    pub(crate) full: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const DEFAULT_CONFIG: &str = "oncebox.toml";

impl CheckArgs {
    /// The part that is about the config.
    pub(crate) fn config_args(&self) -> ConfigArgs {
        ConfigArgs {
            config: self.config.clone(),
            listen: self.listen,
            admin_listen: self.admin_listen,
            database: self.named_database().cloned(),
            admin_token: self.admin_token.clone(),
        }
    }

    /// The database that is named here or in the environment.
    pub(crate) fn named_database(&self) -> Option<&StoreUrl> {
        self.database.as_ref().and_then(Option::as_ref).or(self.store_url.as_ref())
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Copies an SQLite database while the server goes on. The copy is of one moment, is checked, and
appears under its name only when it is whole. On Postgres use pg_dump or pg_basebackup:
docs/backup.md has the commands, and what restoring an older copy means.

Examples:
  oncebox backup --to backup.db
  oncebox backup --to backup.db --force --database sqlite:/var/lib/oncebox/oncebox.db")]
pub(crate) struct BackupArgs {
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    pub(crate) force: bool,
    /// The config file that names the database
    #[arg(long, value_name = "FILE", env = "ONCEBOX_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The database, in place of the config's
    #[arg(long, value_name = "URL", env = "ONCEBOX_DATABASE", hide_env_values = true, value_parser = Private(store_url))]
    pub(crate) database: Option<StoreUrl>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Removes headers and bodies, the bodies and answers of outbox messages, and the texts of errors.
The ledger and the event record stay, so that a redelivery is still a duplicate; what has not
run yet is discarded. The log of actions keeps a mark of the value, never the value. Shows how
many first and asks, unless --yes. docs/erasure.md says what is left.

Examples:
  oncebox erase --key stripe/evt_1PqK
  oncebox erase --source stripe --pointer /data/object/customer --value cus_1 --dry-run
  oncebox erase --source stripe --pointer /data/object/customer --value cus_1 --since 90d --yes"
)]
pub(crate) struct EraseArgs {
    /// One event: its key, or source/event_id
    #[arg(
        long,
        value_name = "KEY",
        required_unless_present = "source",
        conflicts_with = "source",
        help_heading = "Which"
    )]
    pub(crate) key: Option<String>,
    /// Events of this source whose body has the value
    #[arg(long, value_name = "NAME", requires = "pointer", requires = "value", help_heading = "Which")]
    pub(crate) source: Option<String>,
    /// Where the value stands in the body, as a JSON pointer
    #[arg(long, value_name = "POINTER", requires = "source", help_heading = "Which")]
    pub(crate) pointer: Option<String>,
    /// The value: a text, or a whole number
    #[arg(long, requires = "source", allow_hyphen_values = true, help_heading = "Which")]
    pub(crate) value: Option<String>,
    /// Only events received since then: 90d (ago), 2026-11-15 or 2026-11-15T12:00:00Z
    #[arg(long, value_name = "TIME", requires = "source", value_parser = when, help_heading = "Which")]
    pub(crate) since: Option<When>,
    /// Only events received before then
    #[arg(long, value_name = "TIME", requires = "source", value_parser = when, help_heading = "Which")]
    pub(crate) until: Option<When>,
    #[command(flatten)]
    pub(crate) care: CareArgs,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}
