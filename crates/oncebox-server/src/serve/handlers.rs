//! From a handler's config to what the workers run.

use std::sync::Arc;

use anyhow::Context as _;
use oncebox::Clock;
use oncebox::RetryPolicy;
use oncebox::gateway::lane::rate::Rate;
use oncebox::gateway::outgoing::forward::SigningKey;
use oncebox::gateway::outgoing::{Outgoing, Policy, Settings, Target};
use oncebox::gateway::store::{Dialect, HandlerSql};
use oncebox::gateway::worker::handler::{HandlerSpec, Latest, OncePer, OrderRules, Otherwise, WaitFor, Work};
use oncebox_verify::BodyPointer;

use crate::config::handler::{self, HandlerConfig, HandlerKind, HttpHandler, OnDead, OrderRule, RetryConfig};
use crate::config::web::AddressRange;
use crate::observe::spans;
use crate::serve::http_target::{HttpTarget, LogTarget};

/// Builds handlers; one client serves all that may reach the same addresses.
#[derive(Debug)]
pub(crate) struct Builder {
    dialect: Dialect,
    clock: Clock,
    clients: Vec<(Vec<AddressRange>, Outgoing)>,
}

impl Builder {
    /// For handlers of a database of this kind.
    pub(crate) fn new(dialect: Dialect, clock: Clock) -> Self {
        Self { dialect, clock, clients: Vec::new() }
    }

    /// Builds all handlers, or none.
    pub(crate) fn build(&mut self, configs: &[HandlerConfig]) -> anyhow::Result<Vec<HandlerSpec>> {
        configs.iter().map(|config| self.one(config).with_context(|| format!("handler {}", config.name))).collect()
    }

    fn one(&mut self, config: &HandlerConfig) -> anyhow::Result<HandlerSpec> {
        let work = match &config.kind {
            HandlerKind::Sql(text) => Work::Sql(Arc::new(HandlerSql::parse(text, self.dialect).context("sql")?)),
            HandlerKind::Http(http) => Work::Call(Arc::new(self.http(http)?)),
            HandlerKind::Pull => Work::Pull,
            HandlerKind::Log => Work::Call(Arc::new(LogTarget)),
        };
        let rate = match &config.kind {
            HandlerKind::Http(http) => http.rate.map(|rate| Rate { count: rate.count, period: rate.period }),
            _ => None,
        };
        Ok(HandlerSpec {
            name: config.name.as_str().into(),
            work,
            lease: config.lease,
            retry: policy(&config.retry),
            concurrency: config.concurrency,
            rate,
            order: rules(config)?,
        })
    }

    fn http(&mut self, http: &HttpHandler) -> anyhow::Result<HttpTarget> {
        Ok(HttpTarget {
            client: self.client(&http.allow)?,
            url: Target::parse(&http.url).context("http.url")?,
            timeout: http.timeout,
            signing: http.secret.as_ref().map(SigningKey::new),
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

/// The policy that a config describes.
pub(crate) fn policy(retry: &RetryConfig) -> RetryPolicy {
    RetryPolicy { attempts: u32::try_from(retry.attempts).unwrap_or(u32::MAX), base: retry.base, cap: retry.cap }
}

fn rules(config: &HandlerConfig) -> anyhow::Result<OrderRules> {
    let mut rules = OrderRules::default();
    if let Some(order) = &config.order {
        match &order.rule {
            OrderRule::Latest(version) => {
                rules.latest = Some(Latest { key: pointer(&order.key)?, version: pointer(version)? });
            }
            OrderRule::Serial(on_dead) => rules.block_on_dead = *on_dead == OnDead::Block,
        }
    }
    if let Some(wait) = &config.wait_for {
        rules.wait_for = Some(WaitFor {
            event_type: wait.event_type.clone(),
            key: pointer(&wait.key)?,
            on: pointer(&wait.on)?,
            within: wait.within,
            otherwise: match wait.otherwise {
                handler::Otherwise::Run => Otherwise::Run,
                handler::Otherwise::Dead => Otherwise::Dead,
            },
        });
    }
    if let Some(once) = &config.once_per {
        let fields = once.fields.iter().map(|field| pointer(field)).collect::<Result<_, _>>()?;
        rules.once_per = Some(OncePer { fields, window: once.window });
    }
    Ok(rules)
}

fn pointer(text: &str) -> anyhow::Result<BodyPointer> {
    BodyPointer::parse(text).with_context(|| format!("{text:?} is no JSON pointer, or too deep"))
}
