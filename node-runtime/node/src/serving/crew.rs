//! The supervisors of worker processes: one thread for each place, which starts a worker, tells the
//! dispatcher, waits for its end, tells that too, and starts the next one.
//!
//! The thread lives as long as the node: the kernel ends a worker with the thread that spawned it.
//! Must never report a death before the process was waited for.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mfaas_dispatch::{CordonId, SlabId, WORKERS_CAP, WorkerId};

use super::intake::{Arrival, Event, Intake};
use super::process::{StartError, WorkerProcess};
use super::protection::Protection;
use crate::cores::Cores;

/// Workers of a tenant that has its own.
const PRIVATE_WORKERS: usize = 1;
const RESTART_PAUSE_MIN: Duration = Duration::from_millis(20);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);
/// A worker that lived this long makes the next restart immediate again.
const STEADY: Duration = Duration::from_secs(10);

/// The memory that workers map.
#[derive(Debug, Clone)]
struct Slab {
    id: SlabId,
    memory: Arc<OwnedFd>,
}

#[derive(Debug)]
struct Place {
    cordon: CordonId,
    /// Somebody wants a worker here.
    wanted: bool,
}

#[derive(Debug, Default)]
struct State {
    slab: Option<Slab>,
    places: Vec<Place>,
    keepers: Vec<JoinHandle<()>>,
    closed: bool,
}

/// All places.
#[derive(Debug)]
pub(crate) struct Crew {
    program: PathBuf,
    cores: Cores,
    intake: Intake,
    protection: Arc<Protection>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Crew {
    /// A crew without places. `program` is the worker's executable.
    pub(crate) fn new(program: PathBuf, cores: Cores, intake: Intake, protection: Arc<Protection>) -> Self {
        let (state, changed) = Default::default();
        Self { program, cores, intake, protection, state, changed }
    }

    /// Adds places of a cordon, each with its thread. Beyond [`WORKERS_CAP`] none is added.
    pub(crate) fn man(self: &Arc<Self>, cordon: CordonId, workers: usize) -> std::io::Result<()> {
        let mut state = self.lock();
        for _ in 0..workers {
            let number = state.places.len();
            if number >= WORKERS_CAP || state.closed {
                tracing::error!(cordon = cordon.0, "there is no place for another worker");
                return Ok(());
            }
            state.places.push(Place { cordon, wanted: true });
            let crew = Arc::clone(self);
            let keeper = std::thread::Builder::new()
                .name(format!("keeper-{number}"))
                .spawn(move || crew.keep(number as u16, cordon))?;
            state.keepers.push(keeper);
        }
        Ok(())
    }

    /// No worker is wanted at this place after the one that leaves.
    pub(crate) fn park(&self, place: u16) {
        if let Some(place) = self.lock().places.get_mut(usize::from(place)) {
            place.wanted = false;
        }
    }

    /// Workers are wanted for this cordon again, or for the first time.
    pub(crate) fn unpark(self: &Arc<Self>, cordon: CordonId) {
        let known = {
            let mut state = self.lock();
            let places = state.places.iter_mut().filter(|place| place.cordon == cordon);
            places.map(|place| place.wanted = true).count()
        };
        self.changed.notify_all();
        if known == 0
            && let Err(error) = self.man(cordon, PRIVATE_WORKERS)
        {
            tracing::error!(%error, "a supervisor cannot be started");
        }
    }

    /// Workers that start from now on map this slab.
    pub(crate) fn give_slab(&self, id: SlabId, memory: OwnedFd) {
        self.lock().slab = Some(Slab { id, memory: Arc::new(memory) });
        self.changed.notify_all();
    }

    /// No worker is started any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Whether every thread, and with it every worker, is gone. Only after [`Self::close`].
    pub(crate) fn is_gone(&self) -> bool {
        let mut state = self.lock();
        state.keepers.retain(|keeper| !keeper.is_finished());
        state.keepers.is_empty()
    }

    /// A panic under the lock is a bug of ours; places and slab are still what they are.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills one place until the node stops.
    fn keep(&self, place: u16, cordon: CordonId) {
        if let Err(error) = self.cores.take_place(usize::from(place)) {
            tracing::warn!(place, %error, "a worker runs on other cores than it should");
        }
        let mut pause = RESTART_PAUSE_MIN;
        let mut life = 0;
        while let Some(slab) = self.await_need(place) {
            life += 1;
            let id = WorkerId { place, life };
            let born = Instant::now();
            let orderly = match self.live(id, cordon, &slab) {
                Ok(orderly) => orderly,
                Err(error) => {
                    tracing::error!(place, %error, "a worker cannot be started yet");
                    false
                }
            };
            let steady = orderly || born.elapsed() > STEADY;
            pause = if steady { RESTART_PAUSE_MIN } else { (pause * 2).min(RESTART_PAUSE_MAX) };
            self.rest(pause);
        }
    }

    /// One worker from its start to its end; whether it left because it was asked to.
    fn live(&self, id: WorkerId, cordon: CordonId, slab: &Slab) -> Result<bool, StartError> {
        let (mut worker, ring, keys) = WorkerProcess::start(&self.program, slab.memory.as_fd())?;
        self.protection.heard(keys);
        let process = worker.descriptor()?;
        tracing::info!(place = id.place, life = id.life, pid = worker.pid(), "a worker is ready");
        self.intake.say(Event::Arrived(Box::new(Arrival { id, cordon, slab: slab.id, ring, process })));
        let status = worker.wait();
        self.intake.say(Event::Died(id));
        if !status.success() {
            metrics::counter!("mfaas_worker_restarts_total").increment(1);
            tracing::warn!(place = id.place, life = id.life, %status, "a worker is replaced");
        }
        Ok(status.success())
    }

    /// Waits until a worker is wanted at the place and there is a slab for it; `None` when no more
    /// are started.
    fn await_need(&self, place: u16) -> Option<Slab> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let wanted = state.places.get(usize::from(place)).is_some_and(|place| place.wanted);
            if let Some(slab) = state.slab.as_ref().filter(|_| wanted) {
                return Some(slab.clone());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Pauses, but not past the end of the node.
    fn rest(&self, pause: Duration) {
        let state = self.lock();
        // Whatever ends the pause early, what follows looks at the state again.
        drop(self.changed.wait_timeout_while(state, pause, |state| !state.closed));
    }
}
