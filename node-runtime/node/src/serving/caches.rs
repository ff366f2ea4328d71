//! Caches: values by key in the memory of this node, which may be gone at any time.
//!
//! A call sees what calls before it have put there, and what it puts there itself. Others see that when the call has succeeded, all at
//! once, and never if it fails. Each resource has memory of its own: whoever fills one up takes nothing from the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use mfaas_abi::limits::OUTCOME_BYTES_MAX;
use mfaas_abi::{KvExpiry, KvReply, KvRequest};
use mfaas_ident::{DataAccess, ResourceName};
use mfaas_rules::codes;

use super::call::NotBegun;

/// What the cache of one resource holds, in bytes: keys, values, and [`ENTRY_OVERHEAD_BYTES`] for each entry.
const CACHE_BYTES: usize = 8 << 20;
/// What it takes to find an entry, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 128;
const KEY_BYTES_MAX: usize = 512;
const VALUE_BYTES_MAX: usize = 64 << 10;
/// What one call changes.
const WRITES_MAX: usize = 256;
const WRITTEN_BYTES_MAX: usize = 1 << 20;

const NO_OPERATION: NotBegun = NotBegun::new(codes::MF1207, "the operation is not one of caches");
const NOT_GRANTED: NotBegun =
    NotBegun::new(codes::MF1201, "the function may look at this cache, and not change it");
const NO_KEY: NotBegun = NotBegun::new(codes::MF1202, "a key of a cache has 1 to 512 bytes");
const LARGE_VALUE: NotBegun = NotBegun::new(codes::MF1202, "a value of a cache has at most 65536 bytes");
const LARGE_OUTCOME: NotBegun = NotBegun::new(
    codes::MF1202,
    "these values together have more than 131072 bytes: ask for fewer keys at once",
);
const MANY_WRITES: NotBegun =
    NotBegun::new(codes::MF1202, "a call changes at most 256 entries of caches, of 1048576 bytes together");

/// The caches of this node.
#[derive(Debug)]
pub(crate) struct Caches(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Those at a time; beyond it the one that was used longest ago is dropped.
    count_max: usize,
    caches: LruCache<ResourceName, Cache>,
    numbers: CacheNumbers,
}

/// What the caches hold, and what was found in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CacheNumbers {
    pub(crate) bytes: usize,
    /// Keys that calls asked for and found, and did not find.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// The cache of a resource.
#[derive(Debug)]
struct Cache {
    entries: LruCache<Vec<u8>, Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    value: Arc<[u8]>,
    expires: Option<Instant>,
}

/// What a call changes in caches when it succeeds.
#[derive(Debug, Default)]
pub(super) struct CacheWrites {
    by_resource: BTreeMap<ResourceName, BTreeMap<Vec<u8>, Write>>,
    count: usize,
    bytes: usize,
}

#[derive(Debug)]
enum Write {
    Put { value: Arc<[u8]>, expiry: KvExpiry },
    Delete,
}

/// Caches that hold nothing.
impl Default for Caches {
    fn default() -> Self {
        Self::within(0)
    }
}

impl Caches {
    /// Empty ones, which take at most so much memory together.
    pub(crate) fn within(bytes: usize) -> Self {
        let (caches, numbers) = (LruCache::unbounded(), CacheNumbers::default());
        Self(Mutex::new(State { count_max: bytes / CACHE_BYTES, caches, numbers }))
    }

    /// Does what a function asks of a cache that it may look at or also change; for the call alone, if it is a change.
    pub(super) fn answer(
        &self,
        writes: &mut CacheWrites,
        (resource, access): (&ResourceName, DataAccess),
        request: &[u8],
    ) -> Result<Vec<u8>, NotBegun> {
        let request = KvRequest::decode(request).ok_or(NO_OPERATION)?;
        if request.writes() && access < DataAccess::Write {
            return Err(NOT_GRANTED);
        }
        match request {
            KvRequest::Get { keys } => {
                let values = self.get(writes, resource, &keys)?;
                Ok(KvReply::Values(values.iter().map(Option::as_deref).collect()).encode())
            }
            KvRequest::Put { key, value, expiry } => {
                if value.len() > VALUE_BYTES_MAX {
                    return Err(LARGE_VALUE);
                }
                writes.insert(resource, key, Write::Put { value: value.into(), expiry })
            }
            KvRequest::Delete { key } => writes.insert(resource, key, Write::Delete),
            KvRequest::Increment { .. } | KvRequest::CompareAndSet { .. } | KvRequest::Scan { .. } => {
                Err(NO_OPERATION)
            }
        }
    }

    fn get(
        &self,
        writes: &CacheWrites,
        resource: &ResourceName,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<Arc<[u8]>>>, NotBegun> {
        let own = writes.by_resource.get(resource);
        let now = Instant::now();
        let mut state = self.lock();
        let State { caches, numbers, .. } = &mut *state;
        let mut cache = caches.get_mut(resource);
        let (mut values, mut bytes) = (Vec::with_capacity(keys.len()), 0);
        for key in keys {
            let value = match own.and_then(|own| own.get(*key)) {
                Some(write) => write.value().cloned(),
                None => cache.as_mut().and_then(|cache| cache.get(key, now)),
            };
            match &value {
                Some(value) => (numbers.hits, bytes) = (numbers.hits + 1, bytes + value.len()),
                None => numbers.misses += 1,
            }
            // With what stands around a value.
            bytes += 5;
            if bytes > OUTCOME_BYTES_MAX - size_of::<u32>() {
                return Err(LARGE_OUTCOME);
            }
            values.push(value);
        }
        Ok(values)
    }

    /// What a call changed that has succeeded is for all to see.
    pub(super) fn apply(&self, writes: CacheWrites) {
        if writes.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut state = self.lock();
        let State { count_max, caches, numbers } = &mut *state;
        for (resource, writes) in writes.by_resource {
            let cache = caches.get_or_insert_mut(resource, Cache::new);
            numbers.bytes -= cache.bytes;
            writes.into_iter().for_each(|(key, write)| cache.set(key, write, now));
            numbers.bytes += cache.bytes;
            if caches.len() > *count_max {
                let dropped = caches.pop_lru();
                numbers.bytes -= dropped.map_or(0, |(_, cache)| cache.bytes);
            }
        }
    }

    pub(crate) fn numbers(&self) -> CacheNumbers {
        self.lock().numbers
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn new() -> Self {
        Self { entries: LruCache::unbounded(), bytes: 0 }
    }

    fn get(&mut self, key: &[u8], now: Instant) -> Option<Arc<[u8]>> {
        let entry = self.entries.get(key)?;
        entry.expires.is_none_or(|at| now < at).then(|| Arc::clone(&entry.value))
    }

    fn set(&mut self, key: Vec<u8>, write: Write, now: Instant) {
        let key_bytes = key.len();
        let before = match write {
            Write::Delete => self.entries.pop(&key),
            Write::Put { value, expiry } => {
                let expires = match expiry {
                    KvExpiry::Never => None,
                    // What is beyond the clock's reach never comes.
                    KvExpiry::AfterMs(ms) => now.checked_add(Duration::from_millis(ms)),
                };
                self.bytes += size(key_bytes, &value);
                self.entries.put(key, Entry { value, expires })
            }
        };
        self.bytes -= before.map_or(0, |entry| size(key_bytes, &entry.value));
        while self.bytes > CACHE_BYTES {
            let Some((key, entry)) = self.entries.pop_lru() else { break };
            self.bytes -= size(key.len(), &entry.value);
        }
    }
}

impl CacheWrites {
    fn insert(&mut self, resource: &ResourceName, key: &[u8], write: Write) -> Result<Vec<u8>, NotBegun> {
        if !(1..=KEY_BYTES_MAX).contains(&key.len()) {
            return Err(NO_KEY);
        }
        let before = self.by_resource.get(resource).and_then(|writes| writes.get(key));
        let count = self.count + usize::from(before.is_none());
        let size = |write: &Write| size(key.len(), write.value().map_or(&[], |value| value));
        let bytes = self.bytes - before.map_or(0, size) + size(&write);
        if count > WRITES_MAX || bytes > WRITTEN_BYTES_MAX {
            return Err(MANY_WRITES);
        }
        (self.count, self.bytes) = (count, bytes);
        self.by_resource.entry(resource.clone()).or_default().insert(key.to_vec(), write);
        Ok(KvReply::Done.encode())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What they take in memory, in bytes, within a little.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Write {
    fn value(&self) -> Option<&Arc<[u8]>> {
        match self {
            Self::Put { value, .. } => Some(value),
            Self::Delete => None,
        }
    }
}

/// What an entry counts for.
fn size(key_bytes: usize, value: &[u8]) -> usize {
    key_bytes + value.len() + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests;
