//! How much of what all share each holder has: permits of requests, uploads, event streams, bytes of bodies.
//!
//! Each holder may have a part of the whole, so whoever takes all that they may leaves room for the others. Must never
//! wait: what is not there is refused.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mfaas_ident::{NodeName, PeerKey, TenantName};

/// Whom something is counted for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// Whoever has shown nothing, by address.
    Peer(PeerKey),
    /// Everybody with a token of it.
    Tenant(TenantName),
    Node(NodeName),
}

/// Which bound is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The holder's own.
    Share,
    /// That of all.
    All,
}

/// What is taken, by holder; one without anything has no row.
#[derive(Debug, Clone)]
pub(crate) struct Shares<K: Hash + Eq + Clone>(Arc<Bounded<K>>);

#[derive(Debug)]
struct Bounded<K> {
    all_max: usize,
    share_max: usize,
    held: Mutex<Held<K>>,
}

#[derive(Debug)]
struct Held<K> {
    all: usize,
    by_holder: HashMap<K, usize>,
}

impl<K: Hash + Eq + Clone> Shares<K> {
    /// Nothing is taken yet: at most `all_max` in all, and `share_max` by one holder.
    pub(crate) fn new(all_max: usize, share_max: usize) -> Self {
        let held = Mutex::new(Held { all: 0, by_holder: HashMap::new() });
        Self(Arc::new(Bounded { all_max, share_max, held }))
    }

    /// `amount` for the holder, until the share is dropped.
    pub(crate) fn take(&self, holder: &K, amount: usize) -> Result<Share<K>, Taken> {
        let mut share = Share { shares: self.clone(), holder: holder.clone(), amount: 0 };
        share.grow(amount)?;
        Ok(share)
    }

    /// Who has as much as a holder may.
    pub(crate) fn full(&self) -> Vec<K> {
        let held = self.held();
        let full = held.by_holder.iter().filter(|(_, amount)| **amount >= self.0.share_max);
        full.map(|(holder, _)| holder.clone()).collect()
    }

    /// What all have together.
    pub(crate) fn taken(&self) -> usize {
        self.held().all
    }

    fn held(&self) -> MutexGuard<'_, Held<K>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one holder has taken at once, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share<K: Hash + Eq + Clone> {
    shares: Shares<K>,
    holder: K,
    amount: usize,
}

impl<K: Hash + Eq + Clone> Share<K> {
    /// Takes `more` to what it has, or nothing.
    pub(crate) fn grow(&mut self, more: usize) -> Result<(), Taken> {
        let Bounded { all_max, share_max, .. } = &*self.shares.0;
        let mut held = self.shares.held();
        let of_holder = held.by_holder.get(&self.holder).copied().unwrap_or(0).saturating_add(more);
        let of_all = held.all.saturating_add(more);
        if of_holder > *share_max {
            return Err(Taken::Share);
        }
        if of_all > *all_max {
            return Err(Taken::All);
        }
        held.all = of_all;
        held.by_holder.insert(self.holder.clone(), of_holder);
        self.amount += more;
        Ok(())
    }
}

impl<K: Hash + Eq + Clone> Drop for Share<K> {
    fn drop(&mut self) {
        let mut held = self.shares.held();
        held.all -= self.amount;
        match held.by_holder.get_mut(&self.holder) {
            Some(of_holder) if *of_holder > self.amount => *of_holder -= self.amount,
            _ => drop(held.by_holder.remove(&self.holder)),
        }
    }
}

#[cfg(test)]
mod tests;
