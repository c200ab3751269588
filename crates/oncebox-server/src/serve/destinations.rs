//! From a destination's config to what the relay sends to.

use anyhow::Context as _;
use oncebox::gateway::relay::DestinationSpec;

use crate::config::destination::DestinationConfig;
use crate::serve::handlers::Builder;

/// Builds all destinations, or none.
pub(crate) fn build(builder: &mut Builder, configs: &[DestinationConfig]) -> anyhow::Result<Vec<DestinationSpec>> {
    configs.iter().map(|config| one(builder, config).with_context(|| format!("destination {}", config.name))).collect()
}

fn one(builder: &mut Builder, config: &DestinationConfig) -> anyhow::Result<DestinationSpec> {
    Ok(DestinationSpec {
        name: config.name.as_str().into(),
        target: config.url.clone(),
        client: builder.client(&config.allow)?,
        headers: config.headers.clone(),
        signing: config.signing.clone(),
        timeout: config.timeout,
        concurrency: config.concurrency,
        rate: config.rate,
        retry: config.retry,
        retry_on: config.retry_on.clone(),
        ordered: config.ordered_by_key,
    })
}
