//! A map of bounded size that forgets what was not used for longest, in pieces with a lock each.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

/// Pieces: more than there are threads that ask at once on most machines.
const PIECES: usize = 16;

/// The map. Which piece a key lies in, and where, is not for callers to guess: the hash has a secret.
#[derive(Debug)]
pub(crate) struct Recent<K: Hash + Eq, V> {
    pieces: Box<[Mutex<LruCache<K, V>>]>,
    secret: RandomState,
}

impl<K: Hash + Eq, V> Recent<K, V> {
    /// A map of about so many entries.
    pub(crate) fn new(entries: usize) -> Self {
        let of_piece = NonZeroUsize::new(entries / PIECES).unwrap_or(NonZeroUsize::MIN);
        let piece = |_| Mutex::new(LruCache::new(of_piece));
        Self { pieces: (0..PIECES).map(piece).collect(), secret: RandomState::new() }
    }

    /// The secret hash of anything.
    pub(crate) fn hash(&self, what: &impl Hash) -> u64 {
        self.secret.hash_one(what)
    }

    /// The piece that `key` belongs to.
    pub(crate) fn piece(&self, key: &K) -> MutexGuard<'_, LruCache<K, V>> {
        // Below 16.
        let piece = (self.secret.hash_one(key) % PIECES as u64) as usize;
        self.pieces[piece].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for piece in &self.pieces {
            piece.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// How many entries there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.pieces.iter().map(|piece| piece.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}

#[cfg(test)]
mod tests;
