//! What a call asks for that may have to be read from a store first.

use std::sync::Arc;

use mfaas_ident::ResourceName;

use crate::key::{Key, Place, Range};
use crate::limits::{KEY_BYTES_MAX, READ_KEYS_MAX, SCAN_ENTRIES_MAX, SCANS_MAX};
use crate::transaction::{Blob, Expiry, Page, Transaction, Value, within};
use crate::{KvError, Stores};

impl Transaction {
    /// The values of these keys, in their order: as this call changed them, or as it saw them before, or as they are now.
    pub async fn get(
        &mut self,
        stores: &Stores,
        resource: &ResourceName,
        keys: &[Key],
    ) -> Result<Vec<Option<Arc<[u8]>>>, KvError> {
        let values = self.look_up(stores, resource, keys).await?;
        values.into_iter().map(|value| value.map(Value::into_bytes).transpose()).collect()
    }

    /// The blob that lies under a key, likewise.
    pub async fn get_blob(&mut self, stores: &Stores, place: &Place) -> Result<Option<Blob>, KvError> {
        let values = self.look_up(stores, &place.resource, std::slice::from_ref(&place.key)).await?;
        values.into_iter().next().flatten().map(Value::into_blob).transpose()
    }

    async fn look_up(
        &mut self,
        stores: &Stores,
        resource: &ResourceName,
        keys: &[Key],
    ) -> Result<Vec<Option<Value>>, KvError> {
        let place = |key: &Key| Place { resource: resource.clone(), key: key.clone() };
        let mut unknown: Vec<Place> = keys.iter().map(place).filter(|at| self.known(at).is_none()).collect();
        unknown.sort_unstable();
        unknown.dedup();
        within("keys read by one call", self.read_keys() + unknown.len(), READ_KEYS_MAX)?;
        if !unknown.is_empty() {
            let entries = stores.read(resource, &unknown).await?;
            self.saw(unknown, entries)?;
        }
        self.relies_on(keys.iter().map(place));
        Ok(keys.iter().map(|key| self.known(&place(key)).flatten()).collect())
    }

    /// The next entries whose keys begin with `prefix` and come after `after`, `limit` at most, with this call's own changes.
    pub async fn scan(
        &mut self,
        stores: &Stores,
        resource: &ResourceName,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Page, KvError> {
        let limit = limit.max(1);
        within("entries of one scan", limit, SCAN_ENTRIES_MAX)?;
        within("scans of one call", self.scans.len() + 1, SCANS_MAX)?;
        within("keys read by one call", self.read_keys() + limit, READ_KEYS_MAX)?;
        within("bytes of a prefix", prefix.len(), KEY_BYTES_MAX)?;
        let range = Range::of_prefix(prefix, after.map(Key::as_bytes));
        let found = stores.scan(resource, &range, limit).await?;
        self.scanned(resource, range, limit, found)
    }

    /// Adds to a whole number, written in decimal; what is not there is 0. Gives the sum, which the commit confirms.
    pub async fn increment(&mut self, stores: &Stores, place: Place, by: i64) -> Result<i64, KvError> {
        let Some(before) = self.get_one(stores, &place).await? else {
            self.put(place, by.to_string().into_bytes(), Expiry::Never)?;
            return Ok(by);
        };
        let text = std::str::from_utf8(&before).map_err(|_| KvError::NotANumber)?;
        let number: i64 = text.trim_ascii().parse().map_err(|_| KvError::NotANumber)?;
        let sum = number.checked_add(by).ok_or(KvError::Overflow)?;
        self.put(place, sum.to_string().into_bytes(), Expiry::Kept)?;
        Ok(sum)
    }

    /// Sets or removes a value if it is the one that is expected, which may be none; whether it was, which the commit
    /// confirms.
    pub async fn compare_and_set(
        &mut self,
        stores: &Stores,
        place: Place,
        expected: Option<&[u8]>,
        value: Option<Vec<u8>>,
    ) -> Result<bool, KvError> {
        if self.get_one(stores, &place).await?.as_deref() != expected {
            return Ok(false);
        }
        match value {
            Some(value) => self.put(place, value, Expiry::Kept)?,
            None => self.delete(place)?,
        }
        Ok(true)
    }

    async fn get_one(&mut self, stores: &Stores, place: &Place) -> Result<Option<Arc<[u8]>>, KvError> {
        let values = self.get(stores, &place.resource, std::slice::from_ref(&place.key)).await?;
        Ok(values.into_iter().next().flatten())
    }
}
