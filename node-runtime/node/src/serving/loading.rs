//! The thread that talks to the loader: it asks for one slab or image after the other and puts another
//! loader in the place of one that is gone.
//!
//! A loader's slabs go with it, so its replacement makes new ones: tasks that were meant for the old
//! ones mean nothing any more. An image that was in the loader's hands when it ended is tried once
//! more; a second time it is the image that is at fault.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, atomic::AtomicBool, atomic::Ordering};
use std::time::Duration;

use mfaas_dispatch::{FunctionId, SlabId};

use super::intake::{Event, Intake};
use super::loader::{LoadError, Loader};
use super::supervisor::WorkerSupervisor;
use super::windows;
use crate::image::VerifiedImage;

const RESTART_PAUSE_MIN: Duration = Duration::from_millis(20);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Loaders that may end over one image before it is blamed.
const ENDS_BEFORE_BLAME: u32 = 2;

/// What the loader is to do.
#[derive(Debug)]
pub(crate) enum Task {
    /// Put an image into a slot of this slab.
    Load { function: FunctionId, slab: SlabId, image: Arc<VerifiedImage> },
    /// Put traps in the place of the image in a slot of this slab.
    Unload { slot: u32, slab: SlabId },
    /// Free the room of what was in the slot.
    Reclaim { slot: u32, slab: SlabId },
    /// Have this slab, for a worker to map.
    Open(SlabId),
    /// Nobody needs this slab any more.
    Close(SlabId),
}

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Loading {
    pub(crate) program: PathBuf,
    pub(crate) tasks: Receiver<Task>,
    pub(crate) supervisor: Arc<WorkerSupervisor>,
    pub(crate) intake: Intake,
    /// Set when the node stops.
    pub(crate) over: Arc<AtomicBool>,
    /// How many loaders ended over an image.
    pub(crate) ends: HashMap<FunctionId, u32>,
    /// The life of each slab that the loader has, by its number.
    pub(crate) slabs: HashMap<u32, u32>,
    /// No loader is there before there is something for it to do.
    pub(crate) on_demand: bool,
}

/// The loader cannot go on.
struct Gone;

/// What became of a slab that was to be opened.
enum Opened {
    /// Its memory is there.
    Ready,
    /// It is gone for good: another life of it was opened since.
    Outdated,
    /// It cannot be made; one sentence.
    Failed(String),
}

impl Loading {
    /// Runs until the dispatcher is gone.
    pub(crate) fn run(mut self) {
        let mut pause = RESTART_PAUSE_MIN;
        let mut first = None;
        if self.on_demand {
            let Ok(task) = self.tasks.recv() else { return };
            first = Some(task);
        }
        while !self.over.load(Ordering::Acquire) {
            match Loader::start(&self.program) {
                Ok(mut loader) => {
                    pause = RESTART_PAUSE_MIN;
                    tracing::info!(pid = loader.pid(), "a loader is ready");
                    if self.serve(&mut loader, first.take()).is_ok() {
                        return;
                    }
                    metrics::counter!("mfaas_loader_restarts_total").increment(1);
                    tracing::error!("the loader is replaced, and its slabs with it");
                    self.slabs.clear();
                    self.intake.send(Event::Renewed);
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
    fn serve(&mut self, loader: &mut Loader, mut first: Option<Task>) -> Result<(), Gone> {
        while let Some(task) = first.take().or_else(|| self.tasks.recv().ok()) {
            match task {
                Task::Load { function, slab, image } => self.load(loader, slab, function, &image)?,
                Task::Unload { slot, slab } => {
                    self.change(slab, slot, || loader.unload(slab.number, slot))?;
                    // Of a slab that is gone it means nothing.
                    self.intake.send(Event::Unloaded { slab, slot });
                }
                Task::Reclaim { slot, slab } => {
                    self.change(slab, slot, || loader.reclaim(slab.number, slot))?
                }
                Task::Open(slab) => {
                    if let Opened::Failed(reason) = self.open(loader, slab)? {
                        tracing::error!(slab = slab.number, reason, "a slab cannot be made");
                        self.supervisor.give_slab(slab, None);
                    }
                }
                Task::Close(slab) => self.close(loader, slab)?,
            }
        }
        Ok(())
    }

    /// Has the slab made if it is not there.
    fn open(&mut self, loader: &mut Loader, slab: SlabId) -> Result<Opened, Gone> {
        match self.slabs.get(&slab.number) {
            Some(life) if *life == slab.life => return Ok(Opened::Ready),
            Some(life) if *life > slab.life => return Ok(Opened::Outdated),
            // Opened for a task that was meant for a loader before this one.
            Some(life) => self.close(loader, SlabId { life: *life, ..slab })?,
            None => {}
        }
        match loader.open(slab.number, windows::takes_verified_code_alone(slab.number)) {
            Ok(memory) => {
                self.slabs.insert(slab.number, slab.life);
                self.supervisor.give_slab(slab, Some(memory));
                Ok(Opened::Ready)
            }
            Err(LoadError::Gone(error)) => {
                tracing::error!(error, "the loader ended over a slab");
                Err(Gone)
            }
            Err(error) => Ok(Opened::Failed(error.to_string())),
        }
    }

    fn close(&mut self, loader: &mut Loader, slab: SlabId) -> Result<(), Gone> {
        if self.slabs.get(&slab.number) != Some(&slab.life) {
            return Ok(());
        }
        self.slabs.remove(&slab.number);
        self.supervisor.forget_slab(slab);
        loader.close(slab.number).map_err(|error| {
            tracing::error!(%error, slab = slab.number, "a slab cannot be closed");
            Gone
        })
    }

    fn change(
        &self,
        slab: SlabId,
        slot: u32,
        change: impl FnOnce() -> Result<(), LoadError>,
    ) -> Result<(), Gone> {
        if self.slabs.get(&slab.number) != Some(&slab.life) {
            // Of a slab that went with its loader.
            return Ok(());
        }
        change().map_err(|error| {
            tracing::error!(%error, slot, "a slot cannot be freed");
            Gone
        })
    }

    fn load(
        &mut self,
        loader: &mut Loader,
        slab: SlabId,
        function: FunctionId,
        image: &VerifiedImage,
    ) -> Result<(), Gone> {
        match self.open(loader, slab)? {
            Opened::Ready => {}
            Opened::Outdated => return Ok(()),
            Opened::Failed(reason) => {
                self.intake.send(Event::LoadFailed { function, slab, reason });
                return Ok(());
            }
        }
        match loader.load(slab.number, image) {
            Ok(resident) => {
                self.ends.remove(&function);
                tracing::debug!(function = %image.key(), slab = slab.number, slot = resident.slot, address = format_args!("{:#x}", resident.address), "an image is resident");
                let (slot, bytes) = (resident.slot, resident.bytes);
                self.intake.send(Event::Loaded { function, slab, slot, bytes });
            }
            Err(LoadError::Full) => self.intake.send(Event::NoRoom { function, slab }),
            Err(LoadError::Refused(reason)) => {
                self.intake.send(Event::LoadFailed { function, slab, reason });
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
            self.intake.send(Event::LoadFailed { function, slab, reason });
        }
        Err(Gone)
    }
}
