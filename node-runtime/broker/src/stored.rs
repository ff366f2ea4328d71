//! What resources hold, and that they hold no more than they may.
//!
//! The database sums it up now and then; what calls of this broker have written since then is added, and so is what they had written
//! shortly before, of which it is not certain that it was summed up. What other brokers write meanwhile is not known.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mfaas_ident::ResourceName;
use mfaas_kv::{KvError, Stores, Summed, Transaction};
use mfaas_rules::codes;

use crate::refusal::Refusal;

/// A change that was noted so long before the last one that was summed up is summed up: no statement of a broker takes as long. What
/// an operator changes in a transaction that does is summed up when a broker starts.
const SETTLED: Duration = Duration::from_secs(120);

/// What resources hold.
#[derive(Debug)]
pub(crate) struct Stored {
    /// What one may hold, in bytes, as the database counts them.
    bytes_max: u64,
    sizes: Mutex<Sizes>,
}

#[derive(Debug, Default)]
struct Sizes {
    /// Of those that hold at least half of what they may.
    large: HashMap<ResourceName, u64>,
    /// What calls of this broker have written since it was begun to sum up, since that was begun before, and before that.
    written: [HashMap<ResourceName, u64>; 3],
    /// Up to which change was summed up, and when.
    summed: VecDeque<(Instant, i64)>,
}

impl Sizes {
    /// The change from which on there may be some that are not summed up.
    fn first_unsummed(&mut self, now: Instant) -> i64 {
        while self.summed.len() > 1 && self.summed[1].0 + SETTLED <= now {
            self.summed.pop_front();
        }
        self.summed.front().filter(|(at, _)| *at + SETTLED <= now).map_or(0, |(_, change)| *change)
    }
}

impl Stored {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, sizes: Mutex::default() }
    }

    /// Whether a resource would hold as much as it may, as far as is known, if so many bytes more were stored there.
    fn is_full(&self, resource: &ResourceName, more: u64) -> bool {
        let sizes = self.lock();
        let written: u64 = sizes.written.iter().filter_map(|written| written.get(resource)).sum();
        match sizes.large.get(resource) {
            Some(before) => before.saturating_add(written).saturating_add(more) >= self.bytes_max,
            // One that is not known to be large may hold nearly half.
            None => written.saturating_add(more) >= self.bytes_max / 2,
        }
    }

    /// Nothing stands in the way of so many bytes more in a resource.
    pub(crate) fn has_room(&self, resource: &ResourceName, more: u64) -> Result<(), Refusal> {
        if !self.is_full(resource, more) {
            return Ok(());
        }
        let message =
            format!("`{resource}` would hold more than the {} bytes that a resource may", self.bytes_max);
        Err(Refusal::new(codes::MF1208, message))
    }

    /// Whether the changes of a call would store something in a resource that is full.
    pub(crate) fn has_no_room(&self, transaction: &Transaction) -> bool {
        transaction.growth().into_iter().any(|(resource, bytes)| bytes > 0 && self.is_full(resource, 0))
    }

    /// The changes of a call have taken effect.
    pub(crate) fn wrote(&self, transaction: &Transaction) {
        for (resource, bytes) in transaction.growth() {
            self.announced(resource, bytes);
        }
    }

    /// So many bytes are to be stored in a resource.
    pub(crate) fn announced(&self, resource: &ResourceName, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let written = &mut self.lock().written[0];
        match written.get_mut(resource) {
            Some(written) => *written = written.saturating_add(bytes),
            None => drop(written.insert(resource.clone(), bytes)),
        }
    }

    /// Has the database sum up what it holds, and asks the servers. Whether there may be more to be summed up.
    pub(crate) async fn renew(&self, stores: &Stores) -> Result<bool, KvError> {
        let from = {
            let mut sizes = self.lock();
            let [written, before, earlier] = std::mem::take(&mut sizes.written);
            sizes.written = [HashMap::new(), written, sum(before, earlier)];
            sizes.first_unsummed(Instant::now())
        };
        let Summed { last, may_be_more } = stores.postgres().sum_sizes(from).await?;
        let large = stores.large(self.bytes_max / 2).await?.into_iter().collect();
        let mut sizes = self.lock();
        sizes.large = large;
        if let Some(last) = last {
            sizes.summed.push_back((Instant::now(), last));
        }
        if !may_be_more {
            // Written before the time before was begun: by now it is summed up, by whichever broker.
            sizes.written[2] = HashMap::new();
        }
        Ok(may_be_more)
    }

    fn lock(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sum(mut one: HashMap<ResourceName, u64>, other: HashMap<ResourceName, u64>) -> HashMap<ResourceName, u64> {
    for (resource, bytes) in other {
        let sum = one.entry(resource).or_default();
        *sum = sum.saturating_add(bytes);
    }
    one
}
