//! Log lines on their way from the dispatcher thread to the sink, on a thread of their own: what a
//! function wrote is decoded and sanitised where no call waits for it. Tenants take turns here too: the
//! calls of one that logs faster than this thread reads wait behind nobody's but its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mfaas_dispatch::FunctionId;

use super::table::Served;
use crate::logs::fair::{FairQueue, Full};
use crate::logs::{CALLS, LogSink};

#[derive(Debug)]
struct Output {
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
    outputs: FairQueue<Output>,
    /// Until the thread has counted them in the sink. Never more than functions are served.
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
pub(crate) struct LogForwarder {
    shared: Arc<Shared>,
}

impl LogForwarder {
    /// Starts the thread. It ends with this end, when it has read what waits.
    pub(crate) fn start(sink: Arc<LogSink>) -> std::io::Result<Self> {
        let waiting = Waiting { outputs: FairQueue::new(CALLS), lost: Lost::new(), over: false };
        let shared = Arc::new(Shared { waiting: Mutex::new(waiting), filled: Condvar::new() });
        let source = Arc::clone(&shared);
        std::thread::Builder::new().name("log-forwarder".to_owned()).spawn(move || {
            while let Some((output, lost)) = source.next() {
                for ((_, full), (served, calls)) in lost {
                    sink.calls_lost(&served.key, full, calls);
                }
                let Some(Output { served, text }) = output else { continue };
                match text {
                    Text::Function(logs, message) => sink.function_lines(&served.key, &logs, &message),
                    Text::Node(text) => sink.node_line(&served.key, &text),
                }
            }
        })?;
        Ok(Self { shared })
    }

    /// The records and the last message of one call, both as the worker gave them.
    pub(crate) fn function_output(&self, served: &Arc<Served>, logs: Vec<u8>, message: Vec<u8>) {
        if !logs.is_empty() || !message.is_empty() {
            self.pass(served, Text::Function(logs, message));
        }
    }

    /// A line of the node about a function.
    pub(crate) fn node_line(&self, served: &Arc<Served>, text: &str) {
        self.pass(served, Text::Node(text.to_owned()));
    }

    fn pass(&self, served: &Arc<Served>, text: Text) {
        let bytes = text.bytes();
        let output = Output { served: Arc::clone(served), text };
        let mut waiting = self.shared.lock();
        for (Output { served, .. }, full) in waiting.outputs.push(&served.key.tenant, output, bytes) {
            metrics::counter!("mfaas_call_logs_dropped_total", "reason" => full.reason()).increment(1);
            waiting.lost.entry((served.id, full)).or_insert_with(|| (served, 0)).1 += 1;
        }
        drop(waiting);
        self.shared.filled.notify_one();
    }
}

impl Drop for LogForwarder {
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
    fn next(&self) -> Option<(Option<Output>, Lost)> {
        let idle =
            |waiting: &mut Waiting| waiting.outputs.is_empty() && waiting.lost.is_empty() && !waiting.over;
        let waiting = self.filled.wait_while(self.lock(), idle);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let next = (waiting.outputs.pop(), std::mem::take(&mut waiting.lost));
        (next.0.is_some() || !next.1.is_empty()).then_some(next)
    }
}

#[cfg(test)]
mod tests;
