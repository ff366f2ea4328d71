//! What of a call concerns one store.

use mfaas_ident::ResourceName;

use crate::key::Place;
use crate::transaction::{Scan, Transaction, Write};

/// What of a call concerns one store.
#[derive(Debug, Default)]
pub(crate) struct Part<'a> {
    /// What it saw there, by the version; none where nothing was.
    pub(crate) seen: Vec<(&'a Place, Option<i64>)>,
    pub(crate) scans: Vec<&'a Scan>,
    pub(crate) writes: Vec<(&'a Place, &'a Write)>,
}

impl<'a> Part<'a> {
    /// What concerns these resources.
    pub(crate) fn of(transaction: &'a Transaction, lies_there: impl Fn(&ResourceName) -> bool) -> Self {
        let Transaction { seen, scans, writes, .. } = transaction;
        let seen = seen.iter().filter(|(place, _)| lies_there(&place.resource));
        Self {
            seen: seen.map(|(place, entry)| (place, entry.as_ref().map(|entry| entry.version))).collect(),
            scans: scans.iter().filter(|scan| lies_there(&scan.resource)).collect(),
            writes: writes.iter().filter(|(place, _)| lies_there(&place.resource)).collect(),
        }
    }

    /// Whether it changes anything.
    pub(crate) fn writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Whether there is nothing of the call.
    pub(crate) fn is_empty(&self) -> bool {
        self.seen.is_empty() && self.scans.is_empty() && self.writes.is_empty()
    }
}
