//! Crashes by function, and the bans that follow from them.
//!
//! Only what ends a worker process counts. A panic or a spent budget ends its own call and costs
//! nobody else anything, so it never leads to a ban.

use std::collections::{BTreeMap, VecDeque};

use crate::{FunctionId, Limits, Moment};

/// Who was on the core when workers died.
#[derive(Debug, Default)]
pub(crate) struct Strikes {
    crashes: BTreeMap<FunctionId, VecDeque<Moment>>,
    banned: BTreeMap<FunctionId, u32>,
}

impl Strikes {
    /// Counts one crash; `Some(count)` when this one led to a ban.
    pub(crate) fn crash(&mut self, now: Moment, function: FunctionId, limits: &Limits) -> Option<u32> {
        if self.banned.contains_key(&function) {
            return None;
        }
        let seen = self.crashes.entry(function).or_default();
        seen.push_back(now);
        while seen.front().is_some_and(|at| now.since(*at) > limits.crash_window_us) {
            seen.pop_front();
        }
        let count = u32::try_from(seen.len()).unwrap_or(u32::MAX);
        if count < limits.crashes_before_ban {
            return None;
        }
        self.crashes.remove(&function);
        self.banned.insert(function, count);
        Some(count)
    }

    /// Bans the function for crashes that somebody else counted; `false` when it is banned already.
    pub(crate) fn hold(&mut self, function: FunctionId, crashes: u32) -> bool {
        self.crashes.remove(&function);
        let is_new = !self.banned.contains_key(&function);
        self.banned.entry(function).or_insert(crashes);
        is_new
    }

    /// Forgets the ban and what led to it.
    pub(crate) fn lift(&mut self, function: FunctionId) {
        if self.banned.remove(&function).is_some() {
            self.crashes.remove(&function);
        }
    }

    /// The crashes that led to the ban of `function`, if it is banned.
    pub(crate) fn ban(&self, function: FunctionId) -> Option<u32> {
        self.banned.get(&function).copied()
    }

    /// Every banned function.
    pub(crate) fn banned(&self) -> impl Iterator<Item = (FunctionId, u32)> + '_ {
        self.banned.iter().map(|(function, count)| (*function, *count))
    }
}
