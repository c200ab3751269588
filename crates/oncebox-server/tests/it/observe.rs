//! What the server says about itself: alerts, metrics, traces.

mod alerts;
mod metrics;
#[cfg(feature = "otel")]
mod otel;
pub(crate) mod trace;
