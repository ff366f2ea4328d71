//! What holds a worker, in words: for the report to the server, and for metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mfaas_ident::sanitise_line;
use mfaas_ring::preload::KeysLine;

/// A process of its own under an allow-list of system calls. It needs no namespaces, since no call
/// that names a file, a process or a socket is on the list.
const LEVEL: &str = "seccomp";

/// Bytes of the reason that are kept; the report has room for them.
const REASON_BYTES_MAX: usize = 300;

/// What the workers said about themselves last.
#[derive(Debug, Default)]
pub(crate) struct Protection(Mutex<Option<KeysLine>>);

impl Protection {
    /// A worker started and said this. Said in the log when it is news.
    pub(super) fn heard(&self, keys: KeysLine) {
        let keys = KeysLine { on: keys.on, reason: sanitise_line(&keys.reason, REASON_BYTES_MAX) };
        let before = self.lock().replace(keys.clone());
        if before.as_ref() == Some(&keys) {
            return;
        }
        if keys.on {
            tracing::info!("calls run under protection keys");
        } else {
            tracing::warn!(reason = keys.reason, "calls run without protection keys");
        }
    }

    /// In a few words, with the reason for what is missing.
    pub(crate) fn text(&self) -> String {
        match &*self.lock() {
            Some(KeysLine { on: true, .. }) => format!("{LEVEL}, protection keys"),
            Some(KeysLine { on: false, reason }) => format!("{LEVEL}, no protection keys: {reason}"),
            None => LEVEL.to_owned(),
        }
    }

    /// Whether the workers' calls run under protection keys.
    pub(crate) fn keys_are_on(&self) -> bool {
        self.lock().as_ref().is_some_and(|keys| keys.on)
    }

    fn lock(&self) -> MutexGuard<'_, Option<KeysLine>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
