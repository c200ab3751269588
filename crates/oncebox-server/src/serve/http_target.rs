//! The targets of handlers: the user's application over HTTP, or the log.

use std::time::Duration;

use oncebox::Clock;
use oncebox::gateway::delivery::Failed;
use oncebox::gateway::outgoing::forward::{self, Answered, SigningKey};
use oncebox::gateway::outgoing::masks::Masks;
use oncebox::gateway::outgoing::{self, Outgoing};
use oncebox::gateway::store::Claimed;
use oncebox::gateway::worker::handler::{CallError, Target, Working};

#[derive(Debug)]
pub(crate) struct HttpTarget {
    pub(crate) client: Outgoing,
    pub(crate) url: outgoing::Target,
    pub(crate) timeout: Duration,
    pub(crate) signing: Option<SigningKey>,
    /// The time that is signed.
    pub(crate) clock: Clock,
}

impl Target for HttpTarget {
    fn call<'a>(&'a self, event: &'a Claimed) -> Working<'a, Result<(), CallError>> {
        Box::pin(self.post(event))
    }

    fn deadline(&self) -> Duration {
        self.timeout
    }
}

impl HttpTarget {
    async fn post(&self, event: &Claimed) -> Result<(), CallError> {
        let call = forward::Call {
            key: event.key,
            handler: &event.handler,
            step: None,
            attempt: event.attempt,
            headers: &event.headers,
            body: &event.body,
        };
        let headers = call.headers(self.clock.now(), self.signing.as_ref());
        let masks = Masks::of_call(&headers, &http::HeaderMap::new());
        let answer = self.client.send(outgoing::Call {
            method: http::Method::POST,
            target: self.url.clone(),
            headers,
            body: event.body.clone(),
            deadline: self.timeout,
        });
        let answer = answer.await.map_err(unanswered)?;
        let status = answer.status.as_u16();
        match forward::judge(status, &answer.headers, self.clock.now()) {
            Answered::Done => Ok(()),
            Answered::Failed { retry_after, reached } => Err(CallError {
                error: forward::refusal(answer.status, &masks.apply(answer.body)),
                status: Some(status),
                failed: Failed::Transient { retry_after },
                reached,
            }),
        }
    }
}

/// Writes events to the log; only in development.
#[derive(Debug)]
pub(crate) struct LogTarget;

impl Target for LogTarget {
    fn call<'a>(&'a self, event: &'a Claimed) -> Working<'a, Result<(), CallError>> {
        let Claimed { source, event_id, key, event_type, body, .. } = event;
        tracing::info!(source, event_id, %key, r#type = event_type, bytes = body.len(), "event logged by its handler");
        Box::pin(std::future::ready(Ok(())))
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(1)
    }
}

fn unanswered(error: outgoing::CallError) -> CallError {
    let (failed, reached) = (Failed::Transient { retry_after: None }, forward::reached_without_answer(&error));
    CallError { error: error.to_string(), status: None, failed, reached }
}
