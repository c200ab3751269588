//! Logs and metrics. Logs go to standard error: JSON lines, or text on a terminal. The level comes from `ONCEBOX_LOG`.

use std::io::IsTerminal;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use oncebox::gateway::trace::TARGET;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::config::server::LogFormat;
use crate::observe::json_lines::JsonLines;
use crate::observe::line_writer::{LastLines, LineWriter};
use crate::observe::spans::Spans;

/// Bounds of the acknowledgement histogram, in seconds: from one quick flush to a sender's deadline.
const ACK_BUCKETS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Bounds of the handlers' histogram, in seconds: from a row in a batch to a call that runs into its deadline.
const HANDLER_BUCKETS: &[f64] =
    &[0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Starts logging, and spans where somebody wants them. A filter that cannot be read falls back to `info`.
pub(crate) fn init_logs(format: LogFormat, filter: &str, spans: &Spans) -> anyhow::Result<LastLines> {
    // Spans are none of the log's business.
    let guarded = |filter: &str| format!("{filter},{TARGET}=off");
    let filter = EnvFilter::try_new(guarded(filter)).unwrap_or_else(|_| EnvFilter::new(guarded("info")));
    let filter = filter.and(filter_fn(shows_no_payload));
    let terminal = std::io::stderr().is_terminal();
    let (writer, last_lines) = LineWriter::start()?;
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let json = format == LogFormat::Json || (format == LogFormat::Auto && !terminal);
    let lines = if json {
        lines.event_format(JsonLines).with_filter(filter).boxed()
    } else {
        lines.with_ansi(terminal).with_target(false).with_filter(filter).boxed()
    };
    let layers: Vec<_> = spans.layer().into_iter().chain([lines]).collect();
    // A second subscriber in one process is a test's doing and harmless.
    let _ = tracing_subscriber::registry().with(layers).try_init();
    Ok(last_lines)
}

/// The database driver logs whole payloads with its statements: never below info, whatever the filter says of which part
/// of it.
fn shows_no_payload(metadata: &Metadata<'_>) -> bool {
    let (driver, _) = metadata.target().split_once("::").unwrap_or((metadata.target(), ""));
    driver != "tokio_postgres" || *metadata.level() <= Level::INFO
}

pub(crate) fn init_metrics() -> anyhow::Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full("oncebox_ack_seconds".into()), ACK_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full("oncebox_handler_seconds".into()), HANDLER_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full("oncebox_outbox_seconds".into()), HANDLER_BUCKETS)?
        .install_recorder()?;
    metrics::describe_counter!("oncebox_arrivals_total", "Events that arrived, by what became of them");
    metrics::describe_counter!("oncebox_rejections_total", "Requests that could not be verified, by reason");
    metrics::describe_counter!("oncebox_id_mismatches_total", "Events whose id differs in header and body");
    metrics::describe_counter!("oncebox_secret_matches_total", "Verified requests, by the secret that matched");
    metrics::describe_histogram!("oncebox_ack_seconds", "From a request's head to its answer");
    metrics::describe_counter!(
        "oncebox_attempts_total",
        "Attempts that ended, by handler, first or retry, and outcome"
    );
    metrics::describe_histogram!("oncebox_handler_seconds", "How long a handler works on one delivery");
    metrics::describe_gauge!("oncebox_deliveries", "Deliveries that wait, are claimed or are stopped");
    metrics::describe_gauge!("oncebox_oldest_ready_seconds", "How long the oldest ready delivery has been due");
    metrics::describe_gauge!("oncebox_destination_spared", "1 while a destination is out of reach and spared");
    metrics::describe_gauge!("oncebox_outbox", "Outbox messages that wait, are claimed or are dead");
    metrics::describe_counter!(
        "oncebox_outbox_attempts_total",
        "Attempts to send a message that ended, by destination, first or retry, and outcome"
    );
    metrics::describe_histogram!("oncebox_outbox_seconds", "How long a destination takes to answer");
    metrics::describe_counter!("oncebox_purged_total", "Rows that retention removed, by table");
    metrics::describe_gauge!("oncebox_build_info", "Always 1; its labels say which program this is");
    metrics::describe_gauge!(
        "oncebox_clock_skew_seconds",
        "How far our clock is ahead of the database's and of the times that senders sign"
    );
    metrics::describe_gauge!("oncebox_ledger_rows", "Identities remembered, by source");
    let upkeep = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}
