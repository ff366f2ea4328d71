//! A sample of what calls read, for the audit.

use std::sync::{Mutex, PoisonError};

use mfaas_ident::ResourceName;
use mfaas_kv::{AuditedRead, Caller, Store};

use crate::meters;

/// Those that wait to be written; further ones are left out.
const WAITING_MAX: usize = 4_096;

/// What a call has read.
#[derive(Debug)]
pub(crate) struct Read<'a> {
    /// The first key, or what the keys of a scan begin with.
    pub(crate) key: &'a [u8],
    pub(crate) is_scan: bool,
    /// Keys that were asked for, or entries that a scan gave.
    pub(crate) keys: usize,
    /// What it was given.
    pub(crate) bytes: usize,
}

/// Reads that are to be audited.
#[derive(Debug)]
pub(crate) struct Reads {
    /// One in so many is, at random, so that nobody knows which; none if it is 0.
    every: u64,
    waiting: Mutex<Vec<AuditedRead>>,
}

impl Reads {
    pub(crate) fn new(every: u64) -> Self {
        Self { every, waiting: Mutex::default() }
    }

    /// A call has read something of a resource.
    pub(crate) fn note(&self, caller: impl FnOnce() -> Caller, resource: &ResourceName, read: Read<'_>) {
        if self.every == 0 || rand::random_range(0..self.every) != 0 {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < WAITING_MAX {
            let Read { key, is_scan, keys, bytes } = read;
            let (resource, key) = (resource.clone(), key.to_vec());
            waiting.push(AuditedRead { caller: caller(), resource, key, is_scan, keys, bytes });
        } else {
            meters::unaudited(1);
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
            meters::unaudited(reads.len());
        }
    }
}
