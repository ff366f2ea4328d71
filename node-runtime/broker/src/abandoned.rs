//! What calls have stored in vain.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mfaas_kv::Store;
use uuid::Uuid;

/// What calls have stored that are over, and no entry names: it is to be removed soon.
#[derive(Debug, Default)]
pub(crate) struct Abandoned(Mutex<Vec<Uuid>>);

/// Those that wait to be noted; further ones are removed hours later.
const ABANDONED_MAX: usize = 100_000;
/// Those that are noted at once.
const NOTED_MAX: usize = 1_000;

impl Abandoned {
    pub(crate) fn add(&self, staged: impl IntoIterator<Item = Uuid>) {
        let mut waiting = self.lock();
        let room = ABANDONED_MAX.saturating_sub(waiting.len());
        waiting.extend(staged.into_iter().take(room));
    }

    /// Notes those that wait in the database. Where it does not take them they wait on: they count for their resource meanwhile.
    pub(crate) async fn write(&self, store: &Store) {
        let mut waiting = std::mem::take(&mut *self.lock());
        while !waiting.is_empty() {
            let rest = waiting.split_off(NOTED_MAX.min(waiting.len()));
            if let Err(error) = store.abandon(&waiting).await {
                tracing::warn!(%error, "what calls have stored in vain could not be noted; it is tried again");
                self.add(waiting.into_iter().chain(rest));
                return;
            }
            waiting = rest;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Uuid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
