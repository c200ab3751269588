//! From a handler's config to what the workers run.

use std::sync::Arc;

use anyhow::Context as _;
use oncebox::Clock;
use oncebox::gateway::outgoing::{AddressRange, Outgoing, Policy, Settings};
use oncebox::gateway::worker::handler::{HandlerSpec, Work};

use crate::config::handler::{HandlerConfig, HandlerKind, HttpHandler};
use crate::observe::spans;
use crate::serve::http_target::{HttpTarget, LogTarget};

/// Builds handlers; one client serves all that may reach the same addresses.
#[derive(Debug)]
pub(crate) struct Builder {
    clock: Clock,
    clients: Vec<(Vec<AddressRange>, Outgoing)>,
}

impl Builder {
    /// One without clients.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, clients: Vec::new() }
    }

    /// Builds all handlers, or none.
    pub(crate) fn build(&mut self, configs: &[HandlerConfig]) -> anyhow::Result<Vec<HandlerSpec>> {
        configs.iter().map(|config| self.one(config).with_context(|| format!("handler {}", config.name()))).collect()
    }

    fn one(&mut self, config: &HandlerConfig) -> anyhow::Result<HandlerSpec> {
        let (work, rate) = match &config.kind {
            HandlerKind::Sql(sql, ..) => (Work::Sql(sql.clone()), None),
            HandlerKind::Http(http) => (Work::Call(Arc::new(self.http(http)?)), http.rate),
            HandlerKind::Pull => (Work::Pull, None),
            HandlerKind::Log => (Work::Call(Arc::new(LogTarget)), None),
        };
        Ok(HandlerSpec {
            name: config.route.handler.clone(),
            work,
            lease: config.lease,
            retry: config.retry,
            concurrency: config.concurrency,
            rate,
            order: config.order.clone(),
        })
    }

    fn http(&mut self, http: &HttpHandler) -> anyhow::Result<HttpTarget> {
        Ok(HttpTarget {
            client: self.client(&http.allow)?,
            url: http.url.clone(),
            timeout: http.timeout,
            signing: http.signing.clone(),
            clock: self.clock.clone(),
        })
    }

    /// The client for these addresses.
    pub(crate) fn client(&mut self, allow: &[AddressRange]) -> anyhow::Result<Outgoing> {
        if let Some((_, client)) = self.clients.iter().find(|(known, _)| known == allow) {
            return Ok(client.clone());
        }
        let policy = Policy::Operator { allow: allow.to_vec() };
        let mut client = Outgoing::new(Settings::new(policy)).context("cannot set up TLS")?;
        if let Some(carrier) = spans::carrier() {
            client = client.carrying(carrier);
        }
        self.clients.push((allow.to_vec(), client.clone()));
        Ok(client)
    }
}
