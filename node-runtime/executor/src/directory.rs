//! The directory of a slab: what a worker has to know of each resident image, in shared memory that
//! only the loader writes.
//!
//! A record is valid while its generation is odd. The loader makes it even before it changes
//! anything and odd, with a new number, when everything is written; so a reader that finds the same
//! odd number before and after reading has read one image's record.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use mfaas_rules::profiles::image_layout::{SHARED_IMAGES_MAX, TENANT_IMAGES_MAX};

use crate::pages::{LARGE_PAGE_BYTES, PAGE_BYTES};
use crate::window;

/// `mfslab04`, so that a wrong descriptor is noticed.
const MAGIC: u64 = u64::from_le_bytes(*b"mfslab04");
/// Bytes of the header in front of the records.
pub(crate) const HEADER_BYTES: usize = 4096;

/// How much a slab can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlabGeometry {
    /// Bytes of each of code, data and constants: whole pages, at most 768 MiB.
    pub bank_bytes: usize,
    /// Bytes of the assets: whole pages, at most 254 MiB, and none where nothing is given any.
    pub asset_bytes: usize,
    /// Images, at most 131,072.
    pub slots: usize,
}

impl SlabGeometry {
    /// The slab that all tenants share: address space, not memory. As much as the window has room for.
    pub const NODE: Self =
        Self { bank_bytes: window::BANK, asset_bytes: window::ASSETS_BYTES, slots: SHARED_IMAGES_MAX };
    /// A slab of one tenant. A loader has address space for tens of thousands of them.
    pub const TENANT: Self =
        Self { bank_bytes: window::BANK, asset_bytes: window::ASSETS_BYTES, slots: TENANT_IMAGES_MAX };
    /// Room for one image of any admissible size, for a throw-away load.
    pub const ONE: Self = Self { bank_bytes: 96 << 20, asset_bytes: 0, slots: 1 };

    pub(crate) fn is_possible(self) -> bool {
        (1..=window::BANK).contains(&self.bank_bytes)
            && self.bank_bytes.is_multiple_of(PAGE_BYTES)
            && (0..=window::ASSETS_BYTES).contains(&self.asset_bytes)
            && self.asset_bytes.is_multiple_of(PAGE_BYTES)
            && (1..=SHARED_IMAGES_MAX).contains(&self.slots)
    }

    /// Bytes of header and directory, in whole pages.
    pub(crate) fn directory_bytes(self) -> usize {
        (HEADER_BYTES + self.slots * size_of::<Record>()).next_multiple_of(PAGE_BYTES)
    }

    /// Offset of the code in the slab's memory.
    pub(crate) fn code_offset(self) -> usize {
        self.directory_bytes().next_multiple_of(LARGE_PAGE_BYTES)
    }

    /// Offset of the constants.
    pub(crate) fn constants_offset(self) -> usize {
        (self.code_offset() + self.bank_bytes).next_multiple_of(LARGE_PAGE_BYTES)
    }

    /// Offset of the assets.
    pub(crate) fn assets_offset(self) -> usize {
        (self.constants_offset() + self.bank_bytes).next_multiple_of(LARGE_PAGE_BYTES)
    }

    /// The whole memory, in bytes.
    pub(crate) fn memory_bytes(self) -> usize {
        self.assets_offset() + self.asset_bytes
    }
}

/// Which images a slab takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// Those that `mfaas_inspect::verify` passes: their code stays in the window, whatever compiled it.
    Required,
    /// Any. What its code does is held by the process and its filters, and by protection keys where there are
    /// any.
    Waived,
}

/// The first page of a slab.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    magic: AtomicU64,
    bank_bytes: AtomicU64,
    asset_bytes: AtomicU64,
    slots: AtomicU64,
    /// 1 where verification is required, 0 where it is waived.
    verified: AtomicU64,
    /// Grows when an image has left.
    departures: AtomicU64,
    /// Bytes of the code, from the first, that hold traps or code. What lies behind them was never written.
    ready: AtomicU64,
    /// Bytes of the assets, from the first, that were written.
    assets_ready: AtomicU64,
}

impl Header {
    pub(crate) fn write(&self, geometry: SlabGeometry, verification: Verification) {
        self.bank_bytes.store(geometry.bank_bytes as u64, Ordering::Relaxed);
        self.asset_bytes.store(geometry.asset_bytes as u64, Ordering::Relaxed);
        self.slots.store(geometry.slots as u64, Ordering::Relaxed);
        self.verified.store((verification == Verification::Required).into(), Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    pub(crate) fn read(&self) -> Option<(SlabGeometry, Verification)> {
        let found = self.magic.load(Ordering::Acquire) == MAGIC;
        let geometry = SlabGeometry {
            bank_bytes: self.bank_bytes.load(Ordering::Relaxed) as usize,
            asset_bytes: self.asset_bytes.load(Ordering::Relaxed) as usize,
            slots: self.slots.load(Ordering::Relaxed) as usize,
        };
        let verification = match self.verified.load(Ordering::Relaxed) {
            0 => Verification::Waived,
            1 => Verification::Required,
            _ => return None,
        };
        (found && geometry.is_possible()).then_some((geometry, verification))
    }

    /// An image has left: there are traps where it was.
    pub(crate) fn count_departure(&self) {
        self.departures.fetch_add(1, Ordering::Release);
    }

    /// So many bytes of the code hold traps or code now.
    pub(crate) fn announce_ready(&self, bytes: usize) {
        self.ready.store(bytes as u64, Ordering::Release);
    }

    /// Bytes of the code that hold traps or code.
    pub(crate) fn ready(&self) -> usize {
        self.ready.load(Ordering::Acquire) as usize
    }

    /// So many bytes of the assets were written now.
    pub(crate) fn announce_assets(&self, bytes: usize) {
        self.assets_ready.store(bytes as u64, Ordering::Release);
    }

    /// Bytes of the assets that were written.
    pub(crate) fn assets_ready(&self) -> usize {
        self.assets_ready.load(Ordering::Acquire) as usize
    }

    /// How many images have left.
    pub(crate) fn departures(&self) -> u64 {
        self.departures.load(Ordering::Acquire)
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
    /// Where the table of its assets begins; 0 where it has none.
    assets: AtomicU64,
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
    /// Where the table of its assets begins, among its constants; 0 where it has none.
    pub(crate) assets: usize,
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
        self.assets.store(resident.assets as u64, Ordering::Relaxed);
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
            assets: self.assets.load(Ordering::Relaxed) as usize,
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
