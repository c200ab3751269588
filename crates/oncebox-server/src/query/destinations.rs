//! What is to be said about destinations: whether anybody serves them, and which are spared because nobody is there.
//!
//! A running server knows both. Without one, the config says what is served; without a config, whatever a node ever served
//! counts, and who is spared nobody knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oncebox::gateway::clock::UnixMillis;
use oncebox::gateway::relay::Spared;
use oncebox::gateway::store::Store;

use super::names::{Configured, listed};
use super::{QueryError, Result};
use crate::query::view::{DestinationStats, time};

/// Which destinations are served and which of them are spared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Destinations {
    served: BTreeSet<String>,
    spared: BTreeMap<Arc<str>, UnixMillis>,
}

impl Destinations {
    /// As a server sees them.
    pub(crate) fn of_server(served: &[String], spared: &Spared) -> Self {
        Self { served: served.iter().cloned().collect(), spared: spared.list() }
    }

    /// As far as the config tells, else the database.
    pub(crate) async fn of_database(store: &Store, configured: Option<&Configured>) -> Result<Self> {
        let served = match configured {
            Some(names) => names.destinations.clone(),
            None => store.destinations().await?,
        };
        Ok(Self { served: served.into_iter().collect(), spared: BTreeMap::new() })
    }

    /// True when its messages can go out.
    pub(crate) fn serves(&self, destination: &str) -> bool {
        self.served.contains(destination)
    }

    /// Why a message waits, where it is not for its turn alone.
    pub(crate) fn why_waiting(&self, destination: &str, state: &str) -> Option<String> {
        if state != "ready" {
            None
        } else if !self.serves(destination) {
            Some(format!("destination {destination:?} is not configured: add it, or discard the message"))
        } else {
            let until = self.spared.get(destination)?;
            Some(format!("destination {destination:?} is out of reach: spared until {}", time(*until)))
        }
    }

    /// What a person should look at: destinations that have messages and are not served, and those that are spared.
    pub(crate) fn stats<'a>(&self, with_waiting: impl Iterator<Item = &'a str>) -> Vec<DestinationStats> {
        let unserved = with_waiting.filter(|name| !self.serves(name)).map(str::to_owned);
        let names: BTreeSet<String> = unserved.chain(self.spared.keys().map(ToString::to_string)).collect();
        let one = |destination: String| DestinationStats {
            is_configured: self.serves(&destination),
            spared_until: self.spared.get(destination.as_str()).map(|until| time(*until)),
            destination,
        };
        names.into_iter().map(one).collect()
    }

    /// Refuses a name that neither the config nor the database knows.
    pub(crate) async fn check(&self, store: &Store, name: Option<&str>) -> Result<()> {
        let Some(name) = name.filter(|name| !self.serves(name)) else { return Ok(()) };
        let mut known = store.destinations().await?;
        known.extend(store.outbox_depths().await?.into_iter().map(|depth| depth.name));
        known.extend(self.served.iter().cloned());
        if known.iter().any(|one| one == name) {
            return Ok(());
        }
        Err(QueryError::Bad(format!("there is no destination `{name}`; {}", listed(known))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(destination: &str, state: &str, expected: Option<&str>) {
        let served = ["crm", "away"].map(str::to_owned).into();
        let destinations = Destinations { served, spared: BTreeMap::from([("away".into(), 0)]) };
        let why = destinations.why_waiting(destination, state);
        assert_eq!(why.as_deref(), expected, "{destination} {state}");
    }

    #[test]
    fn a_message_says_why_it_waits() {
        check("crm", "ready", None);
        check("typo", "ready", Some("destination \"typo\" is not configured: add it, or discard the message"));
        check("typo", "dead", None);
        let away = "destination \"away\" is out of reach: spared until 1970-01-01T00:00:00.000Z";
        check("away", "ready", Some(away));
    }
}
