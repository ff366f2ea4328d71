//! The supervisors of worker processes: one thread for each, which starts the worker, reports it to the
//! dispatcher, waits for its end, and reports that too. Who gets a worker and who loses one is the
//! scheduler's to decide; this carries it out.
//!
//! The thread lives as long as its worker: the kernel ends a worker with the thread that spawned it.
//! Must never report a death before the process was waited for, and never let a worker of a pool that
//! tenants share serve without what the site trusts for that.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mfaas_dispatch::{PoolKey, PoolKind, SlabId, WorkerId};
use mfaas_ident::Class;
use rustix::process::{Pid, Signal, pidfd_send_signal, setpriority_process};

use super::intake::{Arrival, Event, Intake};
use super::process::{StartError, WorkerKind, WorkerProcess};
use super::protection::Protection;
use super::sharing::Sharing;
use crate::cores::Cores;

/// Workers that start at a time: each takes a core for a few milliseconds.
const STARTING_MAX: usize = 4;
/// How much less the kernel gives long calls than short ones where both want a core: a third.
const LONG_NICENESS: i32 = 5;
/// The same for bulk calls: what nobody else wants, but for one part in seventy.
const BULK_NICENESS: i32 = 19;
/// A supervisor's stack, in bytes. It calls little; there may be thousands.
const STACK_BYTES: usize = 128 << 10;

/// A worker that is to be started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) id: WorkerId,
    pub(crate) pool: PoolKey,
    pub(crate) slab: SlabId,
}

/// The memory of a slab; none if it could not be made.
#[derive(Debug, Clone)]
struct Slab {
    life: u32,
    memory: Option<Arc<OwnedFd>>,
}

/// A worker that serves.
#[derive(Debug, Clone)]
struct Living {
    pid: u32,
    /// The same process and no other, as long as this is held.
    process: Arc<OwnedFd>,
    slab: u32,
}

#[derive(Debug, Default)]
struct State {
    slabs: HashMap<u32, Slab>,
    living: HashMap<WorkerId, Living>,
    /// Workers that are starting.
    starting: usize,
    /// Threads of this that have not ended.
    threads: usize,
    closed: bool,
}

/// All supervisors.
#[derive(Debug)]
pub(crate) struct WorkerSupervisor {
    program: PathBuf,
    cores: Cores,
    intake: Intake,
    protection: Arc<Protection>,
    sharing: Sharing,
    kind: WorkerKind,
    /// Where the isolation controller of this machine listens, if bulk calls give way to others.
    isolation: Option<PathBuf>,
    /// Of its threads.
    stack_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl WorkerSupervisor {
    /// Supervisors of none. `program` is the worker's executable.
    pub(crate) fn new(
        program: PathBuf,
        cores: Cores,
        intake: Intake,
        protection: Arc<Protection>,
        sharing: Sharing,
        kind: WorkerKind,
        isolation: Option<PathBuf>,
    ) -> Self {
        let (state, changed, stack_bytes) = (Mutex::default(), Condvar::new(), STACK_BYTES);
        Self { program, cores, intake, protection, sharing, kind, isolation, stack_bytes, state, changed }
    }

    /// Starts a worker. Its arrival or its death is reported, whatever happens, but where this is `false`: the engine, which asks, reads
    /// the reports, and must not wait for room among them.
    #[must_use]
    pub(crate) fn spawn(self: &Arc<Self>, wanted: Wanted) -> bool {
        self.lock().threads += 1;
        let supervisor = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name(format!("worker-{}", wanted.id.place))
            .stack_size(self.stack_bytes)
            .spawn(move || {
                let ended = Ended { supervisor: &supervisor, id: wanted.id };
                supervisor.supervise(&wanted);
                drop(ended);
            });
        let Err(error) = thread else { return true };
        tracing::error!(%error, "a supervisor cannot be started");
        self.lock().threads -= 1;
        false
    }

    /// Workers that start over this slab map this memory; without any they cannot start.
    pub(crate) fn give_slab(&self, id: SlabId, memory: Option<OwnedFd>) {
        let slab = Slab { life: id.life, memory: memory.map(Arc::new) };
        self.lock().slabs.insert(id.number, slab);
        self.changed.notify_all();
    }

    /// No worker maps this slab any more, or will.
    pub(crate) fn forget_slab(&self, id: SlabId) {
        let mut state = self.lock();
        if state.slabs.get(&id.number).is_some_and(|slab| slab.life == id.life) {
            state.slabs.remove(&id.number);
        }
    }

    /// Ends every worker that holds more memory of its own than its slab's workers may, in bytes.
    pub(super) fn end_large(&self, bytes_max: impl Fn(u32) -> u64) {
        let living: Vec<_> = self.lock().living.iter().map(|(id, worker)| (*id, worker.clone())).collect();
        for (id, Living { pid, process, slab }) in living {
            // One that is gone has no memory, and its number may be another process's: only the descriptor ends it.
            let bytes = match own_bytes(pid) {
                Ok(bytes) => bytes,
                Err(error) if is_gone(&error) => continue,
                // To end it would count against its functions, which did nothing: the fault is the machine's.
                Err(error) => {
                    tracing::warn!(pid, %error, "nobody bounds the memory of a worker: it cannot be read");
                    continue;
                }
            };
            let limit = bytes_max(slab);
            if bytes <= limit {
                continue;
            }
            let ended = pidfd_send_signal(process, Signal::KILL);
            metrics::counter!("mfaas_worker_memory_kills_total").increment(u64::from(ended.is_ok()));
            tracing::warn!(
                place = id.place,
                life = id.life,
                pid,
                bytes,
                limit,
                ended = ended.is_ok(),
                "a worker held more memory than all that its functions may have, and is replaced"
            );
        }
    }

    /// No worker is started any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Whether every thread, and with it every worker, is gone. Only after [`Self::close`].
    pub(crate) fn is_gone(&self) -> bool {
        self.lock().threads == 0
    }

    /// A panic under the lock is a bug of ours; what it holds is still what it is.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One worker from its start to its end.
    fn supervise(&self, wanted: &Wanted) {
        let (place, life) = (wanted.id.place, wanted.id.life);
        // Bulk calls stay where the node's own threads are: the cores of other workers are not theirs.
        let placed = match self.kind.class {
            Class::Micro => self.cores.take_place(usize::from(place), wanted.pool.is_shared()),
            Class::Bulk => Ok(()),
        };
        if let Err(error) = placed {
            tracing::warn!(place, %error, "a worker runs on other cores than it should");
        }
        let Some(memory) = self.await_turn(wanted.slab) else { return };
        let started = self.start(wanted, &memory);
        self.lock().starting -= 1;
        self.changed.notify_all();
        drop(memory);
        let mut worker = match started {
            Ok(worker) => worker,
            Err(error) => {
                tracing::error!(place, life, %error, "a worker cannot be started yet");
                return;
            }
        };
        let status = worker.wait();
        self.lock().living.remove(&wanted.id);
        if !status.success() {
            metrics::counter!("mfaas_worker_restarts_total").increment(1);
            tracing::warn!(place, life, pool = %wanted.pool, %status, "a worker ended by itself");
        }
    }

    /// Starts the process and reports that it is ready.
    fn start(&self, wanted: &Wanted, memory: &OwnedFd) -> Result<WorkerProcess, StartError> {
        let (worker, ring, started) =
            WorkerProcess::start(&self.program, memory.as_fd(), self.protection.speculation(), self.kind)?;
        let shared = wanted.pool.is_shared();
        if shared && !self.sharing.allows(started.keys.on) {
            let reason = format!("tenants share a worker only with protection keys: {}", started.keys.reason);
            return Err(StartError::Worker(reason));
        }
        self.protection.record(started);
        match self.kind.class {
            Class::Bulk => self.yield_to_all(worker.pid())?,
            Class::Micro if wanted.pool.kind == PoolKind::Long => be_nice(worker.pid(), LONG_NICENESS),
            Class::Micro => {}
        }
        let process = worker.descriptor()?;
        let (id, slab) = (wanted.id, wanted.slab);
        let living = Living { pid: worker.pid(), process: Arc::new(worker.descriptor()?), slab: slab.number };
        self.lock().living.insert(id, living);
        tracing::info!(
            place = id.place,
            life = id.life,
            class = %self.kind.class,
            pool = %wanted.pool,
            pid = worker.pid(),
            "a worker is ready"
        );
        self.intake.send(Event::Arrived(Box::new(Arrival { id, slab, ring, process })));
        Ok(worker)
    }

    /// A worker of bulk calls, before its first call: what runs beside others and must not be noticed by them.
    fn yield_to_all(&self, pid: u32) -> Result<(), StartError> {
        be_nice(pid, BULK_NICENESS);
        let Some(socket) = &self.isolation else { return Ok(()) };
        mfaas_isolation_client::place_child(socket, pid)
            .map_err(|error| StartError::Worker(error.to_string()))
    }

    /// Waits for the slab, and until few enough others are starting. Nothing if the slab is gone for good
    /// or the node stops.
    fn await_turn(&self, slab: SlabId) -> Option<Arc<OwnedFd>> {
        let mut state = self.lock();
        while !state.closed {
            match state.slabs.get(&slab.number) {
                Some(known) if known.life == slab.life => {
                    let memory = known.memory.clone()?;
                    if state.starting < STARTING_MAX {
                        state.starting += 1;
                        return Some(memory);
                    }
                }
                Some(known) if known.life > slab.life => return None,
                Some(_) | None => {}
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

/// Tells the end of a worker that was wanted, whatever the way out.
struct Ended<'a> {
    supervisor: &'a WorkerSupervisor,
    id: WorkerId,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.supervisor.intake.send(Event::Died(self.id));
        self.supervisor.lock().threads -= 1;
    }
}

/// Memory that is a process's own, in bytes: what is resident without files and shared memory.
fn own_bytes(pid: u32) -> std::io::Result<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let mut pages = statm.split_ascii_whitespace().skip(1).map_while(|text| text.parse::<u64>().ok());
    let (Some(resident), Some(shared)) = (pages.next(), pages.next()) else {
        return Err(std::io::Error::other("statm has other fields"));
    };
    Ok(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// Whether the error says that there is no such process any more.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Long calls leave cores to short ones.
fn be_nice(pid: u32, niceness: i32) {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Err(error) = setpriority_process(process, niceness) {
        tracing::warn!(%error, niceness, "long calls have the priority of short ones");
    }
}

#[cfg(test)]
mod tests;
