//! What waits for the collector: bounded, and what is lost is counted. The library's own queues drop without a number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry_otlp::{LogExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchConfigBuilder as LogBatchConfig, BatchLogProcessor, LogBatch, LogProcessor, SdkLogRecord,
};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder as SpanBatchConfig, BatchSpanProcessor, SpanData, SpanProcessor,
};

/// Spans that wait, and log lines that wait, at most.
const QUEUE_MAX: usize = 2_048;
/// The library's queue is larger, so that it never drops by itself.
const LIBRARY_QUEUE: usize = 2 * QUEUE_MAX;

/// How many wait; counts what is lost.
#[derive(Debug)]
struct Waiting {
    signal: &'static str,
    count: AtomicUsize,
}

impl Waiting {
    fn new(signal: &'static str) -> Arc<Self> {
        Arc::new(Self { signal, count: AtomicUsize::new(0) })
    }

    /// Whether there is room for one more, which is counted then.
    fn enter(&self) -> bool {
        let has_room = self.count.fetch_add(1, Ordering::Relaxed) < QUEUE_MAX;
        if !has_room {
            self.count.fetch_sub(1, Ordering::Relaxed);
            self.lost("full", 1);
        }
        has_room
    }

    /// So many were given to the collector, which took them or did not.
    fn left(&self, count: usize, result: &OTelSdkResult) {
        self.count.fetch_sub(count, Ordering::Relaxed);
        if result.is_err() {
            self.lost("failed", count);
        }
    }

    fn lost(&self, reason: &'static str, count: usize) {
        metrics::describe_counter!(
            "mfaas_telemetry_dropped_total",
            "Spans and log lines that no collector got, by signal and reason."
        );
        metrics::counter!("mfaas_telemetry_dropped_total", "signal" => self.signal, "reason" => reason)
            .increment(count as u64);
    }
}

/// Spans on their way.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    waiting: Arc<Waiting>,
    batches: BatchSpanProcessor,
}

impl SpanQueue {
    pub(crate) fn new(exporter: SpanExporter, resource: &Resource) -> Self {
        let waiting = Waiting::new("spans");
        let exporter = CountingSpans { exporter, waiting: Arc::clone(&waiting) };
        let config = SpanBatchConfig::default().with_max_queue_size(LIBRARY_QUEUE).build();
        let mut batches = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
        batches.set_resource(resource);
        Self { waiting, batches }
    }

    pub(crate) fn add(&self, span: SpanData) {
        if self.waiting.enter() {
            self.batches.on_end(span);
        }
    }

    pub(crate) fn finish(&self, within: Duration) {
        let _ = self.batches.shutdown_with_timeout(within);
    }
}

#[derive(Debug)]
struct CountingSpans {
    exporter: SpanExporter,
    waiting: Arc<Waiting>,
}

impl opentelemetry_sdk::trace::SpanExporter for CountingSpans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let result = self.exporter.export(batch).await;
        self.waiting.left(count, &result);
        result
    }

    fn shutdown_with_timeout(&self, within: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(within)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Log lines on their way.
#[derive(Debug)]
pub(crate) struct LogQueue {
    waiting: Arc<Waiting>,
    batches: BatchLogProcessor,
}

impl LogQueue {
    pub(crate) fn new(exporter: LogExporter) -> Self {
        let waiting = Waiting::new("logs");
        let exporter = CountingLogs { exporter, waiting: Arc::clone(&waiting) };
        let config = LogBatchConfig::default().with_max_queue_size(LIBRARY_QUEUE).build();
        Self { waiting, batches: BatchLogProcessor::builder(exporter).with_batch_config(config).build() }
    }
}

impl LogProcessor for LogQueue {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        if self.waiting.enter() {
            self.batches.emit(record, scope);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, within: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(within)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

#[derive(Debug)]
struct CountingLogs {
    exporter: LogExporter,
    waiting: Arc<Waiting>,
}

impl opentelemetry_sdk::logs::LogExporter for CountingLogs {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let count = batch.iter().count();
        let result = self.exporter.export(batch).await;
        self.waiting.left(count, &result);
        result
    }

    fn shutdown_with_timeout(&self, within: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(within)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests;
