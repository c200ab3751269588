//! From a destination's config to what the relay sends to.

use anyhow::Context as _;
use http::{HeaderMap, HeaderValue};
use oncebox::gateway::lane::rate::Rate;
use oncebox::gateway::outgoing::Target;
use oncebox::gateway::outgoing::forward::SigningKey;
use oncebox::gateway::relay::DestinationSpec;

use crate::config::destination::DestinationConfig;
use crate::serve::handlers::{Builder, policy};

/// Builds all destinations, or none.
pub(crate) fn build(builder: &mut Builder, configs: &[DestinationConfig]) -> anyhow::Result<Vec<DestinationSpec>> {
    configs.iter().map(|config| one(builder, config).with_context(|| format!("destination {}", config.name))).collect()
}

fn one(builder: &mut Builder, config: &DestinationConfig) -> anyhow::Result<DestinationSpec> {
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let mut value = HeaderValue::from_bytes(value.expose()).with_context(|| format!("headers.{name}"))?;
        value.set_sensitive(true);
        headers.insert(name.clone(), value);
    }
    Ok(DestinationSpec {
        name: config.name.as_str().into(),
        target: Target::parse(&config.url).context("url")?,
        client: builder.client(&config.allow)?,
        headers,
        signing: config.secret.as_ref().map(SigningKey::new),
        timeout: config.timeout,
        concurrency: config.concurrency,
        rate: config.rate.map(|rate| Rate { count: rate.count, period: rate.period }),
        retry: policy(&config.retry),
        retry_on: config.retry_on.clone(),
        ordered: config.ordered_by_key,
    })
}
