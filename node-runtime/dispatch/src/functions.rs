//! What is known of each function, one record on one cache line.

use crate::jobs::List;
use crate::{FunctionId, Limits, Misuse, Refusal};

/// Where the image of a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In no slot.
    Cold,
    /// Calls wait for it, and it waits for room.
    Wanted,
    /// The loader has it.
    Loading,
    /// In its slot.
    Resident,
}

/// What bars calls of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nothing.
    Open,
    /// Never defined, or retired: what was accepted is still run.
    Unknown,
    /// Revoked: what runs ends, and nothing of it begins or goes on.
    Withdrawn,
    /// Its image could not be loaded.
    NotLoadable,
}

/// One function.
#[repr(align(64))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    /// Where the image lies, while it is resident.
    pub(crate) slot: u32,
    /// Tenant and pool, as an index of the queues.
    pub(crate) queue: u32,
    pub(crate) pool: u32,
    pub(crate) budget_us: u32,
    /// Jobs that wait, run or are suspended.
    pub(crate) open: u32,
    /// Crashes that led to a ban; 0: not banned.
    pub(crate) banned: u32,
    /// Which load made it resident; tells a note of an earlier residency from one of this.
    pub(crate) stamp: u32,
    /// The sequence of the last accepted job.
    pub(crate) used: u64,
    pub(crate) bytes: u64,
    /// Jobs that wait for the image.
    pub(crate) cold: List,
    pub(crate) phase: Phase,
    pub(crate) gate: Gate,
    pub(crate) idempotent: bool,
    pub(crate) pinned: bool,
}

const _: () = assert!(size_of::<Function>() == 64);

impl Function {
    /// Whether its image is wanted even if another one has to leave for it.
    pub(crate) fn is_needed(&self) -> bool {
        self.open > 0 || self.pinned && self.gate == Gate::Open
    }

    const UNKNOWN: Self = Self {
        slot: 0,
        queue: 0,
        pool: 0,
        budget_us: 0,
        open: 0,
        banned: 0,
        stamp: 0,
        used: 0,
        bytes: 0,
        cold: List::EMPTY,
        phase: Phase::Cold,
        gate: Gate::Unknown,
        idempotent: false,
        pinned: false,
    };

    /// Whether its image is to leave as soon as no job needs it.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.gate, Gate::Unknown | Gate::Withdrawn)
    }

    /// Whether a call may be accepted.
    pub(crate) fn admits(&self) -> Result<(), Refusal> {
        match self.gate {
            _ if self.banned != 0 => Err(Refusal::Banned { crashes: self.banned }),
            Gate::Open => Ok(()),
            Gate::Unknown | Gate::Withdrawn => Err(Refusal::NotServed),
            Gate::NotLoadable => Err(Refusal::NotLoadable),
        }
    }
}

/// All functions, by their number.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    records: Vec<Function>,
}

impl Functions {
    pub(crate) fn get(&self, index: u32) -> Option<&Function> {
        self.records.get(index as usize)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Function> {
        self.records.get_mut(index as usize)
    }

    /// The record of a number, made if there is none yet.
    pub(crate) fn ensure(&mut self, id: FunctionId, limits: &Limits) -> Result<&mut Function, Misuse> {
        let index = id.0 as usize;
        if index >= limits.functions_max {
            let (number, limit) = (u64::from(id.0), limits.functions_max as u64);
            return Err(Misuse::TooMany { what: "function", number, limit });
        }
        if index >= self.records.len() {
            self.records.resize(index + 1, Function::UNKNOWN);
        }
        Ok(&mut self.records[index])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Function)> {
        (0..).zip(&self.records)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Function)> {
        (0..).zip(&mut self.records)
    }
}

impl std::ops::Index<u32> for Functions {
    type Output = Function;
    fn index(&self, index: u32) -> &Function {
        &self.records[index as usize]
    }
}

impl std::ops::IndexMut<u32> for Functions {
    fn index_mut(&mut self, index: u32) -> &mut Function {
        &mut self.records[index as usize]
    }
}
