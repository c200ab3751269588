//! What can be seen of the server: logs, spans, metrics, and the numbers of the last hour.

pub(crate) mod clock_skew;
pub(crate) mod diagnosis;
pub(crate) mod gauges;
pub(crate) mod json_lines;
pub(crate) mod line_writer;
#[cfg(feature = "otel")]
pub(crate) mod otel;
pub(crate) mod rejections;
pub(crate) mod series;
pub(crate) mod spans;
pub(crate) mod telemetry;
pub(crate) mod traffic;
