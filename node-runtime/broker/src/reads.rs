//! A sample of what calls read, for the audit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use mfaas_abi::KvRequest;
use mfaas_ident::ResourceName;
use mfaas_kv::{AuditedRead, Caller, Store};

/// Those that wait to be written; further ones are left out.
const WAITING_MAX: usize = 4_096;

/// Reads that are to be audited.
#[derive(Debug)]
pub(crate) struct Reads {
    /// One in so many is; none if it is 0.
    every: u64,
    count: AtomicU64,
    waiting: Mutex<Vec<AuditedRead>>,
}

impl Reads {
    pub(crate) fn new(every: u64) -> Self {
        Self { every, count: AtomicU64::new(0), waiting: Mutex::default() }
    }

    /// A call has read so many bytes; whether it is audited is its turn's matter.
    pub(crate) fn note(
        &self,
        caller: impl FnOnce() -> Caller,
        resource: &ResourceName,
        request: &KvRequest<'_>,
        bytes: usize,
    ) {
        let (key, is_scan, keys) = match request {
            KvRequest::Get { keys } => (keys.first().copied().unwrap_or_default(), false, keys.len()),
            KvRequest::Scan { prefix, .. } => (*prefix, true, 1),
            // Changes have audit records of their own, each of them.
            KvRequest::Put { .. }
            | KvRequest::Delete { .. }
            | KvRequest::Increment { .. }
            | KvRequest::CompareAndSet { .. } => return,
        };
        if self.every == 0 || !self.count.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.every) {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < WAITING_MAX {
            let (resource, key) = (resource.clone(), key.to_vec());
            waiting.push(AuditedRead { caller: caller(), resource, key, is_scan, keys, bytes });
        }
    }

    /// Writes what waits. What cannot be written is left out, with a word in the log.
    pub(crate) async fn write(&self, store: &Store) {
        let reads = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        if reads.is_empty() {
            return;
        }
        if let Err(error) = store.audit_reads(&reads).await {
            tracing::warn!(%error, reads = reads.len(), "reads could not be audited");
        }
    }
}
