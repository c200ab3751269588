//! Arguments of the commands that send: `send` and `bench`.

use std::time::Duration;

use clap::Args;
use oncebox_verify::Secret;

use super::private::{Private, secret, secret_in_env, secret_in_file, store_url};
use super::values::{Setting, duration, setting, share, size};
use crate::config::store::StoreUrl;

const COPIES_MAX: u64 = 1_000_000;
const CONCURRENCY_MAX: u64 = 4096;

#[derive(Args, Debug)]
#[command(after_help = "Prints how many requests were accepted, duplicates, rejected and failed. Without --secret the
development secret beside the database is used. Exit status 1 if an answer was not a 2xx; with
--tamper or --age a refusal is what was asked for.

Examples:
  oncebox send stripe
  oncebox send github --copies 50 --concurrency 10    one event, fifty arrivals
  oncebox send stripe --count 100 --type order.paid   a hundred different events
  oncebox send stripe --url http://127.0.0.1:3000/    your own application, at exactly this URL
  oncebox send stripe --tamper                        must be rejected: the body was changed
  oncebox send slack --age 10m                        must be rejected: signed too long ago")]
pub(crate) struct SendArgs {
    /// The provider whose events to imitate
    pub(crate) provider: String,
    /// Where to; without it http://127.0.0.1:8080. A URL without a path gets /in/PROVIDER, one with a path is taken as it is
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
    /// Exactly this URL, nothing appended: another inbox, or your own application
    #[arg(long, value_name = "URL", conflicts_with = "to")]
    pub(crate) url: Option<String>,
    /// Sign with this secret, or private key where the vendor has one
    #[arg(long, allow_hyphen_values = true, value_parser = Private(secret))]
    pub(crate) secret: Option<Secret>,
    /// The same from a file, which no list of processes shows
    #[arg(long, value_name = "FILE", conflicts_with = "secret", value_parser = Private(secret_in_file))]
    pub(crate) secret_file: Option<Secret>,
    /// The same from an environment variable
    #[arg(long, value_name = "NAME", conflicts_with_all = ["secret", "secret_file"], value_parser = Private(secret_in_env))]
    pub(crate) secret_env: Option<Secret>,
    /// The event's type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// The event's id, in place of a fresh one
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Send each event so many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=COPIES_MAX))]
    pub(crate) copies: u64,
    /// Send so many requests at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=CONCURRENCY_MAX))]
    pub(crate) concurrency: u64,
    /// Make so many different events
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=COPIES_MAX))]
    pub(crate) count: u64,
    /// Change the body after signing
    #[arg(long)]
    pub(crate) tamper: bool,
    /// Sign as if it were so long ago
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) age: Option<Duration>,
    /// A further setting of the provider; repeats
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = Private(setting))]
    pub(crate) settings: Vec<Setting>,
    /// The database beside which the development secrets are
    #[arg(long, value_name = "URL", env = "ONCEBOX_DATABASE", hide_env_values = true, value_parser = Private(store_url))]
    pub(crate) database: Option<StoreUrl>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Without --to a server is embedded and writes to --database, or to a temporary SQLite file.
The database fills with made-up events: never point it at one you need.

Examples:
  oncebox bench
  oncebox bench --database postgres://postgres@localhost/bench --seconds 20
  oncebox bench --duplicates 0.5 --body-size 4KiB
  oncebox bench --to http://127.0.0.1:8080/in/stripe")]
pub(crate) struct BenchArgs {
    /// The embedded server's database; ONCEBOX_DATABASE is not read here on purpose
    #[arg(long, value_name = "URL", conflicts_with = "to", value_parser = Private(store_url))]
    pub(crate) database: Option<StoreUrl>,
    /// A running server's stripe source, or its base URL
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
    /// The secret of that source; without it the development secret in this folder
    #[arg(long, requires = "to", value_parser = Private(secret))]
    pub(crate) secret: Option<Secret>,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=CONCURRENCY_MAX))]
    pub(crate) connections: u64,
    /// How long a round lasts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// The share of requests that repeat an earlier event
    #[arg(long, value_name = "SHARE", default_value = "0.0", value_parser = share)]
    pub(crate) duplicates: f64,
    /// The size of each body
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = size)]
    pub(crate) body_size: usize,
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) rounds: u64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
