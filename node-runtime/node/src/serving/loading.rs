//! The thread that talks to the loader: it asks for one image after the other and puts another loader
//! in the place of one that is gone.
//!
//! A loader's slab goes with it, so its replacement is a new slab: tasks that were meant for the old
//! one mean nothing any more. An image that was in the loader's hands when it ended is tried once
//! more; a second time it is the image that is at fault.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, atomic::AtomicBool, atomic::Ordering};
use std::time::Duration;

use mfaas_dispatch::{FunctionId, SlabId};

use super::crew::Crew;
use super::intake::{Event, Intake};
use super::loader::{LoadError, Loader};
use crate::agent::VerifiedImage;

const RESTART_PAUSE_MIN: Duration = Duration::from_millis(20);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Loaders that may end over one image before it is blamed.
const ENDS_BEFORE_BLAME: u32 = 2;

/// What the loader is to do.
#[derive(Debug)]
pub(crate) enum Task {
    /// Put an image into a slot of this slab.
    Load { function: FunctionId, slab: SlabId, image: Arc<VerifiedImage> },
    /// Free a slot of this slab.
    Unload { slot: u32, slab: SlabId },
}

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Loading {
    pub(crate) program: PathBuf,
    pub(crate) tasks: Receiver<Task>,
    pub(crate) crew: Arc<Crew>,
    pub(crate) intake: Intake,
    /// Set when the node stops.
    pub(crate) over: Arc<AtomicBool>,
    /// How many loaders ended over an image.
    pub(crate) ends: HashMap<FunctionId, u32>,
}

/// The loader cannot go on.
struct Gone;

impl Loading {
    /// Runs until the dispatcher is gone.
    pub(crate) fn run(mut self) {
        let mut slab = SlabId(0);
        let mut pause = RESTART_PAUSE_MIN;
        while !self.over.load(Ordering::Acquire) {
            match Loader::start(&self.program) {
                Ok(mut loader) => {
                    pause = RESTART_PAUSE_MIN;
                    match self.serve(&mut loader, slab) {
                        Ok(()) => return,
                        Err(Gone) => slab = SlabId(slab.0 + 1),
                    }
                    metrics::counter!("mfaas_loader_restarts_total").increment(1);
                    tracing::error!(slab = slab.0, "the loader is replaced, and its slab with it");
                    self.intake.say(Event::Renewed(slab));
                }
                Err(error) => {
                    tracing::error!(%error, "the loader cannot be started yet");
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(RESTART_PAUSE_MAX);
                }
            }
        }
    }

    /// Carries out tasks until there are none any more (`Ok`) or the loader is gone.
    fn serve(&mut self, loader: &mut Loader, slab: SlabId) -> Result<(), Gone> {
        let memory = loader.slab().try_clone_to_owned().map_err(|error| {
            tracing::error!(%error, "the slab cannot be shared");
            Gone
        })?;
        tracing::info!(slab = slab.0, pid = loader.pid(), "a loader is ready");
        self.crew.give_slab(slab, memory);
        while let Ok(task) = self.tasks.recv() {
            match task {
                Task::Load { function, slab: meant, image } if meant == slab => {
                    self.load(loader, slab, function, &image)?;
                }
                Task::Unload { slot, slab: meant } if meant == slab => {
                    loader.unload(slot).map_err(|error| {
                        tracing::error!(%error, slot, "a slot cannot be freed");
                        Gone
                    })?;
                }
                // Of a slab that went with its loader.
                Task::Load { .. } | Task::Unload { .. } => {}
            }
        }
        Ok(())
    }

    fn load(
        &mut self,
        loader: &mut Loader,
        slab: SlabId,
        function: FunctionId,
        image: &VerifiedImage,
    ) -> Result<(), Gone> {
        match loader.load(image) {
            Ok(resident) => {
                self.ends.remove(&function);
                tracing::debug!(function = %image.key(), slot = resident.slot, address = format_args!("{:#x}", resident.address), "an image is resident");
                let (slot, bytes) = (resident.slot, resident.bytes);
                self.intake.say(Event::Loaded { function, slab, slot, bytes });
            }
            Err(LoadError::Full) => self.intake.say(Event::NoRoom { function, slab }),
            Err(LoadError::Refused(reason)) => {
                self.intake.say(Event::LoadFailed { function, slab, reason });
            }
            Err(LoadError::Gone(error)) => return self.blame(slab, function, image, &error),
        }
        Ok(())
    }

    fn blame(
        &mut self,
        slab: SlabId,
        function: FunctionId,
        image: &VerifiedImage,
        error: &str,
    ) -> Result<(), Gone> {
        tracing::error!(function = %image.key(), error, "the loader ended over an image");
        let ends = self.ends.entry(function).or_default();
        *ends += 1;
        if *ends >= ENDS_BEFORE_BLAME {
            self.ends.remove(&function);
            let reason = "the loader ended over it twice".to_owned();
            self.intake.say(Event::LoadFailed { function, slab, reason });
        }
        Err(Gone)
    }
}
