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

    /// Notes those that wait in the database.
    pub(crate) async fn write(&self, store: &Store) {
        let waiting = std::mem::take(&mut *self.lock());
        for some in waiting.chunks(NOTED_MAX) {
            if let Err(error) = store.abandon(some).await {
                tracing::warn!(%error, "what calls have stored in vain stays for hours");
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Uuid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
