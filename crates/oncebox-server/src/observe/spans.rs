//! Spans for the rest of the program, whether it was built with them or not.

use std::sync::Arc;

use oncebox::gateway::trace::{SpanSource, Traceparent};

use crate::config::telemetry::TelemetryConfig;

/// The running export; nothing in a program that was built without it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    #[cfg(feature = "otel")]
    export: Option<crate::observe::otel::Export>,
}

/// Hands the current span to every outgoing call.
#[derive(Debug)]
struct Current;

impl SpanSource for Current {
    fn traceparent(&self) -> Option<Traceparent> {
        current()
    }
}

impl Spans {
    /// Starts the export where the config names a collector.
    pub(crate) fn start(config: &TelemetryConfig) -> anyhow::Result<Self> {
        let _ = config;
        Ok(Self {
            #[cfg(feature = "otel")]
            export: crate::observe::otel::Export::start(config)?,
        })
    }

    /// The layer that listens to our spans, if anybody wants them.
    pub(crate) fn layer<S>(&self) -> Option<Box<dyn tracing_subscriber::Layer<S> + Send + Sync>>
    where
        S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    {
        #[cfg(feature = "otel")]
        return self.export.as_ref().map(crate::observe::otel::Export::layer);
        #[cfg(not(feature = "otel"))]
        None
    }

    /// Sends what is left.
    pub(crate) async fn stop(self) {
        #[cfg(feature = "otel")]
        if let Some(export) = self.export {
            export.stop().await;
        }
    }
}

/// What outgoing calls ask for the span that they are made in; none in a program that was built without spans.
pub(crate) fn carrier() -> Option<Arc<dyn SpanSource>> {
    cfg!(feature = "otel").then(|| Arc::new(Current) as Arc<dyn SpanSource>)
}

/// The current span; none where nothing is traced.
pub(crate) fn current() -> Option<Traceparent> {
    #[cfg(feature = "otel")]
    return crate::observe::otel::current();
    #[cfg(not(feature = "otel"))]
    None
}
