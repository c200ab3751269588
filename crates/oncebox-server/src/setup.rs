//! What a running server goes by: sources, routes and limits, replaced as a whole by a reload.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use oncebox::gateway::delivery::routing::Routes;
use oncebox::gateway::outgoing::AddressRange;
use oncebox_verify::Source;

/// What a reload replaces: all or nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) sources: HashMap<String, Arc<Source>>,
    /// Sources as the config has them, without secrets that arrived.
    pub(crate) configured: HashMap<String, Arc<Source>>,
    /// Where the requests of a source come from; from anywhere unless it is listed here.
    pub(crate) allow_from: HashMap<String, Vec<AddressRange>>,
    /// The secrets that arrived and are in use, sealed, by source.
    pub(crate) arrived: HashMap<String, Vec<u8>>,
    pub(crate) routes: Routes,
    /// The handlers that our own workers run; the others are pulled.
    pub(crate) run_here: HashSet<String>,
    /// Whether the ledger's memory may be shorter than the senders' retries.
    pub(crate) retention_forced: bool,
    pub(crate) destinations: Vec<String>,
    /// The body limit of sources that set none, in bytes.
    pub(crate) body_bytes_max: usize,
}

impl Setup {
    /// The sources that verify nothing, by name.
    pub(crate) fn unverified(&self) -> Vec<String> {
        let unverified = self.sources.values().filter(|source| source.is_unverified());
        let mut names: Vec<String> = unverified.map(|source| source.name().to_owned()).collect();
        names.sort();
        names
    }

    /// Whether requests of a source may come from this address.
    pub(crate) fn allows(&self, source: &str, remote: Option<IpAddr>) -> bool {
        let Some(ranges) = self.allow_from.get(source) else { return true };
        remote.is_some_and(|remote| ranges.iter().any(|range| range.contains(remote)))
    }
}
