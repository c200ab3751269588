//! From the config of handlers and destinations to what workers and relay run.

use std::sync::Arc;

use oncebox::Clock;
use oncebox::gateway::outgoing::{AddressRange, Outgoing};
use oncebox::gateway::relay::DestinationSpec;
use oncebox::gateway::worker::handler::{HandlerSpec, Work};

use crate::config::destination::DestinationConfig;
use crate::config::handler::{HandlerConfig, HandlerKind, HttpHandler};
use crate::config::web;
use crate::observe::spans;
use crate::serve::http_target::{HttpTarget, LogTarget};

/// Builds handlers and destinations; one client serves all that may reach the same addresses.
#[derive(Debug)]
pub(crate) struct Builder {
    clock: Clock,
    clients: Vec<(Vec<AddressRange>, Outgoing)>,
}

impl Builder {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, clients: Vec::new() }
    }

    /// Builds all handlers, or none.
    pub(crate) fn handlers(&mut self, configs: &[HandlerConfig]) -> anyhow::Result<Vec<HandlerSpec>> {
        configs.iter().map(|config| self.handler(config)).collect()
    }

    /// Builds all destinations, or none.
    pub(crate) fn destinations(&mut self, configs: &[DestinationConfig]) -> anyhow::Result<Vec<DestinationSpec>> {
        configs.iter().map(|config| self.destination(config)).collect()
    }

    fn destination(&mut self, config: &DestinationConfig) -> anyhow::Result<DestinationSpec> {
        Ok(DestinationSpec {
            name: config.name.as_str().into(),
            target: config.url.clone(),
            client: self.client(&config.allow)?,
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

    fn handler(&mut self, config: &HandlerConfig) -> anyhow::Result<HandlerSpec> {
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

    fn client(&mut self, allow: &[AddressRange]) -> anyhow::Result<Outgoing> {
        if let Some((_, client)) = self.clients.iter().find(|(known, _)| known == allow) {
            return Ok(client.clone());
        }
        let mut client = web::client(allow)?;
        if let Some(carrier) = spans::carrier() {
            client = client.carrying(carrier);
        }
        self.clients.push((allow.to_vec(), client.clone()));
        Ok(client)
    }
}
