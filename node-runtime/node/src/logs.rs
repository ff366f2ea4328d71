//! Log lines of functions on their way to the server: a bounded queue and a shipper.
//!
//! The text is a tenant's: it is bounded and sanitised before it is kept, so that one function can
//! neither fill the node's memory nor forge another's lines. When the queue is full the oldest
//! lines go and are counted; a call never waits for its log.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::Utc;
use mfaas_abi::{Level, LogReader};
use mfaas_delivery::{LOG_LINE_BYTES_MAX, LOG_LINES_MAX, LogBatch, LogLevel, LogLine, NODE_PROTOCOL};
use mfaas_ident::sanitise;
use tokio::sync::{Notify, watch};

use crate::agent::ImageKey;
use crate::upstream::{Upstream, UpstreamError};

/// Lines kept while the server cannot be reached.
const QUEUE_LINES_MAX: usize = 20_000;
/// Bytes of text kept while the server cannot be reached.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Lines that one call may leave.
const CALL_LINES_MAX: usize = 200;
/// Text of one batch; well below what a server accepts as one body.
const BATCH_BYTES_MAX: usize = 512 << 10;
/// Lines are collected this long before they are sent.
const GATHER: Duration = Duration::from_millis(300);
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// The sanitiser adds an ellipsis of three bytes where it cut.
const TEXT_BYTES_MAX: usize = LOG_LINE_BYTES_MAX - '…'.len_utf8();

/// Where lanes and dispatcher leave lines.
#[derive(Debug, Default)]
pub(crate) struct LogSink {
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// Number of the first queued line since the start of the process.
    first: u64,
    dropped: u64,
}

impl LogSink {
    /// The records and the last message of one call, both as the worker gave them.
    pub(crate) fn function_lines(&self, key: &ImageKey, records: &[u8], message: &[u8]) {
        if records.is_empty() && message.is_empty() {
            return;
        }
        let mut queue = self.lock();
        for entry in LogReader::new(records).take(CALL_LINES_MAX) {
            queue.push(line(key, level(entry.level), entry.text));
        }
        if !message.is_empty() {
            queue.push(line(key, LogLevel::Error, message));
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Something that the node says about a function.
    pub(crate) fn node_line(&self, key: &ImageKey, text: &str) {
        self.lock().push(line(key, LogLevel::Error, text.as_bytes()));
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the oldest lines; they stay queued until [`LogSink::taken`].
    fn batch(&self, boot: uuid::Uuid) -> Option<LogBatch> {
        let queue = self.lock();
        let mut bytes = 0;
        let lines: Vec<LogLine> = queue
            .lines
            .iter()
            .take(LOG_LINES_MAX)
            .take_while(|line| {
                bytes += line.text.len();
                bytes <= BATCH_BYTES_MAX
            })
            .cloned()
            .collect();
        let batch =
            LogBatch { protocol: NODE_PROTOCOL, boot, first: queue.first, dropped: queue.dropped, lines };
        (!batch.lines.is_empty()).then_some(batch)
    }

    /// The server has this batch. Lines that were dropped meanwhile stay counted as dropped.
    fn taken(&self, batch: &LogBatch) {
        let mut queue = self.lock();
        let end = batch.first + batch.lines.len() as u64;
        while queue.first < end && queue.pop() {}
        queue.dropped = queue.dropped.saturating_sub(batch.dropped);
    }
}

impl Queue {
    fn push(&mut self, line: LogLine) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.lines.len() > QUEUE_LINES_MAX || self.bytes > QUEUE_BYTES_MAX {
            self.dropped += 1;
            metrics::counter!("mfaas_log_lines_dropped_total").increment(1);
            self.pop();
        }
    }

    fn pop(&mut self) -> bool {
        let Some(line) = self.lines.pop_front() else { return false };
        self.bytes -= line.text.len();
        self.first += 1;
        true
    }
}

fn line(key: &ImageKey, level: LogLevel, text: &[u8]) -> LogLine {
    LogLine {
        at: Utc::now(),
        tenant: key.tenant.clone(),
        function: key.function.clone(),
        version: key.version,
        level,
        text: sanitise(&String::from_utf8_lossy(text), TEXT_BYTES_MAX),
    }
}

fn level(level: Level) -> LogLevel {
    match level {
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}

/// Sends what the sink gathers, in order, until `stop` turns true; then once more.
pub(crate) async fn ship(
    sink: &LogSink,
    upstream: &Upstream,
    boot: uuid::Uuid,
    mut stop: watch::Receiver<bool>,
) {
    let mut failing = false;
    while !*stop.borrow() {
        tokio::select! {
            () = sink.filled.notified() => tokio::time::sleep(GATHER).await,
            _ = stop.changed() => {}
        }
        while let Err(error) = send_all(sink, upstream, boot).await {
            if !std::mem::replace(&mut failing, true) {
                tracing::warn!(%error, "log lines cannot be sent; they are kept and sent later");
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => {}
                _ = stop.changed() => return,
            }
        }
        failing = false;
    }
}

async fn send_all(sink: &LogSink, upstream: &Upstream, boot: uuid::Uuid) -> Result<(), UpstreamError> {
    while let Some(batch) = sink.batch(boot) {
        upstream.logs(&batch).await?;
        sink.taken(&batch);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
