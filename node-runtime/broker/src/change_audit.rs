//! What calls change at once, for its audit: each change is announced before it is made, and told in full afterwards.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mfaas_kv::{AuditedChange, Caller, ChangeOutcome, Store};
use mfaas_rules::codes;
use tokio::sync::Semaphore;

use crate::meters;
use crate::refusal::Refusal;

/// Connections over which changes are announced, so that others are left for others.
pub(crate) const CHANGE_CONNECTIONS: u32 = 16;

/// Those that wait to be written; records of further ones say alone that they were announced.
const WAITING_MAX: usize = 100_000;
/// Those that are written at once.
const WRITTEN_MAX: usize = 1_000;

/// Who announces changes, and what is to be added to records that say by now alone that something was about to be done.
#[derive(Debug)]
pub(crate) struct ChangeAudit {
    announcing: Semaphore,
    waiting: Mutex<Vec<ChangeOutcome>>,
}

impl ChangeAudit {
    pub(crate) fn new() -> Self {
        Self { announcing: Semaphore::new(CHANGE_CONNECTIONS as usize), waiting: Mutex::default() }
    }

    /// A call is about to change something: it has a record from now on, of this number.
    pub(crate) async fn announce(
        &self,
        store: &Store,
        caller: &Caller,
        change: &AuditedChange<'_>,
    ) -> Result<i64, Refusal> {
        let unaudited = |_| Refusal::new(codes::MF1205, "changes cannot be audited any more");
        let _permit = self.announcing.acquire().await.map_err(unaudited)?;
        Ok(store.announce_change(caller, change).await?)
    }

    /// What came of changes that were announced.
    pub(crate) fn add(&self, changes: impl IntoIterator<Item = ChangeOutcome>) {
        let mut waiting = self.lock();
        for changed in changes {
            if waiting.len() < WAITING_MAX {
                waiting.push(changed);
            } else {
                meters::untold(1);
            }
        }
    }

    /// Writes what waits, by one at a time. What the database does not take is tried again.
    pub(crate) async fn write(&self, store: &Store) {
        loop {
            // They stay until they are written, also if nobody waits for that any more. To write one twice is harmless.
            let first = {
                let waiting = self.lock();
                waiting[..waiting.len().min(WRITTEN_MAX)].to_vec()
            };
            if first.is_empty() {
                return;
            }
            if let Err(error) = store.complete_changes(&first).await {
                tracing::warn!(%error, "audit records of changes could not be completed; it is tried again");
                return;
            }
            self.lock().drain(..first.len());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ChangeOutcome>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
