//! Whose operation is next: as many at a time as there are connections, tenants in turn, by deficit round robin over what their
//! operations weigh. No tenant has more than half of what runs, or less, so that slow operations of one leave room for others.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mfaas_ident::TenantName;
use tokio::sync::oneshot;

/// What a tenant may weigh in its turn before the next one has its own, in bytes.
const QUANTUM: usize = 64 << 10;
/// What an operation weighs besides its bytes.
pub(crate) const OPERATION_WEIGHT: usize = 4 << 10;
/// Operations that have come and not ended, of all tenants and of one, and their bytes; further ones are refused.
const OPEN_MAX: Bound = Bound { operations: 16_384, bytes: 256 << 20 };
const TENANT_OPEN_MAX: Bound = Bound { operations: 1_024, bytes: 32 << 20 };

/// So many operations, and bytes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bound {
    operations: usize,
    bytes: usize,
}

impl Bound {
    fn is_within(&self, most: Self) -> bool {
        self.operations <= most.operations && self.bytes <= most.bytes
    }

    fn with(self, bytes: usize) -> Self {
        Self { operations: self.operations + 1, bytes: self.bytes + bytes }
    }

    fn without(self, bytes: usize) -> Self {
        Self { operations: self.operations - 1, bytes: self.bytes - bytes }
    }
}

/// As many operations are open as may be, of the tenant or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Who runs, and who waits.
#[derive(Debug)]
pub(crate) struct Turns {
    running_max: usize,
    tenant_running_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Bound,
    running: usize,
    /// Those with something open.
    tenants: HashMap<TenantName, Tenant>,
    /// Those of which something waits for its turn; the first has it.
    ring: VecDeque<TenantName>,
}

#[derive(Debug, Default)]
struct Tenant {
    open: Bound,
    running: usize,
    /// What is left of its turn, in bytes.
    deficit: usize,
    /// What its operations have brought, which the next one pays for.
    owed: usize,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    weight: usize,
    starts: oneshot::Sender<Turn>,
}

/// Something that has come and not ended.
#[derive(Debug)]
pub(crate) struct Open {
    turns: Arc<Turns>,
    tenant: TenantName,
    bytes: usize,
}

/// Something that runs.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    tenant: TenantName,
    /// Nobody took it.
    is_void: bool,
}

impl Turns {
    /// So many run at a time.
    pub(crate) fn new(running_max: usize) -> Self {
        Self::of(running_max, running_max.div_ceil(2))
    }

    /// So many run at a time, and so many of one tenant.
    pub(crate) fn of(running_max: usize, tenant_running_max: usize) -> Self {
        Self { running_max, tenant_running_max, state: Mutex::default() }
    }

    /// An operation of the tenant has come, of so many bytes.
    pub(crate) fn open(self: &Arc<Self>, name: &TenantName, bytes: usize) -> Result<Open, Full> {
        let mut state = self.lock();
        let of_tenant = state.tenants.get(name).map_or(Bound::default(), |tenant| tenant.open).with(bytes);
        if !of_tenant.is_within(TENANT_OPEN_MAX) || !state.open.with(bytes).is_within(OPEN_MAX) {
            return Err(Full);
        }
        Ok(self.count(&mut state, name, bytes))
    }

    /// A commit of the tenant has come, of which a call has one: it is never refused.
    pub(crate) fn open_commit(self: &Arc<Self>, name: &TenantName) -> Open {
        self.count(&mut self.lock(), name, 0)
    }

    fn count(self: &Arc<Self>, state: &mut State, name: &TenantName, bytes: usize) -> Open {
        state.open = state.open.with(bytes);
        let tenant = state.tenants.entry(name.clone()).or_default();
        tenant.open = tenant.open.with(bytes);
        Open { turns: Arc::clone(self), tenant: name.clone(), bytes }
    }

    /// Starts what may run.
    fn start(self: &Arc<Self>, state: &mut State) {
        // Tenants in a row that could not start anything.
        let mut passed = 0;
        while state.running < self.running_max && passed < state.ring.len() {
            let Some(name) = state.ring.front().cloned() else { return };
            let Some(tenant) = state.tenants.get_mut(&name) else { return };
            if tenant.running >= self.tenant_running_max {
                state.ring.rotate_left(1);
                passed += 1;
                continue;
            }
            passed = 0;
            match tenant.waiting.pop_front() {
                Some(first) if first.weight + tenant.owed > tenant.deficit => {
                    tenant.waiting.push_front(first);
                    tenant.deficit += QUANTUM;
                    // The turn of the next; what is left of this one stays.
                    state.ring.rotate_left(1);
                    continue;
                }
                Some(Waiting { weight, starts }) => {
                    let turn = Turn { turns: Arc::clone(self), tenant: name, is_void: false };
                    match starts.send(turn) {
                        Ok(()) => {
                            tenant.deficit -= weight + std::mem::take(&mut tenant.owed);
                            tenant.running += 1;
                            state.running += 1;
                        }
                        // Nobody waits for it any more.
                        Err(mut turn) => turn.is_void = true,
                    }
                }
                None => {}
            }
            if tenant.waiting.is_empty() {
                tenant.deficit = 0;
                if let Some(name) = state.ring.pop_front() {
                    state.forget_if_nothing(&name);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Nothing is remembered of a tenant of whom nothing is open.
    fn forget_if_nothing(&mut self, name: &TenantName) {
        let is_nothing =
            |tenant: &Tenant| tenant.open.operations == 0 && tenant.running == 0 && tenant.waiting.is_empty();
        if self.tenants.get(name).is_some_and(is_nothing) {
            self.tenants.remove(name);
        }
    }
}

impl Open {
    /// Waits for its turn; it weighs so many bytes.
    pub(crate) async fn turn(&self, weight: usize) -> Option<Turn> {
        let (starts, started) = oneshot::channel();
        {
            let mut state = self.turns.lock();
            let tenant = state.tenants.get_mut(&self.tenant)?;
            tenant.waiting.push_back(Waiting { weight, starts });
            if tenant.waiting.len() == 1 {
                state.ring.push_back(self.tenant.clone());
            }
            self.turns.start(&mut state);
        }
        // What waits is never forgotten.
        started.await.ok()
    }
}

impl Turn {
    /// What runs has brought so many bytes, which were not known when it began.
    pub(crate) fn charge(&self, bytes: usize) {
        if let Some(tenant) = self.turns.lock().tenants.get_mut(&self.tenant) {
            tenant.owed += bytes;
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        state.open = state.open.without(self.bytes);
        if let Some(tenant) = state.tenants.get_mut(&self.tenant) {
            tenant.open = tenant.open.without(self.bytes);
        }
        state.forget_if_nothing(&self.tenant);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_void {
            return;
        }
        let mut state = self.turns.lock();
        state.running -= 1;
        if let Some(tenant) = state.tenants.get_mut(&self.tenant) {
            tenant.running -= 1;
        }
        state.forget_if_nothing(&self.tenant);
        self.turns.start(&mut state);
    }
}

#[cfg(test)]
mod tests;
