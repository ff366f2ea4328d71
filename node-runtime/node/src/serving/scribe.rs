//! Log lines on their way from the dispatcher thread to the sink, on a thread of their own: what a
//! function wrote is decoded and sanitised where no call waits for it.

use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};

use super::table::Served;
use crate::logs::LogSink;

/// Calls whose log lines may wait here; beyond that they are dropped and counted.
const CALLS_MAX: usize = 256;

#[derive(Debug)]
enum Said {
    Function(Arc<Served>, Vec<u8>, Vec<u8>),
    Node(Arc<Served>, String),
}

/// The dispatcher's end.
#[derive(Debug)]
pub(crate) struct Scribe {
    lines: SyncSender<Said>,
}

impl Scribe {
    /// Starts the thread. It ends with this end.
    pub(crate) fn start(sink: Arc<LogSink>) -> std::io::Result<Self> {
        let (lines, heard) = mpsc::sync_channel(CALLS_MAX);
        std::thread::Builder::new().name("scribe".to_owned()).spawn(move || {
            for said in heard {
                match said {
                    Said::Function(served, logs, message) => {
                        sink.function_lines(&served.key, &logs, &message)
                    }
                    Said::Node(served, text) => sink.node_line(&served.key, &text),
                }
            }
        })?;
        Ok(Self { lines })
    }

    /// The records and the last message of one call, both as the worker gave them.
    pub(crate) fn function_said(&self, served: &Arc<Served>, logs: Vec<u8>, message: Vec<u8>) {
        if !logs.is_empty() || !message.is_empty() {
            self.pass(Said::Function(Arc::clone(served), logs, message));
        }
    }

    /// Something that the node says about a function.
    pub(crate) fn node_says(&self, served: &Arc<Served>, text: &str) {
        self.pass(Said::Node(Arc::clone(served), text.to_owned()));
    }

    fn pass(&self, said: Said) {
        if self.lines.try_send(said).is_err() {
            metrics::counter!("mfaas_call_logs_dropped_total").increment(1);
        }
    }
}
