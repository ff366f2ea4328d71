//! Slabs: who maps each and what lies in it, so that one that nobody needs goes away.

use crate::{Command, Commands, SHARED_SLAB, SlabId};

/// One slab.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slab {
    life: u32,
    /// Images that are in it or on their way there.
    pub(crate) images: usize,
    /// Images in it.
    pub(crate) resident: usize,
    /// Worker processes that map it or will.
    pub(crate) workers: usize,
    /// Functions whose images belong there and whose calls are accepted.
    pub(crate) functions: usize,
    /// A command has named it.
    used: bool,
}

impl Slab {
    /// Whether a command has named it and none has said that it went away.
    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        self.used
    }
}

/// All slabs, by their number.
#[derive(Debug, Default)]
pub(crate) struct Slabs(Vec<Slab>);

impl Slabs {
    /// The record of a slab, made if there is none yet.
    pub(crate) fn ensure(&mut self, number: u32) -> &mut Slab {
        let index = number as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, Slab::default);
        }
        &mut self.0[index]
    }

    /// What it is called now.
    pub(crate) fn id(&self, number: u32) -> SlabId {
        let life = self.0.get(number as usize).map_or(0, |slab| slab.life);
        SlabId { number, life }
    }

    /// The same for a command that names it.
    pub(crate) fn named(&mut self, number: u32) -> SlabId {
        self.ensure(number).used = true;
        self.id(number)
    }

    pub(crate) fn get(&self, number: u32) -> Slab {
        self.0.get(number as usize).copied().unwrap_or_default()
    }

    /// The loader is gone, and all slabs with it.
    pub(crate) fn renew(&mut self) {
        for slab in &mut self.0 {
            (slab.life, slab.images, slab.resident) = (slab.life + 1, 0, 0);
            slab.used = false;
        }
    }

    /// Closes a slab that nobody needs. The one that all share stays.
    pub(crate) fn settle(&mut self, number: u32, commands: &mut Commands) {
        let id = self.id(number);
        let Some(slab) = self.0.get_mut(number as usize) else { return };
        let needed = slab.images + slab.workers + slab.functions > 0 || number == SHARED_SLAB;
        if slab.used && !needed {
            (slab.life, slab.used) = (slab.life + 1, false);
            commands.push(Command::CloseSlab { slab: id });
        }
    }
}
