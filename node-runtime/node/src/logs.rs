//! Log lines of functions on their way to the server: a bounded queue and a shipper.
//!
//! The text is a tenant's: it is bounded and sanitised before it is kept, so that one function can
//! neither fill the node's memory nor forge another's lines. Tenants take turns, each within bounds of
//! its own; what is too much is taken from whoever holds the most, and the function whose lines they were is
//! logged in its own log. A call never waits for its log.

pub(crate) mod fair;
mod losses;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::Utc;
use mfaas_abi::{Level, LogReader};
use mfaas_delivery::{LOG_LINE_BYTES_MAX, LOG_LINES_MAX, LogBatch, LogLevel, LogLine, NODE_PROTOCOL};
use mfaas_ident::sanitise;
use tokio::sync::{Notify, watch};

use self::fair::{Bounds, FairQueue, Full};
use self::losses::{Losses, What};
use crate::image::ImageKey;
use crate::upstream::{Upstream, UpstreamError};

/// Calls whose log lines may wait here, with the bytes of their records. A tenant has a quarter: what 64
/// calls leave at most, and so many more that leave less.
pub(crate) const CALLS: Bounds =
    Bounds { items_max: 4_096, bytes_max: 16 << 20, tenant_items_max: 1_024, tenant_bytes_max: 4 << 20 };
/// What is kept while the server cannot be reached, or takes less than comes: lines and their text. A
/// tenant has a quarter, so that it takes four to fill the queue.
const QUEUE: Bounds =
    Bounds { items_max: 20_000, bytes_max: 8 << 20, tenant_items_max: 5_000, tenant_bytes_max: 2 << 20 };
/// Lines that one call may leave.
const CALL_LINES_MAX: usize = 200;
/// Text of one batch; well below what a server accepts as one body.
const BATCH_BYTES_MAX: usize = 512 << 10;
/// Lines are collected this long before they are sent.
const GATHER: Duration = Duration::from_millis(300);
/// Versions whose losses are logged in one batch: the rest of it is for lines.
const LOSSES_IN_BATCH_MAX: usize = 100;
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// The sanitiser adds an ellipsis of three bytes where it cut.
const TEXT_BYTES_MAX: usize = LOG_LINE_BYTES_MAX - '…'.len_utf8();

/// Where lanes and dispatcher leave lines.
#[derive(Debug, Default)]
pub(crate) struct LogSink {
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Debug)]
struct Waiting {
    lines: FairQueue<LogLine>,
    losses: Losses,
    /// Lines lost since the last batch was made.
    dropped: u64,
    /// What was offered and not taken yet: offered again as it was, since a server that has it already
    /// tells by its number.
    offered: Option<LogBatch>,
    /// Number of the next batch's first line since the start of the process.
    next: u64,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { lines: FairQueue::new(QUEUE), losses: Losses::default(), dropped: 0, offered: None, next: 0 }
    }
}

impl LogSink {
    /// The records and the last message of one call, both as the worker gave them.
    pub(crate) fn function_lines(&self, key: &ImageKey, records: &[u8], message: &[u8]) {
        if records.is_empty() && message.is_empty() {
            return;
        }
        // Made before the lock is taken: all of it is work.
        let mut reader = LogReader::new(records);
        let mut lines: Vec<_> = reader
            .by_ref()
            .take(CALL_LINES_MAX)
            .map(|entry| line(key, level(entry.level), entry.text))
            .collect();
        let beyond = reader.count();
        if beyond > 0 {
            metrics::counter!("mfaas_log_lines_dropped_total", "reason" => "call").increment(beyond as u64);
            let text =
                format!("{beyond} more lines of this call were dropped: a call leaves {CALL_LINES_MAX}");
            lines.push(line(key, LogLevel::Warn, text.as_bytes()));
        }
        if !message.is_empty() {
            lines.push(line(key, LogLevel::Error, message));
        }
        self.add(lines);
    }

    /// Something that the node says about a function.
    pub(crate) fn node_line(&self, key: &ImageKey, text: &str) {
        self.add([line(key, LogLevel::Error, text.as_bytes())]);
    }

    /// Lines of calls that never came as far as this.
    pub(crate) fn calls_lost(&self, key: &ImageKey, full: Full, calls: u64) {
        self.lock().losses.count_calls(key, full, calls);
        self.filled.notify_one();
    }

    fn add(&self, lines: impl IntoIterator<Item = LogLine>) {
        let mut waiting = self.lock();
        for line in lines {
            waiting.push(line);
        }
        drop(waiting);
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next lines; the same ones until [`LogSink::taken`].
    pub(crate) fn batch(&self, boot: uuid::Uuid) -> Option<LogBatch> {
        let mut waiting = self.lock();
        if waiting.offered.is_none() {
            waiting.offered = waiting.next_batch(boot);
        }
        waiting.offered.clone()
    }

    /// The server has this batch.
    pub(crate) fn taken(&self, batch: &LogBatch) {
        let mut waiting = self.lock();
        if waiting.offered.take_if(|offered| offered.first == batch.first).is_some() {
            waiting.next = batch.first + batch.lines.len() as u64;
        }
    }
}

impl Waiting {
    fn push(&mut self, line: LogLine) {
        let (tenant, bytes) = (line.tenant.clone(), line.text.len());
        for (lost, full) in self.lines.push(&tenant, line, bytes) {
            self.dropped += 1;
            metrics::counter!("mfaas_log_lines_dropped_total", "reason" => full.reason()).increment(1);
            self.losses.count_line(&lost, full);
        }
    }

    fn next_batch(&mut self, boot: uuid::Uuid) -> Option<LogBatch> {
        let mut lines = self.losses.take_lines(LOSSES_IN_BATCH_MAX, Utc::now(), sentence);
        let mut bytes: usize = lines.iter().map(|line| line.text.len()).sum();
        while lines.len() < LOG_LINES_MAX && bytes + LOG_LINE_BYTES_MAX <= BATCH_BYTES_MAX {
            let Some(line) = self.lines.pop() else { break };
            bytes += line.text.len();
            lines.push(line);
        }
        if lines.is_empty() {
            return None;
        }
        let dropped = std::mem::take(&mut self.dropped);
        Some(LogBatch { protocol: NODE_PROTOCOL, boot, first: self.next, dropped, lines })
    }
}

/// The line in a function.s own log about lines that were dropped.
fn sentence(what: What, full: Full, count: u64) -> String {
    let bounds = match what {
        What::Lines => QUEUE,
        What::Calls => CALLS,
    };
    let (lost, unit) = match what {
        What::Lines => (format!("{count} lines of this function"), "lines"),
        What::Calls => (format!("the lines of {count} calls of this function"), "calls"),
    };
    let why = match full {
        Full::Tenant => {
            let (items, mib) = (bounds.tenant_items_max, bounds.tenant_bytes_max >> 20);
            format!("more than {items} {unit} or {mib} MiB of its tenant's")
        }
        Full::Node => {
            let (items, mib) = (bounds.items_max, bounds.bytes_max >> 20);
            format!("more than {items} {unit} or {mib} MiB of all tenants', of which its own had the most,")
        }
    };
    format!("{lost} were dropped: {why} were waiting on this node")
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
