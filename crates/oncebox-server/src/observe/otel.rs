//! Our spans, sent to a collector by OTLP over HTTP. Only in programs built with the feature `otel`.
//!
//! A layer of our own turns spans of the one target into OpenTelemetry's: the field `traceparent` names a parent in
//! another process, which a library cannot hand over otherwise, and every outgoing call asks for the span it is made in.
//! The exporter works on a thread of its own and calls with our own client.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use oncebox::gateway::outgoing::{Call, Outgoing, Target};
use oncebox::gateway::trace::{TARGET, Traceparent};
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, TraceContextExt as _, TraceFlags, TraceId, TraceState, Tracer as _,
    TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::{Layer, layer};

use crate::config::telemetry::TelemetryConfig;
use crate::config::web;

/// How long one call to the collector, and the last one at the end, may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// The running export. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Export(SdkTracerProvider);

impl Export {
    /// Starts it; none where no collector is named.
    pub(crate) fn start(config: &TelemetryConfig) -> anyhow::Result<Option<Self>> {
        let Some(url) = &config.otlp else { return Ok(None) };
        let endpoint = format!("{}/v1/traces", url.uri().to_string().trim_end_matches('/'));
        let client = Client::new(config).context("telemetry.otlp")?;
        let exporter =
            SpanExporter::builder().with_http().with_http_client(client).with_endpoint(endpoint).with_timeout(DEADLINE);
        let exporter = exporter.build().context("telemetry.otlp")?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name("oncebox").with_attribute(version).build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        Ok(Some(Self(provider)))
    }

    /// What turns our spans into OpenTelemetry's.
    pub(crate) fn layer<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        let spans = Spans(self.0.tracer("oncebox"));
        spans.with_filter(filter_fn(|metadata| metadata.target() == TARGET)).boxed()
    }

    /// Sends what is left. A collector that is away is not waited for.
    pub(crate) async fn stop(self) {
        let stopping = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(DEADLINE));
        if let Ok(Err(error)) = stopping.await {
            tracing::warn!("the last spans were not sent: {error}");
        }
    }
}

/// Where the current span is in its trace.
pub(crate) fn current() -> Option<Traceparent> {
    let found = tracing::Span::current().with_subscriber(|(id, dispatch)| {
        let span = dispatch.downcast_ref::<Registry>()?.span(id)?;
        let extensions = span.extensions();
        let own = extensions.get::<Own>()?.0.span().span_context().clone();
        own.is_valid().then(|| Traceparent {
            trace_id: own.trace_id().to_bytes(),
            span_id: own.span_id().to_bytes(),
            flags: own.trace_flags().to_u8(),
        })
    });
    found.flatten()
}

/// A span of ours as OpenTelemetry knows it.
struct Own(Context);

struct Spans(SdkTracer);

impl<S> Layer<S> for Spans
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: layer::Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let remote = fields.parent.map(|parent| Context::new().with_remote_span_context(remote(parent)));
        let above = || span.parent().and_then(|above| above.extensions().get::<Own>().map(|own| own.0.clone()));
        let parent = remote.or_else(above).unwrap_or_default();
        let kind = match span.name() {
            "ingest" => SpanKind::Server,
            "send" => SpanKind::Client,
            "attempt" => SpanKind::Consumer,
            _ => SpanKind::Internal,
        };
        let builder = self.0.span_builder(span.name()).with_kind(kind).with_attributes(fields.attributes);
        let own = parent.with_span(builder.start_with_context(&self.0, &parent));
        span.extensions_mut().insert(Own(own));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: layer::Context<'_, S>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(own) =
            context.span(id).as_ref().and_then(|span| span.extensions().get::<Own>().map(|own| own.0.clone()))
        {
            own.span().set_attributes(fields.attributes);
        }
    }

    fn on_close(&self, id: Id, context: layer::Context<'_, S>) {
        let own = context.span(&id).and_then(|span| span.extensions_mut().remove::<Own>());
        if let Some(Own(own)) = own {
            own.span().end();
        }
    }
}

fn remote(parent: Traceparent) -> SpanContext {
    let (trace, span) = (TraceId::from_bytes(parent.trace_id), SpanId::from_bytes(parent.span_id));
    SpanContext::new(trace, span, TraceFlags::new(parent.flags), true, TraceState::default())
}

/// What a span says about itself; `traceparent` is its place and no attribute.
#[derive(Default)]
struct Fields {
    parent: Option<Traceparent>,
    attributes: Vec<KeyValue>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "traceparent" {
            self.parent = Traceparent::parse(value.as_bytes());
        } else {
            self.attributes.push(KeyValue::new(field.name(), value.to_owned()));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attributes.push(KeyValue::new(field.name(), value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record_i64(field, i64::try_from(value).unwrap_or(i64::MAX));
    }
}

/// Calls the collector with our own client. The exporter's thread is none of the runtime's, so the call is made on it.
struct Client {
    client: Outgoing,
    headers: HeaderMap,
    runtime: tokio::runtime::Handle,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    fn new(config: &TelemetryConfig) -> anyhow::Result<Self> {
        let (client, headers) = (web::client(&[])?, config.headers.clone());
        Ok(Self { client, headers, runtime: tokio::runtime::Handle::current() })
    }

    fn call(&self, request: Request<Bytes>) -> Result<Call, HttpError> {
        let target = Target::parse(&request.uri().to_string())?;
        let (head, body) = request.into_parts();
        let mut headers = head.headers;
        headers.extend(self.headers.clone());
        Ok(Call { method: head.method, target, headers, body, deadline: DEADLINE })
    }
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Client {
    fn send_bytes<'a, 'b>(&'a self, request: Request<Bytes>) -> Sending<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        let call = self.call(request);
        let (client, runtime) = (self.client.clone(), self.runtime.clone());
        Box::pin(async move {
            let call = call?;
            let answer = runtime.spawn(async move { client.send(call).await }).await??;
            let mut response = Response::new(answer.body);
            (*response.status_mut(), *response.headers_mut()) = (answer.status, answer.headers);
            Ok(response)
        })
    }
}
