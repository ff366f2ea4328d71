//! Crashes by function, as far as they may still lead to a ban.
//!
//! Only what ends a worker process counts. A panic or a spent budget ends its own call and costs
//! nobody else anything, so it never leads to a ban.

use std::collections::{BTreeMap, VecDeque};

use crate::{FunctionId, Limits, Moment};

/// Who was on the core when workers died.
#[derive(Debug, Default)]
pub(crate) struct Strikes {
    crashes: BTreeMap<FunctionId, VecDeque<Moment>>,
}

impl Strikes {
    /// Counts one crash; `Some(count)` when this one is to lead to a ban.
    pub(crate) fn crash(&mut self, now: Moment, function: FunctionId, limits: &Limits) -> Option<u32> {
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
        Some(count)
    }

    /// Forgets what was counted against `function`.
    pub(crate) fn forget(&mut self, function: FunctionId) {
        self.crashes.remove(&function);
    }
}
