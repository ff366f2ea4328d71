//! What calls that are over have done to files, for their audit records.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mfaas_kv::{FileChanged, Store};

use crate::meters;

/// Those that wait to be written; records of further ones say alone that they were announced.
const WAITING_MAX: usize = 100_000;
/// Those that are written at once.
const WRITTEN_MAX: usize = 1_000;

/// What is to be added to records that say by now alone that something was about to be done.
#[derive(Debug, Default)]
pub(crate) struct FileAudit(Mutex<Vec<FileChanged>>);

impl FileAudit {
    /// A call is over.
    pub(crate) fn add(&self, changes: impl IntoIterator<Item = FileChanged>) {
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
            if let Err(error) = store.tell_file_changes(&first).await {
                tracing::warn!(%error, "audit records of files could not be completed; it is tried again");
                return;
            }
            self.lock().drain(..first.len());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<FileChanged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
