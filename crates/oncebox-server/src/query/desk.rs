//! All that the screens are made from, handed to whoever asks: a JSON route or a page.

use std::sync::Arc;

use oncebox::clock::Clock;
use oncebox::store::Store;

use crate::http::public::Setup;
use crate::rejections::Rejections;
use crate::traffic::Traffic;

/// What a running server knows. Cheap to make.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    /// The database.
    pub(crate) store: Store,
    /// The time.
    pub(crate) clock: Clock,
    /// Sources and routes of the config.
    pub(crate) setup: Arc<Setup>,
    /// The last hour of this node.
    pub(crate) traffic: Traffic,
    /// The last rejections of this node.
    pub(crate) rejections: Rejections,
    /// How senders reach the public listener.
    pub(crate) public_url: Option<String>,
}

impl Desk {
    /// Where a source's requests go; without a configured URL, the place to fill in says so.
    pub(crate) fn url_of(&self, source: &str) -> String {
        let base = self.public_url.as_deref().unwrap_or("http://PUBLIC_LISTENER");
        format!("{base}/in/{source}")
    }
}
