//! Crashes, as far as they may still lead to a ban, and the functions that run alone because of one.
//!
//! Only what ends a worker process counts. A panic or a spent budget ends its own call and costs
//! nobody else anything, so it never leads to a ban. A process that ran several functions may have
//! been damaged by any of them, whoever was on the core when it fell: so its death is no strike, but a
//! reason to let each of them run in workers of its own, where the next crash has one author.

use std::collections::{BTreeMap, VecDeque};

use crate::{FunctionId, Limits, Moment, TenantId};

/// Where a function belongs that runs alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suspect {
    /// Its queue and pool before.
    pub(crate) home_queue: u32,
    pub(crate) home_pool: u32,
    /// It goes back then if its own workers live until then.
    pub(crate) until: Moment,
}

/// Who was on the core when workers died.
#[derive(Debug, Default)]
pub(crate) struct Strikes {
    crashes: BTreeMap<FunctionId, VecDeque<Moment>>,
    by_tenant: BTreeMap<TenantId, VecDeque<Moment>>,
    pub(crate) suspects: BTreeMap<u32, Suspect>,
    /// None of them goes back before this.
    earliest: Option<Moment>,
}

impl Strikes {
    /// A worker died that had run this function alone. `Some(count)` when that is to lead to a ban.
    pub(crate) fn crash(
        &mut self,
        now: Moment,
        function: FunctionId,
        tenant: TenantId,
        limits: &Limits,
    ) -> Option<u32> {
        let of_tenant = self.crash_of(now, tenant, limits);
        let count = count(self.crashes.entry(function).or_default(), now, limits);
        if count < limits.crashes_before_ban && of_tenant <= limits.tenant_crashes_before_ban {
            return None;
        }
        self.crashes.remove(&function);
        Some(count)
    }

    /// A worker died that had run functions of this tenant alone; how many did within the window.
    pub(crate) fn crash_of(&mut self, now: Moment, tenant: TenantId, limits: &Limits) -> u32 {
        count(self.by_tenant.entry(tenant).or_default(), now, limits)
    }

    /// Forgets what was counted against `function`.
    pub(crate) fn forget(&mut self, function: FunctionId) {
        self.crashes.remove(&function);
    }

    /// One more runs alone.
    pub(crate) fn add_suspect(&mut self, function: u32, suspect: Suspect) {
        self.earliest = Some(self.next_cleared().min(suspect.until));
        self.suspects.insert(function, suspect);
    }

    /// Takes out those who have run alone long enough.
    pub(crate) fn take_cleared(&mut self, now: Moment) -> Vec<(u32, Suspect)> {
        if self.next_cleared() > now {
            return Vec::new();
        }
        let cleared = self.suspects.iter().filter(|(_, suspect)| suspect.until <= now);
        let cleared: Vec<_> = cleared.map(|(function, suspect)| (*function, *suspect)).collect();
        self.suspects.retain(|_, suspect| suspect.until > now);
        self.earliest = self.suspects.values().map(|suspect| suspect.until).min();
        cleared
    }

    /// Nobody has before this. It is not looked for each time: a later crash puts off one's return.
    pub(crate) fn next_cleared(&self) -> Moment {
        self.earliest.unwrap_or(Moment::NEVER)
    }
}

/// More crashes than this are not remembered one by one.
const REMEMBERED_MAX: usize = 64;

/// Adds this moment, and counts those within the window.
fn count(seen: &mut VecDeque<Moment>, now: Moment, limits: &Limits) -> u32 {
    seen.push_back(now);
    while seen.len() > REMEMBERED_MAX
        || seen.front().is_some_and(|at| now.since(*at) > limits.crash_window_us)
    {
        seen.pop_front();
    }
    u32::try_from(seen.len()).unwrap_or(u32::MAX)
}
