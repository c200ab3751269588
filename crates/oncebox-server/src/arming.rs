//! Waiting for a secret that a handshake brings, after a source was armed.
//!
//! The row in the database tells: it is armed until a handshake on any node was taken. Where the vendor wants the secret
//! typed in as well (Notion), whoever armed and waited gets it in that one answer. It is never logged, and there is no
//! other way to ask for it.

pub(crate) mod arrived_secrets;

use std::time::{Duration, Instant};

use oncebox::gateway::store::{ARMED_FOR_MS, Store, StoreError};
use oncebox_verify::Secret;
use serde::{Deserialize, Serialize};

/// The longest that anybody may wait: a source is armed for no longer.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(ARMED_FOR_MS.unsigned_abs());
const POLL_EVERY: Duration = Duration::from_millis(250);

/// What became of an arming. Without `Debug`, since it may hold the secret.
#[derive(Clone, Deserialize, Serialize, utoipa::ToSchema)]
pub(crate) struct ArmingView {
    /// The source.
    pub(crate) source: String,
    /// True while the next handshake's secret will be taken.
    pub(crate) armed: bool,
    /// The secret where a person must type it in at the vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

impl ArmingView {
    pub(crate) fn armed(source: &str) -> Self {
        Self { source: source.to_owned(), armed: true, secret: None }
    }

    /// A source whose secret came; `shown` is it, where a person has to see it.
    pub(crate) fn arrived(source: &str, shown: Option<&Secret>) -> Self {
        let text = shown.map(|secret| String::from_utf8_lossy(secret.expose()).into_owned());
        Self { source: source.to_owned(), armed: false, secret: text }
    }
}

/// Waits until an armed source got its secret, which is returned sealed; none when nothing came.
pub(crate) async fn arrival(
    store: &Store,
    source: &str,
    patience: Duration,
    gives_up: impl Fn() -> bool,
) -> Result<Option<Vec<u8>>, StoreError> {
    let started = Instant::now();
    loop {
        let known = store.arrived_secrets().await?;
        let taken = known.into_iter().find(|known| known.source == source && !known.armed);
        if let Some(sealed) = taken.and_then(|taken| taken.sealed) {
            return Ok(Some(sealed));
        }
        if gives_up() || started.elapsed() >= patience {
            return Ok(None);
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}
