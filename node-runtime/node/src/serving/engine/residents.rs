//! Images from their definition until nothing needs them: what they are, who waits for them, and what the loader is to do.
//!
//! Where an image is, only the scheduler knows. Must never let go of an image that has a slot or is on its way into one, and
//! never leave somebody waiting for an image that is not on its way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use mfaas_dispatch::{FunctionId, Misuse, Scheduler, SlabId, Standing};
use tokio::sync::oneshot;

use crate::image::VerifiedImage;
use crate::serving::loading::Task;
use crate::serving::table::Served;

/// Hears when an image is resident, or cold because there is no room; the error is a sentence.
type Defined = oneshot::Sender<Result<(), String>>;

/// A function that was defined.
#[derive(Debug)]
struct Known {
    served: Arc<Served>,
    image: Arc<VerifiedImage>,
    /// Let go of once it is in no slot.
    retired: bool,
}

/// Every image that the node has or waits for.
#[derive(Debug)]
pub(super) struct Residents {
    known: HashMap<FunctionId, Known>,
    /// Who waits for a definition to be resident.
    pending: HashMap<FunctionId, Vec<Defined>>,
    loader: Sender<Task>,
}

impl Residents {
    pub(super) fn new(loader: Sender<Task>) -> Self {
        Self { known: HashMap::new(), pending: HashMap::new(), loader }
    }

    /// What calls name the function by, if it is defined.
    pub(super) fn served(&self, function: FunctionId) -> Option<&Arc<Served>> {
        self.known.get(&function).map(|known| &known.served)
    }

    /// Every function that is defined.
    pub(super) fn all_served(&self) -> impl Iterator<Item = &Served> {
        self.known.values().map(|known| &*known.served)
    }

    /// The scheduler knows the function: `done` waits for its image.
    pub(super) fn insert(
        &mut self,
        served: Arc<Served>,
        image: Arc<VerifiedImage>,
        done: Defined,
        scheduler: &Scheduler,
    ) {
        let function = served.id;
        self.known.insert(function, Known { served, image, retired: false });
        self.pending.entry(function).or_default().push(done);
        self.resolve(function, Ok(()), scheduler);
    }

    /// The scheduler does not take the function.
    pub(super) fn refuse(&mut self, function: FunctionId, done: Defined, misuse: Misuse) {
        self.known.remove(&function);
        // The agent may have gone away, here and below.
        let _ = done.send(Err(misuse.to_string()));
    }

    /// Answers all that wait for the function, unless it is still on its way.
    pub(super) fn resolve(
        &mut self,
        function: FunctionId,
        result: Result<(), String>,
        scheduler: &Scheduler,
    ) {
        if scheduler.standing(function) != Standing::Coming {
            self.answer(function, result, scheduler);
        }
    }

    /// Answers all that wait for the function.
    pub(super) fn answer(&mut self, function: FunctionId, result: Result<(), String>, scheduler: &Scheduler) {
        if let (Err(reason), Some(known)) = (&result, self.known.get(&function)) {
            tracing::error!(function = %known.served.key, reason, "an image cannot be loaded");
        }
        for done in self.pending.remove(&function).into_iter().flatten() {
            let _ = done.send(result.clone());
        }
        self.forget_if_cold(function, scheduler);
    }

    /// The slabs were replaced: who waits for an image that is not on its way into another one has its answer.
    pub(super) fn resolve_all(&mut self, scheduler: &Scheduler) {
        let all: Vec<_> = self.pending.keys().copied().collect();
        all.into_iter().for_each(|function| self.resolve(function, Ok(()), scheduler));
    }

    /// The function takes no more calls: its image goes once nothing needs it.
    pub(super) fn retire(&mut self, function: FunctionId, scheduler: &Scheduler) {
        if let Some(known) = self.known.get_mut(&function) {
            known.retired = true;
        }
        self.forget_if_cold(function, scheduler);
    }

    /// Has the image loaded; `false` if it was let go of while the last calls of a retired function waited for a new slab.
    pub(super) fn load(&self, function: FunctionId, slab: SlabId) -> bool {
        let Some(known) = self.known.get(&function) else { return false };
        self.ask(Task::Load { function, slab, image: Arc::clone(&known.image) });
        true
    }

    /// Has the function taken out of its slot.
    pub(super) fn unload(&mut self, function: FunctionId, slot: u32, slab: SlabId, scheduler: &Scheduler) {
        self.ask(Task::Unload { slot, slab });
        self.forget_if_cold(function, scheduler);
    }

    /// Has the room of an image given away that was unloaded.
    pub(super) fn reclaim(&self, slot: u32, slab: SlabId) {
        self.ask(Task::Reclaim { slot, slab });
    }

    /// Has a slab made, for a worker to map.
    pub(super) fn open(&self, slab: SlabId) {
        self.ask(Task::Open(slab));
    }

    /// Has a slab given up that nobody needs any more.
    pub(super) fn close(&self, slab: SlabId) {
        self.ask(Task::Close(slab));
    }

    fn ask(&self, task: Task) {
        // Its thread ends only with the node.
        let _ = self.loader.send(task);
    }

    fn forget_if_cold(&mut self, function: FunctionId, scheduler: &Scheduler) {
        let retired = self.known.get(&function).is_some_and(|known| known.retired);
        if retired && scheduler.standing(function) == Standing::Cold {
            self.known.remove(&function);
        }
    }
}
