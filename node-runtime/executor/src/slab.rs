//! A slab as a worker sees it: code and directory read-only, data of its own, all at the addresses
//! of [`crate::window`], mapped once before lock-down.
//!
//! What the loader adds later is there without a system call, but for two where it begins another piece of
//! code and constants, and one where assets come that lie behind all that were there. Code that nobody wrote
//! yet reads as zeros, and zeros are instructions, which write
//! wherever a register points; and reading what nobody wrote makes the kernel give memory for it, which the
//! slab keeps. So only what the loader has readied is open, and no further.
//!
//! A slot that was used before may hold other code than this core has fetched ahead, so the first call
//! of every image begins with an instruction that drops what was fetched (INV-EXECUTOR-8).

use std::cell::Cell;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::fs::SealFlags;
use rustix::mm::{MprotectFlags, ProtFlags};

use crate::directory::{Header, Record, Resident, Run, SlabGeometry, Verification};
use crate::memory::{LINE_BYTES, PAGE_BYTES, Region};
use crate::{ExecutorError, gate, system, window, zeros};

/// Images that a new worker gives memory before they are called: each has a page of it, 16 MiB in all.
const TOUCHED_MAX: usize = 4_096;
/// So many vacant slots in a row are taken for the end of those in use: a page of the directory.
const VACANT_MAX: usize = 64;

/// A mapped slab. Dropping it unmaps everything.
#[derive(Debug)]
pub struct Slab {
    geometry: SlabGeometry,
    verification: Verification,
    directory: Region,
    code: Region,
    /// Bytes of code and constants that are open, from the first.
    open: Cell<usize>,
    data: Region,
    constants: Region,
    assets: Region,
    /// Bytes of the assets that are open, from the first.
    open_assets: Cell<usize>,
}

impl Slab {
    /// Maps the slab behind `fd`, which is not needed afterwards.
    ///
    /// # Errors
    /// [`ExecutorError::NotSealed`] when somebody could still map it writable or change its size;
    /// [`ExecutorError::NoSlab`] when it is not a slab of this release.
    pub fn map(fd: impl AsFd) -> Result<Self, ExecutorError> {
        let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        if !seals.contains(crate::writer::SEALS) {
            return Err(ExecutorError::NotSealed);
        }
        let (geometry, verification) = header_of(&fd)?;
        let bytes = rustix::fs::fstat(&fd).map_err(system("fstat"))?.st_size;
        if usize::try_from(bytes).ok() != Some(geometry.memory_bytes()) {
            return Err(ExecutorError::NoSlab);
        }
        let bank = |at: usize, access: ProtFlags, offset: usize| {
            Region::of_file(Some(at), geometry.bank_bytes, access, &fd, offset as u64)
        };
        let assets_offset = geometry.assets_offset() as u64;
        let assets = match geometry.asset_bytes {
            0 => Region::empty_at(window::ASSETS),
            bytes => Region::of_file(Some(window::ASSETS), bytes, ProtFlags::empty(), &fd, assets_offset)?,
        };
        let data = Region::reserve(Some(window::DATA), geometry.bank_bytes)?;
        data.protect(0..geometry.bank_bytes, MprotectFlags::READ | MprotectFlags::WRITE)?;
        let slab = Self {
            geometry,
            verification,
            directory: Region::of_file(None, geometry.directory_bytes(), ProtFlags::READ, &fd, 0)?,
            code: bank(window::CODE, ProtFlags::empty(), geometry.code_offset())?,
            open: Cell::new(0),
            data,
            constants: bank(window::CONSTANTS, ProtFlags::empty(), geometry.constants_offset())?,
            assets,
            open_assets: Cell::new(0),
        };
        slab.lead_gates_to((gate::pass as *const ()).addr())?;
        slab.open_ready()?;
        slab.touch_residents();
        Ok(slab)
    }

    /// Opens what has been readied since the last time. Before each call: the image may lie there.
    pub(crate) fn open_ready(&self) -> Result<(), ExecutorError> {
        let ready = self.header().ready().min(self.geometry.bank_bytes);
        if ready > self.open.get() {
            self.constants.protect(0..ready, MprotectFlags::READ)?;
            self.code.protect(0..ready, MprotectFlags::READ | MprotectFlags::EXEC)?;
            self.open.set(ready);
        }
        let assets = self.header().assets_ready().min(self.geometry.asset_bytes);
        if assets > self.open_assets.get() {
            self.assets.protect(0..assets, MprotectFlags::READ)?;
            self.open_assets.set(assets);
        }
        Ok(())
    }

    /// Writes the word through which all gates jump, and makes it read-only.
    pub(crate) fn lead_gates_to(&self, target: usize) -> Result<(), ExecutorError> {
        let page = 0..PAGE_BYTES;
        self.data.protect(page.clone(), MprotectFlags::READ | MprotectFlags::WRITE)?;
        // SAFETY: INV-EXECUTOR-3. The first page of the data, just made writable and no image's.
        unsafe { self.data.at(window::GATE_TARGET - window::DATA).cast::<usize>().write(target) };
        self.data.protect(page, MprotectFlags::READ)
    }

    /// Its banks in the window, in order.
    pub(crate) fn banks(&self) -> [Range<usize>; 4] {
        [self.code.addresses(), self.assets.addresses(), self.data.addresses(), self.constants.addresses()]
    }

    /// Which images it takes.
    pub fn verification(&self) -> Verification {
        self.verification
    }

    /// How many images have left it.
    pub(crate) fn departures(&self) -> u64 {
        self.header().departures()
    }

    fn header(&self) -> &Header {
        // SAFETY: INV-EXECUTOR-3. The directory begins with the header; atomics only.
        unsafe { &*self.directory.at(0).cast::<Header>() }
    }

    /// Meets the page faults of the images that are resident already, which their first calls would
    /// meet: the code around the entry, and a page of data that is the image's for good. Slots are
    /// given out from the first on, and to look at one gives it memory, so this ends where none are
    /// in use.
    fn touch_residents(&self) {
        let mut vacant = 0;
        for slot in 0..self.geometry.slots.min(TOUCHED_MAX) {
            match self.image(slot) {
                Some(image) => {
                    vacant = 0;
                    touch(&image);
                }
                None if vacant >= VACANT_MAX => return,
                None => vacant += 1,
            }
        }
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.geometry.slots
    }

    /// The image in a slot, if one is resident.
    pub(crate) fn image(&self, slot: usize) -> Option<Resident> {
        if slot >= self.geometry.slots {
            return None;
        }
        let at = crate::directory::HEADER_BYTES + slot * size_of::<Record>();
        // SAFETY: INV-EXECUTOR-3. Inside the directory by the geometry, aligned to 64, atomics only.
        let record = unsafe { &*self.directory.at(at).cast::<Record>() };
        record.read()
    }
}

/// Reads the header through a mapping of its own: the geometry decides what is mapped afterwards. A
/// file without a first page would raise SIGBUS, so its size is looked at first; it is sealed.
fn header_of(fd: &impl AsFd) -> Result<(SlabGeometry, Verification), ExecutorError> {
    let size = rustix::fs::fstat(fd).map_err(system("fstat"))?.st_size;
    if size < PAGE_BYTES as i64 {
        return Err(ExecutorError::NoSlab);
    }
    let page = Region::of_file(None, PAGE_BYTES, ProtFlags::READ, fd, 0)?;
    // SAFETY: INV-EXECUTOR-3. One page that the file has, mapped and aligned; atomics only.
    let header = unsafe { &*page.at(0).cast::<Header>() };
    header.read().ok_or(ExecutorError::NoSlab)
}

/// Meets the page faults of an image that was never called.
fn touch(image: &Resident) {
    let entry = std::ptr::with_exposed_provenance::<u8>(image.entry);
    // SAFETY: INV-EXECUTOR-3. Code of the slot, mapped and readable.
    let _ = unsafe { entry.read_volatile() };
    for run in [image.data, image.tls].into_iter().filter(|run| run.copied + run.zeroed > 0) {
        let start = std::ptr::with_exposed_provenance_mut::<u8>(run.at);
        // SAFETY: INV-EXECUTOR-3. The run's first byte, which is a zero; no call runs.
        unsafe { start.write_volatile(0) };
    }
}

/// Makes a run what every call starts from.
pub(crate) fn restore(image: &Resident) {
    let mut from = image.pristine;
    for run in [image.data, image.tls] {
        copy(from, run);
        zero(run.at + run.copied, run.zeroed);
        from += run.copied;
    }
}

/// Leaves nothing of a call in the image's data.
pub(crate) fn wipe(image: &Resident) {
    for run in [image.data, image.tls] {
        zero(run.at, run.copied + run.zeroed);
    }
}

/// Zeros up to this many bytes are written; more pages go back to the kernel.
const ZEROED_BYTES_MAX: usize = 32 << 10;

fn copy(from: usize, run: Run) {
    if run.copied == 0 {
        return;
    }
    let (from, to) =
        (std::ptr::with_exposed_provenance::<u8>(from), std::ptr::with_exposed_provenance_mut(run.at));
    // SAFETY: INV-EXECUTOR-3. The loader wrote both: `from` lies in the slot's code, `run` in its data,
    // and no call runs.
    unsafe { std::ptr::copy_nonoverlapping(from, to, run.copied) };
}

fn zero(at: usize, bytes: usize) {
    let written = if bytes <= ZEROED_BYTES_MAX {
        bytes
    } else {
        (at + ZEROED_BYTES_MAX).next_multiple_of(PAGE_BYTES).min(at + bytes) - at
    };
    write_zeros(at..at + written);
    let rest = at + written..at + bytes;
    // Whole pages go back; what is left of the last one is written.
    let whole = rest.start..rest.end / PAGE_BYTES * PAGE_BYTES;
    if whole.start < whole.end {
        crate::memory::discard_at(whole.clone());
        write_zeros(whole.end..rest.end);
    } else {
        write_zeros(rest);
    }
}

/// Zeros in a part of a run.
fn write_zeros(part: Range<usize>) {
    if part.is_empty() {
        return;
    }
    let start = std::ptr::with_exposed_provenance_mut(part.start);
    // SAFETY: INV-EXECUTOR-3. A part of a run of the image's data, by the loader, and no call runs.
    zeros::zero(unsafe { std::slice::from_raw_parts_mut(start, part.len()) });
}

/// Code from the entry on that nearly every call runs, and no more: the linker script puts it there. In bytes.
const CODE_AHEAD_BYTES: usize = 34 * LINE_BYTES;
/// The end of an image's table of addresses, through which it calls its own functions too: the linker
/// script puts the table last, and the loader the pristine copy behind it. In bytes.
const TABLE_AHEAD_BYTES: usize = 512;

/// Asks the processor for the lines that a call of the image will need, all at once: one after the
/// other, as the call would meet them, each would be waited for alone.
pub(crate) fn prefetch(image: &Resident) {
    let code = image.entry..image.entry + CODE_AHEAD_BYTES;
    let copied = image.data.copied + image.tls.copied;
    let data = image.data.at..image.data.at + (image.data.copied + image.data.zeroed).min(ZEROED_BYTES_MAX);
    let table = image.pristine - TABLE_AHEAD_BYTES..image.pristine + copied.min(ZEROED_BYTES_MAX);
    for range in [code, table, data] {
        for line in range.step_by(LINE_BYTES) {
            let line = std::ptr::with_exposed_provenance::<i8>(line);
            // SAFETY: INV-EXECUTOR-14. Every x86-64 processor has it: a hint that takes any address and never faults.
            unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line) };
        }
    }
}
