//! The directory of a slab: what a worker has to know of each resident image, in shared memory that
//! only the loader writes.
//!
//! A record is valid while its generation is odd. The loader makes it even before it changes
//! anything and odd, with a new number, when everything is written; so a reader that finds the same
//! odd number before and after reading has read one image's record.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// `mfslab01`, so that a wrong descriptor is noticed.
const MAGIC: u64 = u64::from_le_bytes(*b"mfslab01");
/// Bytes of the header in front of the records.
pub(crate) const HEADER_BYTES: usize = 4096;

/// How much a slab can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlabGeometry {
    /// Pairs of code and data, 1 to 64.
    pub banks: usize,
    /// Bytes of code, and as many of data, in one bank: whole pages, at most 1 GiB.
    pub bank_bytes: usize,
    /// Images, at most 131,072.
    pub slots: usize,
}

impl SlabGeometry {
    /// The slab that all tenants share: address space, not memory. 64 GiB of code and as many images
    /// as it can name.
    pub const NODE: Self = Self { banks: 64, bank_bytes: 1 << 30, slots: 1 << 17 };
    /// A slab of one tenant: 2 GiB of code. A loader has address space for tens of thousands of them.
    pub const TENANT: Self = Self { banks: 2, bank_bytes: 1 << 30, slots: 1 << 15 };
    /// Room for one image of any admissible size, for a throw-away load.
    pub const ONE: Self = Self { banks: 1, bank_bytes: 96 << 20, slots: 1 };

    pub(crate) fn is_possible(self) -> bool {
        (1..=crate::window::BANKS_MAX).contains(&self.banks)
            && (1..=crate::window::BANK).contains(&self.bank_bytes)
            && self.bank_bytes.is_multiple_of(crate::memory::PAGE_BYTES)
            && (1..=1 << 17).contains(&self.slots)
    }

    /// Bytes of header and directory, in whole pages.
    pub(crate) fn directory_bytes(self) -> usize {
        (HEADER_BYTES + self.slots * size_of::<Record>()).next_multiple_of(crate::memory::PAGE_BYTES)
    }

    /// Offset of a bank's code in the slab's memory.
    pub(crate) fn bank_offset(self, bank: usize) -> usize {
        self.directory_bytes().next_multiple_of(2 << 20) + bank * self.bank_bytes
    }

    /// The whole memory, in bytes.
    pub(crate) fn memory_bytes(self) -> usize {
        self.bank_offset(self.banks)
    }
}

/// The first page of a slab.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    magic: AtomicU64,
    banks: AtomicU64,
    bank_bytes: AtomicU64,
    slots: AtomicU64,
}

impl Header {
    pub(crate) fn write(&self, geometry: SlabGeometry) {
        self.banks.store(geometry.banks as u64, Ordering::Relaxed);
        self.bank_bytes.store(geometry.bank_bytes as u64, Ordering::Relaxed);
        self.slots.store(geometry.slots as u64, Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    pub(crate) fn read(&self) -> Option<SlabGeometry> {
        let found = self.magic.load(Ordering::Acquire) == MAGIC;
        let geometry = SlabGeometry {
            banks: self.banks.load(Ordering::Relaxed) as usize,
            bank_bytes: self.bank_bytes.load(Ordering::Relaxed) as usize,
            slots: self.slots.load(Ordering::Relaxed) as usize,
        };
        (found && geometry.is_possible()).then_some(geometry)
    }
}

/// What the loader wrote about one image. One cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Record {
    generation: AtomicU64,
    entry: AtomicU64,
    pristine: AtomicU64,
    data: AtomicU64,
    /// Bytes to copy in the low half, bytes to zero behind them in the high half; for `data` and for `tls`.
    data_bytes: AtomicU64,
    tls: AtomicU64,
    tls_bytes: AtomicU64,
    reserved: AtomicU64,
}

const _: () = assert!(size_of::<Record>() == 64);

/// A run of writable memory and how it begins: `copied` bytes of the pristine copy, then zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Run {
    pub(crate) at: usize,
    pub(crate) copied: usize,
    pub(crate) zeroed: usize,
}

/// One resident image as a worker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Resident {
    /// Another number for every image that was ever in the slot.
    pub(crate) generation: u64,
    pub(crate) entry: usize,
    /// The bytes to copy, of `data` and behind them of `tls`.
    pub(crate) pristine: usize,
    pub(crate) data: Run,
    pub(crate) tls: Run,
}

impl Record {
    /// Makes the record invalid. Must come before the slot's memory changes.
    pub(crate) fn clear(&self) {
        let generation = self.generation.load(Ordering::Relaxed);
        self.generation.store(generation & !1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Makes the record valid under a number that it never had.
    pub(crate) fn publish(&self, resident: &Resident) {
        self.entry.store(resident.entry as u64, Ordering::Relaxed);
        self.pristine.store(resident.pristine as u64, Ordering::Relaxed);
        self.data.store(resident.data.at as u64, Ordering::Relaxed);
        self.data_bytes.store(lengths(resident.data), Ordering::Relaxed);
        self.tls.store(resident.tls.at as u64, Ordering::Relaxed);
        self.tls_bytes.store(lengths(resident.tls), Ordering::Relaxed);
        let before = self.generation.load(Ordering::Relaxed);
        self.generation.store((before & !1) + 3, Ordering::Release);
    }

    /// The image, if there is one and it does not change while it is read.
    pub(crate) fn read(&self) -> Option<Resident> {
        let generation = self.generation.load(Ordering::Acquire);
        if generation & 1 == 0 {
            return None;
        }
        let resident = Resident {
            generation,
            entry: self.entry.load(Ordering::Relaxed) as usize,
            pristine: self.pristine.load(Ordering::Relaxed) as usize,
            data: run(&self.data, &self.data_bytes),
            tls: run(&self.tls, &self.tls_bytes),
        };
        fence(Ordering::Acquire);
        (self.generation.load(Ordering::Relaxed) == generation).then_some(resident)
    }
}

fn lengths(run: Run) -> u64 {
    run.copied as u64 | (run.zeroed as u64) << 32
}

fn run(at: &AtomicU64, lengths: &AtomicU64) -> Run {
    let lengths = lengths.load(Ordering::Relaxed);
    Run {
        at: at.load(Ordering::Relaxed) as usize,
        copied: lengths as u32 as usize,
        zeroed: (lengths >> 32) as usize,
    }
}
