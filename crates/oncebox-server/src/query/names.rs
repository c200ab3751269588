//! Whether a source or handler that somebody names is there at all: a misspelt one would answer "nothing", which reads
//! like good news.
//!
//! What is not configured any more and still has events or deliveries counts as known.

use oncebox::gateway::delivery::routing::Routes;
use oncebox::gateway::limits::LEDGER_EXAMINED_MAX;
use oncebox::gateway::store::Store;

use super::{QueryError, Result};

#[derive(Clone, Debug, Default)]
pub(crate) struct Configured {
    pub(crate) sources: Vec<String>,
    pub(crate) handlers: Vec<String>,
    pub(crate) destinations: Vec<String>,
    /// Which handler wants what; none where the config is wrong about one.
    pub(crate) routes: Option<Routes>,
}

/// Refuses names that nobody knows. Without a config at hand only the database is asked, and a source that never sent
/// anything is not in it.
pub(crate) async fn check(
    store: &Store,
    configured: Option<&Configured>,
    source: Option<&str>,
    handler: Option<&str>,
) -> Result<()> {
    if let Some(handler) = handler {
        check_handler(store, configured.map_or(&[], |names| &names.handlers), handler).await?;
    }
    match source {
        Some(source) => check_source(store, configured.map(|names| names.sources.as_slice()), source).await,
        None => Ok(()),
    }
}

/// The sources that an id may belong to: those that ever sent something that is remembered, configured or not.
pub(super) async fn sources(store: &Store) -> Result<Vec<String>> {
    Ok(store.ledger_rows(LEDGER_EXAMINED_MAX).await?.by_source.into_iter().map(|(source, _)| source).collect())
}

async fn check_handler(store: &Store, configured: &[String], handler: &str) -> Result<()> {
    if has(configured, handler) {
        return Ok(());
    }
    let mut known: Vec<String> = store.handlers().await?.into_iter().map(|record| record.facts.name).collect();
    if !has(&known, handler) {
        known.extend(store.depths(1).await?.into_iter().map(|depth| depth.name));
    }
    if has(&known, handler) {
        return Ok(());
    }
    known.extend_from_slice(configured);
    Err(QueryError::Bad(format!("there is no handler `{handler}`; {}", listed(known))))
}

async fn check_source(store: &Store, configured: Option<&[String]>, source: &str) -> Result<()> {
    if configured.is_some_and(|names| has(names, source)) {
        return Ok(());
    }
    let mut known = store.sources_seen().await?;
    known.extend(sources(store).await?);
    if has(&known, source) {
        return Ok(());
    }
    let Some(configured) = configured else {
        return Err(QueryError::Missing(format!("there is no event of a source `{source}`; {}", listed(known))));
    };
    known.extend_from_slice(configured);
    Err(QueryError::Bad(format!("there is no source `{source}`; {}", listed(known))))
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|one| one == name)
}

pub(super) fn listed(mut names: Vec<String>) -> String {
    names.sort();
    names.dedup();
    if names.is_empty() { "there is none yet".to_owned() } else { format!("there are: {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_once_and_in_order() {
        let names = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(listed(names(&["b", "a", "b"])), "there are: a, b");
        assert_eq!(listed(Vec::new()), "there is none yet");
    }
}
