//! All that the screens are made from, handed to whoever asks: a JSON route or a page.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use oncebox::Clock;
use oncebox::gateway::store::Store;
use oncebox_verify::Source;

use crate::config::server::ServerConfig;
use crate::observe::rejections::Rejections;
use crate::observe::traffic::Traffic;
use crate::setup::Setup;

/// Where `oncebox dev` listens unless it is told otherwise.
pub(crate) const DEFAULT_BASE: &str = "http://127.0.0.1:8080";

/// The sender whose samples are shown where there is a choice.
const FAVOURITE: &str = "stripe";
/// Settings that `oncebox send` fills in by itself.
const FILLED_IN: [&str; 2] = ["public_url", "verify_token"];

/// What a running server knows. Cheap to make.
#[derive(Clone, Debug)]
pub(crate) struct QueryContext {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) setup: Arc<Setup>,
    /// The last hour of this node.
    pub(crate) traffic: Traffic,
    pub(crate) rejections: Rejections,
    pub(crate) public: PublicPlace,
}

#[derive(Clone, Debug)]
pub(crate) struct PublicPlace {
    /// By senders, without a slash at the end.
    pub(crate) url: Option<String>,
    address: SocketAddr,
    /// What `oncebox send` needs to find the secrets, where `oncebox dev` made them.
    dev_option: Option<String>,
}

impl PublicPlace {
    /// As the config has it, of a listener at this address.
    pub(crate) fn of(config: &ServerConfig, address: SocketAddr) -> Self {
        Self { url: config.public_url.clone(), address, dev_option: config.dev_option.clone() }
    }

    /// Nowhere: no listener is asked.
    pub(crate) fn unknown() -> Self {
        Self { url: None, address: (Ipv4Addr::LOCALHOST, 0).into(), dev_option: None }
    }

    /// The URL; where none is configured, that by which this machine reaches it.
    fn base(&self) -> String {
        self.url.clone().unwrap_or_else(|| format!("http://{}", reachable(self.address)))
    }
}

impl QueryContext {
    pub(crate) fn url_of(&self, source: &str) -> String {
        format!("{}/in/{source}", self.public.base())
    }

    /// A command that sends a signed sample to any source; none where no source has one.
    pub(crate) fn sample(&self) -> Option<String> {
        let mut sources: Vec<&Arc<Source>> = self.setup.sources.values().collect();
        sources.sort_by_key(|source| (source.provider() != FAVOURITE, source.name()));
        sources.into_iter().find_map(|source| self.sample_of(source))
    }

    /// A command that sends a signed sample to a source; none for a sender that only its own config describes.
    pub(crate) fn sample_of(&self, source: &Source) -> Option<String> {
        let (provider, description) = (source.provider(), source.description());
        if provider == "custom" {
            return None;
        }
        let base = self.public.base();
        if let Some(option) = &self.public.dev_option {
            let to = if base == DEFAULT_BASE { String::new() } else { format!(" --to {base}") };
            return Some(format!("oncebox send {provider}{to}{option}"));
        }
        // Where nothing is signed, the token goes where a secret goes.
        let token = if source.has_path_token() && !description.needs_path_token() { "/$TOKEN" } else { "" };
        let mut command =
            format!("oncebox send {provider} --to {base}/in/{}{token} --secret \"$SECRET\"", source.name());
        for name in description.facts().settings.iter().filter(|name| !FILLED_IN.contains(name)) {
            command.push_str(&format!(" --set {name}=…"));
        }
        Some(command)
    }
}

/// The address under which this machine reaches a listener: one on every address is on loopback, too.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() { (Ipv4Addr::LOCALHOST, address.port()).into() } else { address }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_reached_on_loopback() {
        for (listen, expected) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("10.0.0.1:80", "10.0.0.1:80"),
        ] {
            assert_eq!(reachable(listen.parse().expect("an address")).to_string(), expected);
        }
    }
}
