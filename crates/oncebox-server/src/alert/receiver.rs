//! Whoever is told: its address, which never shows, and the call that tells it.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use oncebox::gateway::outgoing::{Call, Outgoing};

use crate::config::alert::AlertConfig;
use crate::config::web;

/// How often a notice is tried before the next look decides anew, and the first pause in between.
const TRIES_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Somebody who is told. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    pub(crate) config: AlertConfig,
    client: Outgoing,
}

impl Receiver {
    /// Builds all receivers, or none.
    pub(crate) fn all(configs: &[AlertConfig]) -> anyhow::Result<Vec<Self>> {
        configs.iter().map(|config| Ok(Self { config: config.clone(), client: web::client(&config.allow)? })).collect()
    }

    /// Sends a body, a few times if need be. The error is a sentence without the address.
    pub(crate) async fn tell(&self, body: String) -> Result<(), String> {
        let mut pause = PAUSE;
        for _ in 1..TRIES_MAX {
            if self.try_tell(body.clone()).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.try_tell(body).await
    }

    pub(crate) async fn try_tell(&self, body: String) -> Result<(), String> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        let (target, deadline) = (self.config.url.clone(), self.config.timeout);
        let call = Call { method: http::Method::POST, target, headers, body: body.into(), deadline };
        match self.client.send(call).await {
            Ok(answer) if answer.status.is_success() => Ok(()),
            Ok(answer) => Err(format!("answered {}", answer.status)),
            Err(error) => Err(error.to_string()),
        }
    }
}
