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
const ENTRY_OVERHEAD_BYTES: usize = 192;
const KEY_BYTES_MAX: usize = 512;
const VALUE_BYTES_MAX: usize = 64 << 10;
/// What one call changes: an entry may drive out hundreds of small ones, on a thread through which all calls pass.
const WRITES_MAX: usize = 256;
const WRITTEN_BYTES_MAX: usize = 256 << 10;
/// What a call asks of caches before it goes on: so many keys, and no more after so many bytes of values.
const KEYS_AT_ONCE_MAX: usize = 256;
const BYTES_AT_ONCE_MAX: usize = 256 << 10;
/// A cache with more entries than this is taken apart by a thread of its own.
const DROPPED_HERE_MAX: usize = 1_000;

const NO_OPERATION: NotBegun = NotBegun::new(codes::MF1207, "the operation is not one of caches");
const NOT_GRANTED: NotBegun =
    NotBegun::new(codes::MF1201, "the function may look at this cache, and not change it");
const NO_KEY: NotBegun = NotBegun::new(codes::MF1202, "a key of a cache has 1 to 512 bytes");
const LARGE_VALUE: NotBegun = NotBegun::new(codes::MF1202, "a value of a cache has at most 65536 bytes");
const LARGE_OUTCOME: NotBegun = NotBegun::new(
    codes::MF1202,
    "these values together have more than 135168 bytes: ask for fewer keys at once",
);
const MUCH_AT_ONCE: NotBegun = NotBegun::new(
    codes::MF1202,
    "a call asks caches for at most 256 keys at once, and for no more after 262144 bytes",
);
const MANY_WRITES: NotBegun =
    NotBegun::new(codes::MF1202, "a call changes at most 256 entries of caches, of 262144 bytes together");

/// The caches of this node.
#[derive(Debug)]
pub(crate) struct Caches(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Those at a time; beyond it the one that was used longest ago is dropped.
    count_max: usize,
    caches: LruCache<ResourceName, Cache>,
    hits: u64,
    misses: u64,
}

/// What a call has asked caches for since it went on last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AtOnce {
    keys: usize,
    bytes: usize,
}

impl AtOnce {
    /// Keys that were looked up.
    pub(super) fn keys(&self) -> usize {
        self.keys
    }
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
        let caches = LruCache::unbounded();
        Self(Mutex::new(State { count_max: bytes / CACHE_BYTES, caches, hits: 0, misses: 0 }))
    }

    /// Does what a function asks of a cache that it may look at or also change; for the call alone, if it is a change.
    pub(super) fn answer(
        &self,
        writes: &mut CacheWrites,
        (resource, access): (&ResourceName, DataAccess),
        request: &[u8],
        at_once: &mut AtOnce,
    ) -> Result<Vec<u8>, NotBegun> {
        let request = KvRequest::decode(request).ok_or(NO_OPERATION)?;
        if request.writes() && access < DataAccess::Write {
            return Err(NOT_GRANTED);
        }
        match request {
            KvRequest::Get { keys } => self.get(writes, resource, &keys, at_once),
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

    /// The values that a function asks for, if that is all it asks and comes to something.
    pub(super) fn look_up(
        &self,
        writes: &CacheWrites,
        resource: &ResourceName,
        request: &[u8],
        at_once: &mut AtOnce,
    ) -> Option<Vec<u8>> {
        match KvRequest::decode(request)? {
            KvRequest::Get { keys } => self.get(writes, resource, &keys, at_once).ok(),
            _ => None,
        }
    }

    fn get(
        &self,
        writes: &CacheWrites,
        resource: &ResourceName,
        keys: &[&[u8]],
        at_once: &mut AtOnce,
    ) -> Result<Vec<u8>, NotBegun> {
        if at_once.keys + keys.len() > KEYS_AT_ONCE_MAX || at_once.bytes > BYTES_AT_ONCE_MAX {
            return Err(MUCH_AT_ONCE);
        }
        // One without keys takes a moment as well.
        at_once.keys += keys.len().max(1);
        let own = writes.by_resource.get(resource);
        let now = Instant::now();
        let mut state = self.lock();
        let State { caches, hits, misses, .. } = &mut *state;
        let mut cache = caches.get_mut(resource);
        let (mut values, mut bytes) = (Vec::with_capacity(keys.len()), size_of::<u32>());
        for key in keys {
            let value = match own.and_then(|own| own.get(*key)) {
                Some(write) => write.value().cloned(),
                None => cache.as_mut().and_then(|cache| cache.get(key, now)),
            };
            let counted = if value.is_some() { &mut *hits } else { &mut *misses };
            *counted += 1;
            // With what stands around a value.
            bytes += 5 + value.as_ref().map_or(0, |value| value.len());
            at_once.bytes += value.as_ref().map_or(0, |value| value.len());
            if bytes > OUTCOME_BYTES_MAX {
                return Err(LARGE_OUTCOME);
            }
            values.push(value);
        }
        Ok(KvReply::Values(values.iter().map(Option::as_deref).collect()).encode())
    }

    /// What a call changed that has succeeded is for all to see.
    pub(super) fn apply(&self, writes: CacheWrites) {
        if writes.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut dropped = Vec::new();
        let mut state = self.lock();
        let State { count_max, caches, .. } = &mut *state;
        for (resource, writes) in writes.by_resource {
            // To delete what is not there makes no cache, which might drive out another one.
            let puts = writes.values().any(|write| write.value().is_some());
            if !puts && !caches.contains(&resource) {
                continue;
            }
            let cache = caches.get_or_insert_mut(resource, Cache::new);
            writes.into_iter().for_each(|(key, write)| cache.set(key, write, now));
            if caches.len() > *count_max {
                dropped.extend(caches.pop_lru());
            }
        }
        drop(state);
        let is_large = dropped.iter().any(|(_, cache)| cache.entries.len() > DROPPED_HERE_MAX);
        if is_large {
            let name = "cache-drop".to_owned();
            // Where there is no thread to be had it is taken apart here.
            let _ = std::thread::Builder::new().name(name).spawn(move || drop(dropped));
        }
    }

    pub(crate) fn numbers(&self) -> CacheNumbers {
        let State { caches, hits, misses, .. } = &*self.lock();
        let bytes = caches.iter().map(|(_, cache)| cache.bytes).sum();
        CacheNumbers { bytes, hits: *hits, misses: *misses }
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
        if entry.expires.is_none_or(|at| now < at) {
            return Some(Arc::clone(&entry.value));
        }
        let entry = self.entries.pop(key)?;
        self.bytes -= size(key.len(), &entry.value);
        None
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
        let (count, bytes) = self.sizes_with(resource, key, &write);
        if count > WRITES_MAX || bytes > WRITTEN_BYTES_MAX {
            return Err(MANY_WRITES);
        }
        (self.count, self.bytes) = (count, bytes);
        self.by_resource.entry(resource.clone()).or_default().insert(key.to_vec(), write);
        Ok(KvReply::Done.encode())
    }

    /// How many there would be with this one, and their bytes.
    fn sizes_with(&self, resource: &ResourceName, key: &[u8], write: &Write) -> (usize, usize) {
        let before = self.by_resource.get(resource).and_then(|writes| writes.get(key));
        let size = |write: &Write| size(key.len(), write.value().map_or(&[], |value| value));
        let count = self.count + usize::from(before.is_none());
        (count, self.bytes - before.map_or(0, size) + size(write))
    }

    /// A call that the call made has succeeded: its changes are this one's. Whether they are no more than one call makes; otherwise
    /// none is taken over.
    pub(super) fn absorb(&mut self, callee: Self) -> bool {
        if self.count + callee.count > WRITES_MAX || self.bytes + callee.bytes > WRITTEN_BYTES_MAX {
            return false;
        }
        for (resource, writes) in callee.by_resource {
            for (key, write) in writes {
                (self.count, self.bytes) = self.sizes_with(&resource, &key, &write);
                self.by_resource.entry(resource.clone()).or_default().insert(key, write);
            }
        }
        true
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
