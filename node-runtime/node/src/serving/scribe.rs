//! Log lines on their way from the dispatcher thread to the sink, on a thread of their own: what a
//! function wrote is decoded and sanitised where no call waits for it. Tenants take turns here too: the
//! calls of one that logs faster than this thread reads wait behind nobody's but its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mfaas_dispatch::FunctionId;

use super::table::Served;
use crate::logs::LogSink;
use crate::logs::fair::{Bounds, FairQueue, Full};

/// Calls whose log lines may wait here, with the bytes of their records. A tenant has a quarter: what 64
/// calls leave at most, and so many more that leave less.
pub(crate) const CALLS: Bounds =
    Bounds { items_max: 4_096, bytes_max: 16 << 20, tenant_items_max: 1_024, tenant_bytes_max: 4 << 20 };

#[derive(Debug)]
struct Said {
    served: Arc<Served>,
    text: Text,
}

#[derive(Debug)]
enum Text {
    Function(Vec<u8>, Vec<u8>),
    Node(String),
}

impl Text {
    fn bytes(&self) -> usize {
        match self {
            Self::Function(logs, message) => logs.len() + message.len(),
            Self::Node(text) => text.len(),
        }
    }
}

/// Calls whose lines were lost, by their function, and to which bound.
type Lost = BTreeMap<(FunctionId, Full), (Arc<Served>, u64)>;

#[derive(Debug)]
struct Waiting {
    said: FairQueue<Said>,
    /// Until the thread tells the sink. Never more than functions are served.
    lost: Lost,
    over: bool,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

/// The dispatcher's end.
#[derive(Debug)]
pub(crate) struct Scribe {
    shared: Arc<Shared>,
}

impl Scribe {
    /// Starts the thread. It ends with this end, when it has read what waits.
    pub(crate) fn start(sink: Arc<LogSink>) -> std::io::Result<Self> {
        let waiting = Waiting { said: FairQueue::new(CALLS), lost: Lost::new(), over: false };
        let shared = Arc::new(Shared { waiting: Mutex::new(waiting), filled: Condvar::new() });
        let source = Arc::clone(&shared);
        std::thread::Builder::new().name("scribe".to_owned()).spawn(move || {
            while let Some((said, lost)) = source.next() {
                for ((_, full), (served, calls)) in lost {
                    sink.calls_lost(&served.key, full, calls);
                }
                let Some(Said { served, text }) = said else { continue };
                match text {
                    Text::Function(logs, message) => sink.function_lines(&served.key, &logs, &message),
                    Text::Node(text) => sink.node_line(&served.key, &text),
                }
            }
        })?;
        Ok(Self { shared })
    }

    /// The records and the last message of one call, both as the worker gave them.
    pub(crate) fn function_said(&self, served: &Arc<Served>, logs: Vec<u8>, message: Vec<u8>) {
        if !logs.is_empty() || !message.is_empty() {
            self.pass(served, Text::Function(logs, message));
        }
    }

    /// Something that the node says about a function.
    pub(crate) fn node_says(&self, served: &Arc<Served>, text: &str) {
        self.pass(served, Text::Node(text.to_owned()));
    }

    fn pass(&self, served: &Arc<Served>, text: Text) {
        let bytes = text.bytes();
        let said = Said { served: Arc::clone(served), text };
        let mut waiting = self.shared.lock();
        for (Said { served, .. }, full) in waiting.said.push(&served.key.tenant, said, bytes) {
            metrics::counter!("mfaas_call_logs_dropped_total", "reason" => full.reason()).increment(1);
            waiting.lost.entry((served.id, full)).or_insert_with(|| (served, 0)).1 += 1;
        }
        drop(waiting);
        self.shared.filled.notify_one();
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.filled.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next call and what was lost by then; nothing once all is over.
    fn next(&self) -> Option<(Option<Said>, Lost)> {
        let idle =
            |waiting: &mut Waiting| waiting.said.is_empty() && waiting.lost.is_empty() && !waiting.over;
        let waiting = self.filled.wait_while(self.lock(), idle);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let next = (waiting.said.pop(), std::mem::take(&mut waiting.lost));
        (next.0.is_some() || !next.1.is_empty()).then_some(next)
    }
}

#[cfg(test)]
mod tests;
