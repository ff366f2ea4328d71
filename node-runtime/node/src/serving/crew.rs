//! The supervisors of worker processes: one thread for each place, which starts a worker, tells the
//! dispatcher, waits for its end, tells that too, and starts the next one.
//!
//! The thread lives as long as the node: the kernel ends a worker with the thread that spawned it.
//! There are as many places as the node may have workers at a time. One whose worker was parked and is
//! gone is there for whatever cordon needs it next, which waits if there is none.
//! Must never report a death before the process was waited for, and never give a place to another
//! cordon while a worker of the one before lives there.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mfaas_dispatch::{CordonId, SlabId, WorkerId};

use super::intake::{Arrival, Event, Intake};
use super::process::{StartError, WorkerProcess};
use super::protection::Protection;
use crate::cores::Cores;

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
    /// No process is here, and none will be unless somebody wants it.
    vacant: bool,
    /// Grows with each worker, and with each cordon that gets the place: news about the one before mean
    /// nothing to the next.
    life: u32,
}

/// A worker that is to be started.
#[derive(Debug)]
struct Need {
    id: WorkerId,
    cordon: CordonId,
    slab: Slab,
}

impl Place {
    /// Whether its keeper gives it to the next cordon that waits.
    fn is_free(&self) -> bool {
        self.vacant && !self.wanted
    }
}

#[derive(Debug, Default)]
struct State {
    slab: Option<Slab>,
    places: Vec<Place>,
    /// Cordons that wait for a place, each as often as it wants workers.
    waiting: VecDeque<CordonId>,
    keepers: Vec<JoinHandle<()>>,
    closed: bool,
}

impl State {
    /// Whether more workers wait than there are places that will be given to them.
    fn is_short(&self) -> bool {
        self.waiting.len() > self.places.iter().filter(|place| place.is_free()).count()
    }
}

/// All places.
#[derive(Debug)]
pub(crate) struct Crew {
    program: PathBuf,
    cores: Cores,
    places_max: usize,
    intake: Intake,
    protection: Arc<Protection>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Crew {
    /// A crew without places. `program` is the worker's executable, `places_max` how many of them there
    /// are at a time at most.
    pub(crate) fn new(
        program: PathBuf,
        cores: Cores,
        places_max: usize,
        intake: Intake,
        protection: Arc<Protection>,
    ) -> Self {
        let (state, changed) = Default::default();
        Self { program, cores, places_max, intake, protection, state, changed }
    }

    /// Wants so many workers more for a cordon. Where there is no place for them, they wait for one.
    pub(crate) fn man(self: &Arc<Self>, cordon: CordonId, workers: usize) -> std::io::Result<()> {
        let mut state = self.lock();
        state.waiting.extend(std::iter::repeat_n(cordon, workers));
        self.changed.notify_all();
        // Beyond the vacant places, which their keepers give away.
        while !state.closed && state.places.len() < self.places_max && state.is_short() {
            let Some(cordon) = state.waiting.pop_front() else { break };
            let number = state.places.len();
            state.places.push(Place { cordon, wanted: true, vacant: false, life: 0 });
            let crew = Arc::clone(self);
            let keeper = std::thread::Builder::new()
                .name(format!("keeper-{number}"))
                .spawn(move || crew.keep(number as u16))?;
            state.keepers.push(keeper);
        }
        if state.is_short() {
            tracing::warn!(cordon = cordon.0, "a worker waits for a place");
        }
        Ok(())
    }

    /// No worker is wanted at this place after this one, which leaves.
    pub(crate) fn park(&self, worker: WorkerId) {
        if let Some(place) = self.lock().places.get_mut(usize::from(worker.place))
            && place.life == worker.life
        {
            place.wanted = false;
        }
        self.changed.notify_all();
    }

    /// Workers are wanted for this cordon again, or for the first time: `workers`, unless it has its places
    /// still.
    pub(crate) fn unpark(self: &Arc<Self>, cordon: CordonId, workers: usize) {
        let missing = {
            let mut state = self.lock();
            let places = state.places.iter_mut().filter(|place| place.cordon == cordon);
            let known = places.map(|place| place.wanted = true).count();
            let waiting = state.waiting.iter().filter(|waiting| **waiting == cordon).count();
            workers.saturating_sub(known + waiting)
        };
        if let Err(error) = self.man(cordon, missing) {
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
    fn keep(&self, place: u16) {
        if let Err(error) = self.cores.take_place(usize::from(place)) {
            tracing::warn!(place, %error, "a worker runs on other cores than it should");
        }
        let mut pause = RESTART_PAUSE_MIN;
        while let Some(need) = self.await_need(place) {
            let born = Instant::now();
            let orderly = match self.live(&need) {
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
    fn live(&self, need: &Need) -> Result<bool, StartError> {
        let (id, cordon, slab) = (need.id, need.cordon, need.slab.id);
        let (mut worker, ring, started) =
            WorkerProcess::start(&self.program, need.slab.memory.as_fd(), self.protection.speculation())?;
        self.protection.heard(started);
        let process = worker.descriptor()?;
        tracing::info!(
            place = id.place,
            life = id.life,
            cordon = cordon.0,
            pid = worker.pid(),
            "a worker is ready"
        );
        self.intake.say(Event::Arrived(Box::new(Arrival { id, cordon, slab, ring, process })));
        let status = worker.wait();
        self.intake.say(Event::Died(id));
        if !status.success() {
            metrics::counter!("mfaas_worker_restarts_total").increment(1);
            tracing::warn!(place = id.place, life = id.life, %status, "a worker is replaced");
        }
        Ok(status.success())
    }

    /// Waits until a worker is wanted at the place and there is a slab for it; `None` when no more
    /// are started. No process is at the place meanwhile, so any cordon may have it.
    fn await_need(&self, place: u16) -> Option<Need> {
        let mut state = self.lock();
        loop {
            let State { slab, places, waiting, closed, .. } = &mut *state;
            let here = places.get_mut(usize::from(place)).filter(|_| !*closed)?;
            if !here.wanted
                && let Some(cordon) = waiting.pop_front()
            {
                *here = Place { cordon, wanted: true, vacant: false, life: here.life + 1 };
            }
            here.vacant = !here.wanted;
            if let Some(slab) = slab.as_ref().filter(|_| here.wanted) {
                here.life += 1;
                let id = WorkerId { place, life: here.life };
                return Some(Need { id, cordon: here.cordon, slab: slab.clone() });
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

#[cfg(test)]
mod tests;
