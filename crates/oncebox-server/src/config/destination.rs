//! `[[destination]]`: where the outbox may send.

use std::time::Duration;

use http::HeaderMap;
use oncebox::RetryPolicy;
use oncebox::gateway::lane::rate::Rate;
use oncebox::gateway::outgoing::forward::SigningKey;
use oncebox::gateway::outgoing::{AddressRange, Target};

use super::handler::read_retry;
use super::reader::Table;
use super::{name, web};

const CONCURRENCY_MAX: usize = 4096;
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug)]
pub(crate) struct DestinationConfig {
    pub(crate) name: String,
    /// Where; a message may add a path below it.
    pub(crate) url: Target,
    pub(crate) headers: HeaderMap,
    pub(crate) rate: Option<Rate>,
    pub(crate) timeout: Duration,
    pub(crate) concurrency: usize,
    pub(crate) retry: RetryPolicy,
    /// Statuses that are tried again though they look permanent.
    pub(crate) retry_on: Vec<u16>,
    pub(crate) signing: Option<SigningKey>,
    /// Link-local addresses it may reach.
    pub(crate) allow: Vec<AddressRange>,
    /// `order = "key"`: messages of one key go out one after the other.
    pub(crate) ordered_by_key: bool,
}

impl DestinationConfig {
    pub(crate) fn read(mut table: Table<'_>) -> Option<Self> {
        let name = name::other(&mut table);
        let (url, allow) = web::target(&mut table, "write url = \"https://crm.example.com/\"");
        let timeout = table.duration("timeout", Duration::from_millis(1)..=TIMEOUT_MAX);
        let (headers, rate, signing) = (web::headers(&mut table), web::rate(&mut table), web::signing(&mut table));
        let concurrency = table.count("concurrency", 1..=CONCURRENCY_MAX).unwrap_or(16);
        let (retry, retry_on) = (read_retry(table.section("retry")), read_retry_on(&mut table));
        let ordered_by_key = table.word("order", &[("key", true)]).unwrap_or(false);
        table.finish();
        Some(Self {
            name: name?.to_owned(),
            url: url?,
            headers,
            rate,
            timeout: timeout.unwrap_or(Duration::from_secs(10)),
            concurrency,
            retry,
            retry_on,
            signing,
            allow,
            ordered_by_key,
        })
    }
}

fn read_retry_on(table: &mut Table<'_>) -> Vec<u16> {
    let list = table.take("retry_on").and_then(|item| item.list()).unwrap_or_default();
    list.iter().filter_map(|item| item.count(400..=599)).collect()
}
