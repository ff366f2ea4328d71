//! What holds a worker, in words: for the report to the server, and for metrics.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use mfaas_ident::sanitise_line;
use mfaas_ring::preload::KeysLine;

use super::sharing::Sharing;

/// A process of its own under an allow-list of system calls. It needs no namespaces, since no call
/// that names a file, a process or a socket is on the list.
const LEVEL: &str = "seccomp";

/// Bytes of the reason that are kept; the report has room for them.
const REASON_BYTES_MAX: usize = 300;

/// What the workers said about themselves last, and who runs in them.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    keys: Mutex<Option<KeysLine>>,
    /// What tenants share workers with; nothing while each has its own.
    shared: OnceLock<Option<Sharing>>,
}

impl Protection {
    /// A worker said this. Said in the log when it is news.
    pub(crate) fn heard(&self, keys: KeysLine) {
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

    /// Whether tenants share workers, for as long as the node runs. Said in the log.
    pub(crate) fn pools_are(&self, shared: bool, sharing: Sharing) {
        let shared = self.shared.get_or_init(|| shared.then_some(sharing));
        match shared {
            None => tracing::info!("each tenant has worker processes of its own"),
            Some(Sharing::TrustingTheCompiler) if !self.keys_are_on() => {
                tracing::warn!(
                    "tenants share worker processes and nothing but the compiler keeps them apart"
                );
            }
            Some(_) => tracing::info!("tenants share worker processes"),
        }
    }

    /// In a few words, with the reason for what is missing.
    pub(crate) fn text(&self) -> String {
        let pools = match self.shared.get() {
            None => "",
            Some(None) => ", a worker pool for each tenant",
            Some(Some(Sharing::TrustingTheCompiler)) => {
                ", one worker pool for all tenants (trusting the compiler)"
            }
            Some(Some(_)) => ", one worker pool for all tenants",
        };
        match &*self.lock() {
            Some(KeysLine { on: true, .. }) => format!("{LEVEL}{pools}, protection keys"),
            Some(KeysLine { on: false, reason }) => format!("{LEVEL}{pools}, no protection keys: {reason}"),
            None => format!("{LEVEL}{pools}"),
        }
    }

    /// Whether tenants share workers.
    pub(crate) fn tenants_share(&self) -> bool {
        self.shared.get().is_some_and(Option::is_some)
    }

    /// Whether the workers' calls run under protection keys.
    pub(crate) fn keys_are_on(&self) -> bool {
        self.lock().as_ref().is_some_and(|keys| keys.on)
    }

    fn lock(&self) -> MutexGuard<'_, Option<KeysLine>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
