//! Asking everything to stop, and waiting until it has.

use tokio_util::sync::CancellationToken;

/// A request to stop, shared by all tasks. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// Nobody has asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everybody to stop.
    pub fn request(&self) {
        self.0.cancel();
    }

    /// True once somebody asked.
    pub fn requested(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until somebody asks.
    pub async fn wait(&self) {
        self.0.cancelled().await;
    }
}
