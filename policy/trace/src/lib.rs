//! Spans and log lines that go to a collector by OTLP, where the standard variables name one: `OTEL_EXPORTER_OTLP_ENDPOINT` and
//! its like for traces and logs alone. Without them nothing is made, queued or sent.
//!
//! A span is told when its work has ended, with the place in the trace that came along with the work: nothing is kept in threads or
//! tasks meanwhile. Must never wait for a collector: what finds the queue full, and what a collector does not take, is dropped
//! and counted. Must never tell what the log would not.

mod client;
mod queue;

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use mfaas_ident::TraceParent;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use opentelemetry_sdk::trace::SpanData;

pub use client::ClientError;
use client::CollectorClient;
use queue::{LogQueue, SpanQueue};

/// The collector of all signals, and how long it may take.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
/// Whoever sends what is queued would add to it by logging.
const OWN_TARGETS: [&str; 6] = ["opentelemetry", "hyper", "reqwest", "rustls", "h2", "tower"];

/// Variables of the OpenTelemetry specification that programs obey, which `mfaas up` hands on.
pub const VARIABLES: [&str; 16] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BLRP_SCHEDULE_DELAY",
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    "SSL_CERT_FILE",
];

static TELEMETRY: OnceLock<Telemetry> = OnceLock::new();

/// What this process sends with.
struct Telemetry {
    spans: Option<SpanQueue>,
    logs: Option<Logs>,
}

/// Lines of the log, on their way.
struct Logs {
    provider: SdkLoggerProvider,
    bridge: LogBridge,
}

/// Takes events of the log.
pub type LogBridge = OpenTelemetryTracingBridge<SdkLoggerProvider, SdkLogger>;

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A variable of OTLP does not say what it should.
    #[error("OTEL_EXPORTER_OTLP_…: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// There is no client for it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Work that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// What was done, for example `build`.
    pub name: &'static str,
    /// When it began.
    pub began: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
    /// What it was done with or for: names of ours.
    pub attributes: &'a [(&'static str, String)],
}

/// Begins to send what the variables name a collector for, in the name of this program, which has installed its TLS provider.
/// Called once.
pub fn start(program: &str) -> Result<(), TraceError> {
    let [spans, logs] = have_collectors(|name| std::env::var(name).ok());
    if !spans && !logs {
        return Ok(());
    }
    let client = CollectorClient::start()?;
    let resource = Resource::builder().with_service_name(program.to_owned()).build();
    let telemetry = Telemetry {
        spans: spans.then(|| span_queue(&client, &resource)).transpose()?,
        logs: logs.then(|| log_sender(&client, resource)).transpose()?,
    };
    // A process has one.
    let _ = TELEMETRY.set(telemetry);
    Ok(())
}

/// Whether spans and whether lines have one. The library's exporters send to this machine where nothing is set, also if the other
/// signal has a collector.
fn have_collectors(variable: impl Fn(&str) -> Option<String>) -> [bool; 2] {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let is_disabled = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"]
        .map(|of_signal| !is_disabled && (is_set(ENDPOINT) || is_set(of_signal)))
}

fn span_queue(client: &CollectorClient, resource: &Resource) -> Result<SpanQueue, TraceError> {
    let client = client.waiting(["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", TIMEOUT]);
    let exporter = SpanExporter::builder().with_http().with_http_client(client);
    Ok(SpanQueue::new(exporter.with_protocol(Protocol::HttpBinary).build()?, resource))
}

fn log_sender(client: &CollectorClient, resource: Resource) -> Result<Logs, TraceError> {
    let client = client.waiting(["OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", TIMEOUT]);
    let exporter = LogExporter::builder().with_http().with_http_client(client);
    let queue = LogQueue::new(exporter.with_protocol(Protocol::HttpBinary).build()?);
    let provider = SdkLoggerProvider::builder().with_resource(resource).with_log_processor(queue).build();
    Ok(Logs { bridge: OpenTelemetryTracingBridge::new(&provider), provider })
}

/// What takes spans, if they go anywhere.
fn spans() -> Option<&'static SpanQueue> {
    TELEMETRY.get().and_then(|telemetry| telemetry.spans.as_ref())
}

/// Whether spans go anywhere: without, nobody need ask for a place in a trace.
pub fn is_on() -> bool {
    spans().is_some()
}

/// A place in a trace of its own, of which the spans are kept.
pub fn new_trace() -> TraceParent {
    let span = new_span_id();
    // A random id is never of zeros: version and variant are bits of it.
    TraceParent::new(*uuid::Uuid::new_v4().as_bytes(), span, true)
        .unwrap_or_else(|| unreachable!("a random UUID has a version"))
}

/// Tells of work below that place in a trace, if its spans are kept.
pub fn record(parent: &TraceParent, work: Work<'_>) {
    tell(parent, new_span_id(), SpanId::from_bytes(parent.span()), work);
}

/// Tells of the work that is that place itself, for whoever made it: what others did hangs under it.
pub fn record_root(place: &TraceParent, above: Option<&TraceParent>, work: Work<'_>) {
    let above = above.map_or(SpanId::INVALID, |above| SpanId::from_bytes(above.span()));
    tell(place, place.span(), above, work);
}

/// A place below `parent` in its trace.
pub fn below(parent: &TraceParent) -> TraceParent {
    TraceParent::new(parent.trace(), new_span_id(), parent.is_sampled()).unwrap_or(*parent)
}

fn new_span_id() -> [u8; 8] {
    let random = uuid::Uuid::new_v4().into_bytes();
    let mut id = [0; 8];
    // With the version's bits, so that it is never of zeros.
    id.copy_from_slice(&random[..8]);
    id
}

fn tell(place: &TraceParent, id: [u8; 8], above: SpanId, work: Work<'_>) {
    let Some(spans) = spans().filter(|_| place.is_sampled()) else { return };
    let (trace, id) = (TraceId::from_bytes(place.trace()), SpanId::from_bytes(id));
    let attributes = work.attributes.iter().map(|(name, value)| KeyValue::new(*name, value.clone()));
    spans.add(SpanData {
        span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default()),
        parent_span_id: above,
        parent_span_is_remote: above != SpanId::INVALID,
        span_kind: SpanKind::Internal,
        name: work.name.into(),
        start_time: work.began,
        end_time: work.ended,
        attributes: attributes.collect(),
        dropped_attributes_count: 0,
        events: Default::default(),
        links: Default::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("mfaas").build(),
    });
}

/// What sends lines of the log, too, if there is a collector; whoever owns the log filters them by [`is_of_the_sender`].
pub fn log_bridge() -> Option<&'static LogBridge> {
    TELEMETRY.get().and_then(|telemetry| telemetry.logs.as_ref()).map(|logs| &logs.bridge)
}

/// Whether a line comes from what sends lines: to send it would make another one.
pub fn is_of_the_sender(target: &str) -> bool {
    OWN_TARGETS.iter().any(|own| target.starts_with(own))
}

/// Sends what is queued, for that long at most, at the end of a program.
pub fn finish(within: Duration) {
    if let Some(telemetry) = TELEMETRY.get() {
        // What was not taken is counted, and the program is at its end.
        let begin = Instant::now();
        if let Some(spans) = &telemetry.spans {
            spans.finish(within);
        }
        if let Some(logs) = &telemetry.logs {
            let _ = logs.provider.shutdown_with_timeout(within.saturating_sub(begin.elapsed()));
        }
    }
}

#[cfg(test)]
mod tests;
