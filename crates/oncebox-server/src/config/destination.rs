//! `[[destination]]`: where the outbox may send.

use std::time::Duration;

use http::HeaderName;
use oncebox_verify::Secret;

use super::handler::RetryConfig;
use super::name;
use super::reader::Table;
use super::units::{Rate, parse_rate};
use super::web::{self, AddressRange};

const CONCURRENCY_MAX: usize = 4096;
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// Where the outbox may send.
#[derive(Clone, Debug)]
pub(crate) struct DestinationConfig {
    /// Its name.
    pub(crate) name: String,
    /// Where; a message may add a path below it.
    pub(crate) url: String,
    /// Headers of every call.
    pub(crate) headers: Vec<(HeaderName, Secret)>,
    /// How fast at most.
    pub(crate) rate: Option<Rate>,
    /// How long one call may take.
    pub(crate) timeout: Duration,
    /// Calls at once.
    pub(crate) concurrency: usize,
    /// When to try again and when to give up.
    pub(crate) retry: RetryConfig,
    /// Statuses that are tried again though they look permanent.
    pub(crate) retry_on: Vec<u16>,
    /// Signs each call by Standard Webhooks.
    pub(crate) secret: Option<Secret>,
    /// Link-local addresses it may reach.
    pub(crate) allow: Vec<AddressRange>,
    /// `order = "key"`: messages of one key go out one after the other.
    pub(crate) ordered_by_key: bool,
}

impl DestinationConfig {
    /// Reads one entry.
    pub(crate) fn read(mut table: Table<'_>) -> Option<Self> {
        let name = name::other(&mut table);
        let url = table.required("url", "write url = \"https://crm.example.com/\"");
        let allow = web::allow(&mut table);
        let url = url.and_then(|item| web::target_url(&item, &allow, "bodies"));
        let rate = table.take("rate").and_then(|item| item.parsed(parse_rate, "a rate such as \"50/s\" or \"100/m\""));
        let timeout = table.duration("timeout", Duration::from_millis(1)..=TIMEOUT_MAX);
        let destination = Self {
            name: name.unwrap_or_default().to_owned(),
            url: url.clone().unwrap_or_default(),
            headers: web::headers(&mut table),
            rate,
            timeout: timeout.unwrap_or(Duration::from_secs(10)),
            concurrency: table.count("concurrency", 1..=CONCURRENCY_MAX).unwrap_or(16),
            retry: RetryConfig::read(table.section("retry")),
            retry_on: read_retry_on(&mut table),
            secret: table.secret("secret"),
            allow,
            ordered_by_key: table.word("order", &[("key", true)]).unwrap_or(false),
        };
        table.finish();
        name.and(url).map(|_| destination)
    }
}

fn read_retry_on(table: &mut Table<'_>) -> Vec<u16> {
    let list = table.take("retry_on").and_then(|item| item.list()).unwrap_or_default();
    list.iter().filter_map(|item| item.count(400..=599)).filter_map(|status| u16::try_from(status).ok()).collect()
}
