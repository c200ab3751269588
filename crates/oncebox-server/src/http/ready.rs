//! Whether this node can take events in: for load balancers, on both listeners.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response};
use http_body_util::Full;
use oncebox::gateway::shutdown::Shutdown;
use oncebox::gateway::store::Store;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::problem::Problem;

/// A database that does not answer within this is not ready, whatever its own deadline.
pub(crate) const READY_WAIT: Duration = Duration::from_secs(2);
/// For how long an answer is given again: strangers ask here, and must not keep the database busy.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// Asks the database, for everybody who asks within a second once.
#[derive(Debug)]
pub(crate) struct Ready {
    store: Store,
    draining: Shutdown,
    last: Mutex<Option<(Instant, bool)>>,
}

impl Ready {
    pub(crate) fn new(store: Store, draining: Shutdown) -> Self {
        Self { store, draining, last: Mutex::default() }
    }

    /// The answer of the public listener: a word, and nothing about what is behind it.
    pub(crate) async fn answer(&self, method: &Method) -> Result<Response<Full<Bytes>>, Problem> {
        if *method != Method::GET && *method != Method::HEAD {
            return Err(Problem::method("GET, HEAD".to_owned()));
        }
        if !self.draining.requested() && self.reaches_database().await {
            return Ok(crate::http::json(r#"{"status":"ready"}"#.to_owned()));
        }
        Err(Problem::unavailable("events cannot be taken in now"))
    }

    async fn reaches_database(&self) -> bool {
        let mut last = self.last.lock().await;
        if let Some((at, answered)) = *last
            && at.elapsed() < GOOD_FOR
        {
            return answered;
        }
        let answered = matches!(tokio::time::timeout(READY_WAIT, self.store.ping()).await, Ok(Ok(_)));
        *last = Some((Instant::now(), answered));
        answered
    }
}
