//! What resources hold, and that they hold no more than they may.
//!
//! The database sums it up now and then; what calls of this broker have written since then is added. So a resource can go beyond its
//! bound by what other brokers write meanwhile, and by no more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mfaas_ident::ResourceName;
use mfaas_kv::{KvError, Store, Transaction};

/// What resources hold.
#[derive(Debug)]
pub(crate) struct Stored {
    /// What one may hold, in bytes of keys and values.
    bytes_max: u64,
    sizes: Mutex<Sizes>,
}

#[derive(Debug, Default)]
struct Sizes {
    /// Of those that hold more than half of what they may.
    large: HashMap<ResourceName, u64>,
    /// What calls of this broker have written since that was known.
    written: HashMap<ResourceName, u64>,
}

impl Stored {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, sizes: Mutex::default() }
    }

    /// Whether a resource holds as much as it may, as far as is known.
    pub(crate) fn is_full(&self, resource: &ResourceName) -> bool {
        let sizes = self.lock();
        let of = |sizes: &HashMap<ResourceName, u64>| sizes.get(resource).copied();
        // One that is not known to be large may hold nearly half.
        let before = of(&sizes.large).unwrap_or(self.bytes_max / 2);
        match (of(&sizes.large), of(&sizes.written)) {
            (None, None) => false,
            (_, written) => before.saturating_add(written.unwrap_or(0)) >= self.bytes_max,
        }
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The changes of a call have taken effect.
    pub(crate) fn wrote(&self, transaction: &Transaction) {
        let mut sizes = self.lock();
        for (resource, bytes) in transaction.written_bytes() {
            match sizes.written.get_mut(resource) {
                Some(written) => *written = written.saturating_add(bytes),
                None => drop(sizes.written.insert(resource.clone(), bytes)),
            }
        }
    }

    /// Has the database sum up what it holds. Whether there may be more to be summed up.
    pub(crate) async fn renew(&self, store: &Store) -> Result<bool, KvError> {
        let may_be_more = store.sum_sizes().await?;
        let large = store.large(self.bytes_max / 2).await?.into_iter().collect();
        *self.lock() = Sizes { large, written: HashMap::new() };
        Ok(may_be_more)
    }

    fn lock(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
