//! Arguments of the commands that look: `events`, `event`, `explain`, `providers`, `status`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use oncebox_verify::Secret;
use serde::Serialize;

use super::private::{Private, secret, secret_in_env, secret_in_file, store_url};
use super::values::{Setting, duration, setting, when};
use crate::config::outside::Overrides;
use crate::config::store::StoreUrl;
use crate::when::When;

/// How an operator's command reaches the server, or its database when none runs.
#[derive(Args, Debug)]
pub(crate) struct OperatorArgs {
    /// The config file that names the server and its database
    #[arg(long, value_name = "FILE", env = "ONCEBOX_CONFIG", help_heading = "Where to look")]
    pub(crate) config: Option<PathBuf>,
    /// The running server's admin API; without it the config's
    #[arg(long, value_name = "URL", help_heading = "Where to look")]
    pub(crate) admin_url: Option<String>,
    /// The operator's token; better given by the environment
    #[arg(long, value_name = "TOKEN", env = "ONCEBOX_ADMIN_TOKEN", hide_env_values = true, value_parser = Private(secret), help_heading = "Where to look")]
    pub(crate) admin_token: Option<Secret>,
    /// Straight to this database, when no server runs
    #[arg(long, value_name = "URL", env = "ONCEBOX_DATABASE", hide_env_values = true, value_parser = Private(store_url), help_heading = "Where to look")]
    pub(crate) database: Option<StoreUrl>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl OperatorArgs {
    /// What the command line says in place of the config file.
    pub(crate) fn overrides(&self) -> Overrides {
        let (database, admin_token) = (self.database.clone(), self.admin_token.clone());
        Overrides { database, admin_token, ..Overrides::default() }
    }
}

/// A page of a list.
#[derive(Args, Debug, Serialize)]
pub(crate) struct PageArgs {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// Go on where the page before ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

#[derive(Args, Debug, Serialize)]
#[command(after_help = "Examples:
  oncebox events
  oncebox events --source stripe --type 'invoice.*' --since 1h
  oncebox events --state held --json")]
pub(crate) struct EventsArgs {
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Only types that fit; * stands for anything
    #[arg(long = "type", value_name = "PATTERN")]
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    /// Only this state
    #[arg(long, value_parser = STATES)]
    pub(crate) state: Option<String>,
    /// Only events received since then: 10m (ago), 7d, 2026-11-15 or 2026-11-15T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) since: Option<When>,
    /// Only events received before then
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub(crate) until: Option<When>,
    /// Only events whose id or type holds this text
    #[arg(long)]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) page: PageArgs,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  oncebox event stripe/evt_1PqK
  oncebox event 019a8f3e-7c1d-7a33-8f0e-3b1f6f0c2d11 --json
  oncebox event stripe/evt_1PqK --raw > body.json")]
pub(crate) struct EventArgs {
    /// The event's key, or source/event_id
    pub(crate) key: String,
    /// Print the raw bytes of the body and nothing else
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  oncebox status
  oncebox status --admin-url http://127.0.0.1:8081 --json")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "For senders that make up the secret themselves and send it in their first request (Asana,
Notion). It is kept encrypted with store.secret_key and never shown, unless the vendor wants it
typed in as well (Notion): then --wait prints it, once. Armed means: whoever comes first within
ten minutes. allow_from in the config keeps out who is not the vendor, where it publishes addresses.

Examples:
  oncebox arm asana
  oncebox arm notion --wait
  oncebox arm asana --database postgres://…")]
pub(crate) struct ArmArgs {
    /// The source
    pub(crate) source: String,
    /// Wait until the secret came, 10 minutes unless told otherwise
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "10m", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "A source is armed for ten minutes, and until a secret came; this ends it at once.

Examples:
  oncebox disarm asana")]
pub(crate) struct DisarmArgs {
    /// The source
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "FILE holds one captured request per line:
  {\"method\":\"POST\",\"url\":\"/in/stripe\",\"headers\":{\"stripe-signature\":\"t=…,v1=…\"},\"body\":\"<base64>\",\"at\":1731700000}
Exit status 1 if one of them is rejected or cannot be read, 0 if all pass.

Examples:
  oncebox explain --source stripe captured.jsonl
  oncebox explain --provider github --secret-env GITHUB_SECRET …
  oncebox explain --provider twilio --secret-file key --set public_url=https://a.example …")]
pub(crate) struct ExplainArgs {
    /// The config file that describes the source
    #[arg(long, value_name = "FILE", env = "ONCEBOX_CONFIG", default_value = "oncebox.toml")]
    pub(crate) config: PathBuf,
    /// The configured source to judge by
    #[arg(long, value_name = "NAME", conflicts_with = "provider")]
    pub(crate) source: Option<String>,
    /// The provider to judge by, without a config
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    // A certificate begins with dashes.
    /// A secret, certificate or key; repeats
    #[arg(long = "secret", value_name = "SECRET", allow_hyphen_values = true, conflicts_with = "source", value_parser = Private(secret))]
    pub(crate) secrets: Vec<Secret>,
    /// The same from a file, which no list of processes shows; repeats
    #[arg(long = "secret-file", value_name = "FILE", conflicts_with = "source", value_parser = Private(secret_in_file))]
    pub(crate) secret_files: Vec<Secret>,
    /// The same from an environment variable; repeats
    #[arg(long = "secret-env", value_name = "NAME", conflicts_with = "source", value_parser = Private(secret_in_env))]
    pub(crate) secret_envs: Vec<Secret>,
    /// A further setting of the provider; repeats
    #[arg(long = "set", value_name = "NAME=VALUE", conflicts_with = "source", value_parser = Private(setting))]
    pub(crate) settings: Vec<Setting>,
    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
    /// The captured requests, or - for standard input
    pub(crate) file: PathBuf,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  oncebox providers
  oncebox providers shopify
  oncebox providers --json")]
pub(crate) struct ProvidersArgs {
    /// Show this entry: what to click at the vendor, which secret, what identifies an event
    pub(crate) name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the whole catalogue as Markdown, as in docs/providers.md
    #[arg(long, hide = true, conflicts_with_all = ["name", "json"])]
    pub(crate) markdown: bool,
}

/// The states of events.
pub(super) const STATES: [&str; 3] = ["accepted", "held", "conflict"];
