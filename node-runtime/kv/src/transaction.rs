//! What one call has seen and wants to change.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use mfaas_ident::ResourceName;
use uuid::Uuid;

use crate::KvError;
use crate::key::{Key, Place, Range};
use crate::limits::{
    ENTRY_BYTES, EXPIRY_MAX, READ_BYTES_MAX, READ_KEYS_MAX, SCANS_MAX, VALUE_BYTES_MAX, WRITTEN_BYTES_MAX,
    WRITTEN_KEYS_MAX,
};

/// Bytes that lie elsewhere, under a number that no others ever have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blob {
    /// The number.
    pub id: Uuid,
    /// How many bytes.
    pub bytes: u64,
}

/// What lies under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Bytes, in the database.
    Bytes(Arc<[u8]>),
    /// Bytes elsewhere.
    Blob(Blob),
}

impl Value {
    /// The bytes, if they lie in the database.
    pub fn into_bytes(self) -> Result<Arc<[u8]>, KvError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Blob(_) => Err(KvError::OtherKind),
        }
    }

    /// Where the bytes lie, if that is elsewhere.
    pub fn into_blob(self) -> Result<Blob, KvError> {
        match self {
            Self::Blob(blob) => Ok(blob),
            Self::Bytes(_) => Err(KvError::OtherKind),
        }
    }

    /// As it stands in the database, in bytes.
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Blob(_) => 0,
        }
    }
}

/// An entry as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    /// No other change of any entry has the same.
    pub(crate) version: i64,
}

/// How long an entry stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Until it is changed or deleted.
    Never,
    /// So long from the commit on.
    After(Duration),
    /// As the entry has it, if this call has read it; else never.
    Kept,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    Put { value: Value, expiry: Expiry },
    Delete,
}

impl Write {
    pub(crate) fn value(&self) -> Option<&Value> {
        match self {
            Self::Put { value, .. } => Some(value),
            Self::Delete => None,
        }
    }

    pub(crate) fn blob(&self) -> Option<Blob> {
        match self.value()? {
            Value::Blob(blob) => Some(*blob),
            Value::Bytes(_) => None,
        }
    }

    /// With its key, in bytes.
    fn size(&self, place: &Place) -> usize {
        place.key.as_bytes().len() + self.value().map_or(0, Value::len)
    }
}

/// What a scan found in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) resource: ResourceName,
    /// What was looked through: up to the last entry if there may be more.
    pub(crate) range: Range,
    /// Of all entries in it, in the order of their keys.
    pub(crate) versions: Vec<i64>,
}

impl Scan {
    /// Whether it looked there.
    fn covers(&self, place: &Place) -> bool {
        self.resource == place.resource && self.range.contains(place.key.as_bytes())
    }
}

/// A part of the entries whose keys begin alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// In the order of their keys.
    pub entries: Vec<(Key, Value)>,
    /// After which key the next part begins; the end if absent. A part may be empty and not be the last one.
    pub next: Option<Key>,
}

/// What one call has seen and wants to change.
#[derive(Debug, Default)]
pub struct Transaction {
    pub(crate) seen: BTreeMap<Place, Option<Entry>>,
    pub(crate) scans: Vec<Scan>,
    pub(crate) writes: BTreeMap<Place, Write>,
    /// Keys that scans have given.
    scanned: usize,
    /// Of all that was read, keys and values.
    read_bytes: usize,
    /// Of all writes, keys and values.
    written_bytes: usize,
    /// Of what is remembered of reads, and what it takes to find it.
    remembered_bytes: usize,
    /// Of the call that made this one, if one did.
    base: Arc<Base>,
    /// What it saw of what that call had seen or changed.
    pub(crate) relied: BTreeSet<Place>,
}

/// What a call had seen and changed when it made another one.
#[derive(Debug, Default, Clone)]
struct Base {
    seen: BTreeMap<Place, Option<Entry>>,
    writes: BTreeMap<Place, Write>,
    /// In memory.
    bytes: usize,
}

impl Base {
    fn knows(&self, place: &Place) -> bool {
        self.writes.contains_key(place) || self.seen.contains_key(place)
    }
}

/// What it takes to remember one thing besides its bytes: about what the maps need.
const ENTRY_OVERHEAD_BYTES: usize = 128;

impl Transaction {
    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Whether its answer counts only after a commit: it changes something, or has seen things that have to belong together.
    pub fn needs_commit(&self) -> bool {
        self.writes() || self.seen.len() > 1 || !self.scans.is_empty()
    }

    /// Of which resources it changes something, and some of them more than once.
    pub(crate) fn written_resources(&self) -> impl Iterator<Item = &ResourceName> {
        self.writes.keys().map(|place| &place.resource)
    }

    /// The same, with what the calls that made it have changed.
    pub(crate) fn changed_resources(&self) -> impl Iterator<Item = &ResourceName> {
        self.written_resources().chain(self.base.writes.keys().map(|place| &place.resource))
    }

    /// All resources that it has to do with, and some of them more than once: those that it changes first.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceName> {
        let seen = self.seen.keys().map(|place| &place.resource);
        self.written_resources().chain(seen).chain(self.scans.iter().map(|scan| &scan.resource))
    }

    /// What each resource would hold more, in bytes, as far as the call knows what was there; nothing if it would hold less. Blobs it
    /// holds already: from the moment on at which they were announced.
    pub fn growth(&self) -> BTreeMap<&ResourceName, u64> {
        let mut growth = BTreeMap::new();
        for (place, write) in &self.writes {
            let Some(value) = write.value() else { continue };
            let bytes = match self.entry(place) {
                Some(Some(before)) => value.len().saturating_sub(before.value.len()) as u64,
                Some(None) | None => (place.key.as_bytes().len() + value.len()) as u64 + ENTRY_BYTES,
            };
            *growth.entry(&place.resource).or_default() += bytes;
        }
        growth
    }

    /// What it holds in memory, in bytes, within a little.
    pub fn held_bytes(&self) -> usize {
        let entries = self.writes.len() + self.relied.len();
        self.base.bytes + self.remembered_bytes + self.written_bytes + entries * ENTRY_OVERHEAD_BYTES
    }

    /// Of a call that this one makes: it begins with what this one has seen and changed.
    #[must_use]
    pub fn of_callee(&self) -> Self {
        let mut base = Base::clone(&self.base);
        base.seen.extend(self.seen.iter().map(|(place, entry)| (place.clone(), entry.clone())));
        base.writes.extend(self.writes.iter().map(|(place, write)| (place.clone(), write.clone())));
        base.bytes = self.held_bytes();
        Self { base: Arc::new(base), ..Self::default() }
    }

    /// A call that this one made has succeeded: what it saw and changed is from now on as if this one had.
    ///
    /// # Errors
    /// [`KvError::Conflict`] if this call, or another one that it made, has changed meanwhile what that one saw or changed, or saw
    /// something else; [`KvError::Limit`] if it is more than one call may see or change. Then nothing of it is taken over.
    pub fn absorb(&mut self, callee: Self) -> Result<(), KvError> {
        let is_touched = |place: &Place| {
            callee.seen.contains_key(place)
                || callee.writes.contains_key(place)
                || callee.relied.contains(place)
                || callee.scans.iter().any(|scan| scan.covers(place))
        };
        let mut changed =
            self.writes.iter().filter(|(place, write)| callee.base.writes.get(place) != Some(write));
        let mut seen = callee.seen.iter().filter_map(|(place, entry)| Some((entry, self.seen.get(place)?)));
        if changed.any(|(place, _)| is_touched(place)) || seen.any(|(one, other)| one != other) {
            return Err(KvError::Conflict);
        }
        let replaced = callee.writes.keys().filter_map(|place| self.writes.get_key_value(place));
        let (replaced_keys, replaced_bytes) =
            replaced.fold((0, 0), |(keys, bytes), (place, write)| (keys + 1, bytes + write.size(place)));
        let read_bytes = self.read_bytes + callee.read_bytes;
        let written_bytes = self.written_bytes - replaced_bytes + callee.written_bytes;
        within("keys read by one call", self.read_keys() + callee.read_keys(), READ_KEYS_MAX)?;
        within("bytes read by one call", read_bytes, READ_BYTES_MAX)?;
        within("scans of one call", self.scans.len() + callee.scans.len(), SCANS_MAX)?;
        let keys = self.writes.len() - replaced_keys + callee.writes.len();
        within("keys changed by one call", keys, WRITTEN_KEYS_MAX)?;
        within("bytes changed by one call", written_bytes, WRITTEN_BYTES_MAX)?;
        (self.read_bytes, self.written_bytes) = (read_bytes, written_bytes);
        self.remembered_bytes += callee.remembered_bytes;
        self.scanned += callee.scanned;
        self.seen.extend(callee.seen);
        self.scans.extend(callee.scans);
        // What is not this call's own.
        let Self { base, seen, relied, .. } = self;
        relied
            .extend(callee.relied.into_iter().filter(|place| base.knows(place) && !seen.contains_key(place)));
        self.writes.extend(callee.writes);
        Ok(())
    }

    /// How the call, or those that made it, changed what is there.
    fn written(&self, place: &Place) -> Option<&Write> {
        self.writes.get(place).or_else(|| self.base.writes.get(place))
    }

    /// What they read there.
    fn entry(&self, place: &Place) -> Option<&Option<Entry>> {
        self.seen.get(place).or_else(|| self.base.seen.get(place))
    }

    /// Remembers which of these the callers of this call have seen or changed, and not itself.
    pub(crate) fn relies_on(&mut self, places: impl Iterator<Item = Place>) {
        let Self { base, seen, writes, relied, .. } = self;
        let is_own = |place: &Place| writes.contains_key(place) || seen.contains_key(place);
        relied.extend(places.filter(|place| base.knows(place) && !is_own(place)));
    }

    /// The call has read what is there, or that nothing is.
    pub(crate) fn saw(&mut self, places: Vec<Place>, entries: Vec<Option<Entry>>) -> Result<(), KvError> {
        let found = places.iter().zip(&entries).filter_map(|(at, entry)| Some((&at.key, entry.as_ref()?)));
        let read_bytes = self.read_bytes + found.map(size).sum::<usize>();
        within("bytes read by one call", read_bytes, READ_BYTES_MAX)?;
        self.read_bytes = read_bytes;
        // Also where nothing is.
        let value_bytes = |entry: &Option<Entry>| entry.as_ref().map_or(0, |entry| entry.value.len());
        let bytes = |(at, entry): (&Place, &Option<Entry>)| {
            at.resource.as_str().len() + at.key.as_bytes().len() + value_bytes(entry) + ENTRY_OVERHEAD_BYTES
        };
        self.remembered_bytes += places.iter().zip(&entries).map(bytes).sum::<usize>();
        self.seen.extend(places.into_iter().zip(entries));
        Ok(())
    }

    /// Sets a value.
    pub fn put(&mut self, place: Place, value: Vec<u8>, expiry: Expiry) -> Result<(), KvError> {
        let expiry = if expiry == Expiry::Kept { self.expiry(&place) } else { expiry };
        within("bytes of a value", value.len(), VALUE_BYTES_MAX)?;
        if let Expiry::After(time) = expiry {
            within("seconds until an entry expires", time.as_secs() as usize, EXPIRY_MAX.as_secs() as usize)?;
        }
        self.write(place, Write::Put { value: Value::Bytes(value.into()), expiry })
    }

    /// Whether one more key may be changed, if this is one.
    pub fn may_change(&self, place: &Place) -> Result<(), KvError> {
        let more = usize::from(!self.writes.contains_key(place));
        within("keys changed by one call", self.writes.len() + more, WRITTEN_KEYS_MAX)
    }

    /// The blobs that its changes name.
    pub fn blobs(&self) -> impl Iterator<Item = Blob> {
        self.writes.values().filter_map(Write::blob)
    }

    /// Sets what lies under a key to a blob that was announced ([`crate::Store::announce`]).
    pub fn put_blob(&mut self, place: Place, blob: Blob) -> Result<(), KvError> {
        self.write(place, Write::Put { value: Value::Blob(blob), expiry: Expiry::Never })
    }

    /// Removes an entry, which need not be there.
    pub fn delete(&mut self, place: Place) -> Result<(), KvError> {
        self.write(place, Write::Delete)
    }

    /// What stays as it is when an entry gets another value.
    fn expiry(&self, place: &Place) -> Expiry {
        match (self.written(place), self.entry(place)) {
            (Some(Write::Put { expiry, .. }), _) => *expiry,
            (None, Some(Some(_))) => Expiry::Kept,
            (Some(Write::Delete), _) | (None, Some(None) | None) => Expiry::Never,
        }
    }

    /// What this call reads there, if the database need not be asked.
    pub(crate) fn known(&self, place: &Place) -> Option<Option<Value>> {
        if let Some(write) = self.written(place) {
            return Some(write.value().cloned());
        }
        self.entry(place).map(|seen| seen.as_ref().map(|entry| entry.value.clone()))
    }

    pub(crate) fn read_keys(&self) -> usize {
        self.seen.len() + self.scanned + self.relied.len()
    }

    /// Remembers what a scan of a range found, `limit` entries at most, and gives it with this call's own changes.
    pub(crate) fn scanned(
        &mut self,
        resource: &ResourceName,
        range: Range,
        limit: usize,
        found: Vec<(Key, Entry)>,
    ) -> Result<Page, KvError> {
        let read_bytes = self.read_bytes + found.iter().map(|(key, entry)| size((key, entry))).sum::<usize>();
        within("bytes read by one call", read_bytes, READ_BYTES_MAX)?;
        self.read_bytes = read_bytes;
        let mut next = found.last().filter(|_| found.len() >= limit).map(|(key, _)| key.clone());
        let range = next.as_ref().map_or(range.clone(), |last| range.up_to(last.as_bytes()));
        let versions: Vec<i64> = found.iter().map(|(_, entry)| entry.version).collect();
        self.scanned += found.len();
        let mut entries: BTreeMap<Key, Value> =
            found.into_iter().map(|(key, entry)| (key, entry.value)).collect();
        let beginning = Place { resource: resource.clone(), key: Key::of_entry(range.from.clone()) };
        // The call's own over those of its callers.
        for writes in [&self.base.writes, &self.writes] {
            let of_range = writes.range((Bound::Included(beginning.clone()), Bound::Unbounded));
            for (place, write) in
                of_range.take_while(|(at, _)| at.resource == *resource && range.contains(at.key.as_bytes()))
            {
                match write.value() {
                    Some(value) => entries.insert(place.key.clone(), value.clone()),
                    None => entries.remove(&place.key),
                };
            }
        }
        self.remembered_bytes += range.from.len()
            + range.to.len()
            + versions.len() * size_of::<i64>()
            + resource.as_str().len()
            + ENTRY_OVERHEAD_BYTES;
        self.scans.push(Scan { resource: resource.clone(), range, versions });
        if entries.len() > limit {
            // Those that this call has made are among them. The rest comes with the next part.
            next = entries.keys().nth(limit - 1).cloned();
        }
        Ok(Page { entries: entries.into_iter().take(limit).collect(), next })
    }

    fn write(&mut self, place: Place, write: Write) -> Result<(), KvError> {
        self.may_change(&place)?;
        let before = self.writes.get(&place);
        let before_bytes = before.map_or(0, |before| before.size(&place));
        let bytes = self.written_bytes - before_bytes + write.size(&place);
        within("bytes changed by one call", bytes, WRITTEN_BYTES_MAX)?;
        self.written_bytes = bytes;
        self.writes.insert(place, write);
        Ok(())
    }
}

fn size((key, entry): (&Key, &Entry)) -> usize {
    key.as_bytes().len() + entry.value.len()
}

pub(crate) fn within(what: &'static str, count: usize, max: usize) -> Result<(), KvError> {
    if count <= max { Ok(()) } else { Err(KvError::Limit { what, count, max }) }
}
