//! A queue that tenants share: each has a lane within bounds of its own, lanes take turns, and when all of
//! them together hold too much, the one that holds the most loses its oldest.
//!
//! It must never let what one tenant adds take away what another, who holds less, has waiting.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use mfaas_ident::TenantName;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Things of all tenants.
    pub(crate) items_max: usize,
    /// Their bytes.
    pub(crate) bytes_max: usize,
    /// Things of one tenant.
    pub(crate) tenant_items_max: usize,
    /// Their bytes.
    pub(crate) tenant_bytes_max: usize,
}

/// Which bound something had to make room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Full {
    /// Its tenant's.
    Tenant,
    /// That of all, of which its tenant held the most.
    Node,
}

impl Full {
    /// The label in metrics.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Node => "node",
        }
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    bounds: Bounds,
    /// Lanes with anything in them, by a number that no other lane has had.
    lanes: BTreeMap<u64, Lane<T>>,
    numbers: HashMap<TenantName, u64>,
    /// Whose turn is next. Numbers of lanes that are gone are passed over.
    turns: VecDeque<u64>,
    /// Lanes by how much they hold.
    sizes: BTreeSet<(usize, u64)>,
    items: usize,
    bytes: usize,
    next_number: u64,
}

#[derive(Debug)]
struct Lane<T> {
    tenant: TenantName,
    held: VecDeque<(T, usize)>,
    bytes: usize,
}

impl<T> FairQueue<T> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            lanes: BTreeMap::new(),
            numbers: HashMap::new(),
            turns: VecDeque::new(),
            sizes: BTreeSet::new(),
            items: 0,
            bytes: 0,
            next_number: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Adds to a tenant's lane. Gives back what had to make room for it, which may be the thing itself.
    pub(crate) fn push(&mut self, tenant: &TenantName, item: T, bytes: usize) -> Vec<(T, Full)> {
        let number = self.lane_of(tenant);
        self.change(number, |lane| {
            lane.held.push_back((item, bytes));
            lane.bytes += bytes;
        });
        (self.items, self.bytes) = (self.items + 1, self.bytes + bytes);
        let mut dropped = Vec::new();
        while self.is_over(number) {
            dropped.extend(self.take_oldest(number).map(|item| (item, Full::Tenant)));
        }
        while self.items > self.bounds.items_max || self.bytes > self.bounds.bytes_max {
            let Some(&(_, largest)) = self.sizes.last() else { break };
            dropped.extend(self.take_oldest(largest).map(|item| (item, Full::Node)));
        }
        dropped
    }

    /// The oldest of the tenant whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        loop {
            let number = self.turns.pop_front()?;
            if let Some(item) = self.take_oldest(number) {
                if self.lanes.contains_key(&number) {
                    self.turns.push_back(number);
                }
                return Some(item);
            }
        }
    }

    fn lane_of(&mut self, tenant: &TenantName) -> u64 {
        if let Some(number) = self.numbers.get(tenant) {
            return *number;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.lanes.insert(number, Lane { tenant: tenant.clone(), held: VecDeque::new(), bytes: 0 });
        self.numbers.insert(tenant.clone(), number);
        self.turns.push_back(number);
        number
    }

    fn is_over(&self, number: u64) -> bool {
        self.lanes.get(&number).is_some_and(|lane| {
            lane.held.len() > self.bounds.tenant_items_max || lane.bytes > self.bounds.tenant_bytes_max
        })
    }

    /// `None` for a lane that is gone. One that becomes empty goes.
    fn take_oldest(&mut self, number: u64) -> Option<T> {
        let (item, bytes) = self.change(number, |lane| {
            let taken = lane.held.pop_front()?;
            lane.bytes -= taken.1;
            Some(taken)
        })??;
        (self.items, self.bytes) = (self.items - 1, self.bytes - bytes);
        if self.lanes.get(&number).is_some_and(|lane| lane.held.is_empty())
            && let Some(lane) = self.lanes.remove(&number)
        {
            self.sizes.remove(&(self.weight(&lane), number));
            self.numbers.remove(&lane.tenant);
        }
        Some(item)
    }

    /// Changes a lane, and keeps its place among the sizes.
    fn change<R>(&mut self, number: u64, change: impl FnOnce(&mut Lane<T>) -> R) -> Option<R> {
        let before = self.weight(self.lanes.get(&number)?);
        let lane = self.lanes.get_mut(&number)?;
        let result = change(lane);
        let after = self.weight(self.lanes.get(&number)?);
        self.sizes.remove(&(before, number));
        self.sizes.insert((after, number));
        Some(result)
    }

    /// Bytes, with each thing counted as what it takes of the bound on things.
    fn weight(&self, lane: &Lane<T>) -> usize {
        lane.bytes + lane.held.len() * (self.bounds.bytes_max / self.bounds.items_max)
    }
}

#[cfg(test)]
mod tests;
