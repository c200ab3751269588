//! `[telemetry]`: where traces go. The log and the metrics need no setting.

use http::HeaderMap;
use oncebox::gateway::outgoing::Target;

use super::reader::Table;
use super::web;

#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "without traces it is only checked"))]
pub(crate) struct TelemetryConfig {
    /// The collector's base URL, OTLP over HTTP; none sends nothing.
    pub(crate) otlp: Option<Target>,
    pub(crate) headers: HeaderMap,
}

impl TelemetryConfig {
    pub(crate) fn read(mut table: Table<'_>) -> Self {
        let otlp = table.take("otlp");
        if let Some(item) = otlp.as_ref().filter(|_| !cfg!(feature = "otel")) {
            let cure = "build with `cargo build --features otel`, or remove it";
            item.problem("this oncebox was built without traces", cure);
        }
        let telemetry = Self {
            otlp: otlp.and_then(|item| web::target_url(&item, &[], "traces")),
            headers: web::headers(&mut table),
        };
        table.finish();
        telemetry
    }
}
