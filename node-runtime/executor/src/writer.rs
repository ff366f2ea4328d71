//! A slab as the loader sees it: the one writable mapping of its memory.
//!
//! The memory is sealed as soon as it is mapped: nobody, the loader included, can map or write it
//! anew, and its size is fixed. Images lie side by side, whatever the pages are. Room is readied two
//! MiB at a time, on one large page if the kernel has one, and filled with instructions that trap; so
//! is what an image leaves, which the next one gets. It does not go back to the kernel, which the
//! seal forbids too. A frugal slab begins with small pieces: where each tenant has a slab of its own,
//! two MiB for a few small images would be most of what the tenant costs.
//!
//! It must never write to room that it did not ready, and never leave anything but traps in room that
//! is free.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mfaas_ident::Digest;
use mfaas_rules::profiles::imports::ROWS;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::ProtFlags;

use crate::directory::{HEADER_BYTES, Header, Record, SlabGeometry};
use crate::link::{LINE_BYTES, link, needs};
use crate::memory::{PAGE_BYTES, Region};
use crate::sealed::{Identity, Sealed};
use crate::{ExecutorError, system, window};

/// Where a loader would like to write: behind the window of the workers.
const VIEW: usize = window::END;
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// Room that is readied before anybody asks for it.
const AHEAD_BYTES: usize = 1 << 20;
/// What is readied at a time of the first two MiB of a frugal slab.
const SMALL_BYTES: usize = 64 << 10;
/// Memory that the loader keeps for the next image to be read to.
const FILE_BYTES_KEPT: usize = 1 << 20;
/// What a worker demands of a slab's memory.
pub(crate) const SEALS: SealFlags =
    SealFlags::FUTURE_WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);
/// `int3`: what a slot without an image holds.
const TRAP: u8 = 0xcc;

/// The loader's end of a slab.
#[derive(Debug)]
pub struct SlabWriter {
    fd: OwnedFd,
    view: Region,
    geometry: SlabGeometry,
    free: Vec<BTreeMap<usize, usize>>,
    /// Those that were ever used.
    slots: Vec<Option<Place>>,
    /// Those of them that hold nothing.
    vacant: Vec<u32>,
    /// What was readied: bank, and where the piece begins.
    ready: BTreeSet<(usize, usize)>,
    /// The first two MiB are readied in small pieces.
    frugal: bool,
    /// What was found in sealed memory that was hashed; at most as many as there are slots.
    hashed: BTreeMap<Identity, Digest>,
    /// Where images are read to.
    file: Vec<u8>,
}

/// Where an image lies.
#[derive(Debug, Clone, Copy)]
struct Place {
    bank: usize,
    offset: usize,
    bytes: usize,
    /// Bytes from its beginning that may hold anything.
    written: usize,
}

/// A resident image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loaded {
    /// Its name in a call.
    pub slot: u32,
    /// Bytes of the slab that it takes.
    pub bytes: usize,
    /// Where workers have its first byte. What stands there follows from this and from the file alone.
    pub address: usize,
}

impl SlabWriter {
    /// An empty slab.
    pub fn new(geometry: SlabGeometry) -> Result<Self, ExecutorError> {
        Self::with(geometry, false)
    }

    /// An empty slab of which there may be many: it takes little memory while it holds little.
    pub fn frugal(geometry: SlabGeometry) -> Result<Self, ExecutorError> {
        Self::with(geometry, true)
    }

    fn with(geometry: SlabGeometry, frugal: bool) -> Result<Self, ExecutorError> {
        if !geometry.is_possible() {
            return Err(ExecutorError::NoSlab);
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("mfaas-slab", flags).map_err(system("memfd_create"))?;
        let bytes = geometry.memory_bytes();
        rustix::fs::ftruncate(&fd, bytes as u64).map_err(system("set the slab's size"))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // Large pages need an address that is a multiple of theirs. Where it is taken, any will do.
        let view = Region::of_file(Some(VIEW), bytes, access, &fd, 0)
            .or_else(|_| Region::of_file(None, bytes, access, &fd, 0))?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(system("seal the slab"))?;
        let mut writer = Self {
            fd,
            view,
            geometry,
            free: vec![BTreeMap::from([(0, geometry.bank_bytes)]); geometry.banks],
            slots: Vec::new(),
            vacant: Vec::new(),
            hashed: BTreeMap::new(),
            file: Vec::new(),
            ready: BTreeSet::new(),
            frugal,
        };
        writer.header().write(geometry);
        writer.write_imports()?;
        Ok(writer)
    }

    /// The slab's memory, for workers to map.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Bytes that resident images take.
    pub fn resident_bytes(&self) -> usize {
        self.slots.iter().flatten().map(|place| place.bytes).sum()
    }

    /// Links the image behind a memfd that is sealed against writing into a free slot.
    ///
    /// # Errors
    /// [`ExecutorError::Full`] when no bank has room for it; what is wrong with the image otherwise.
    pub fn load(&mut self, image: impl AsFd) -> Result<Loaded, ExecutorError> {
        self.read(&Sealed::new(&image)?, Self::link)
    }

    /// As [`Self::load`], for an image whose digest, as text, somebody vouches for. It is hashed when
    /// its memory is seen for the first time: what is sealed does not change until it is seen again.
    ///
    /// # Errors
    /// Also [`ExecutorError::OtherImage`] when the bytes are not those.
    pub fn load_named(&mut self, image: impl AsFd, digest: &str) -> Result<Loaded, ExecutorError> {
        let sealed = Sealed::new(&image)?;
        self.read(&sealed, |writer, file| {
            if writer.digest_of(sealed.identity(), file).to_string() != digest {
                return Err(ExecutorError::OtherImage);
            }
            writer.link(file)
        })
    }

    /// Reads an image into the loader's own memory, where nobody can change it, and uses it there.
    fn read<T>(
        &mut self,
        image: &Sealed<impl AsFd>,
        use_it: impl FnOnce(&mut Self, &[u8]) -> Result<T, ExecutorError>,
    ) -> Result<T, ExecutorError> {
        let mut file = std::mem::take(&mut self.file);
        let done = image.read(&mut file).and_then(|()| use_it(self, &file));
        file.truncate(FILE_BYTES_KEPT);
        file.shrink_to(FILE_BYTES_KEPT);
        self.file = file;
        done
    }

    fn digest_of(&mut self, identity: Identity, file: &[u8]) -> Digest {
        if self.hashed.len() >= self.geometry.slots {
            self.hashed.clear();
        }
        *self.hashed.entry(identity).or_insert_with(|| Digest::of(file))
    }

    fn link(&mut self, file: &[u8]) -> Result<Loaded, ExecutorError> {
        let layout = mfaas_inspect::layout(file)?;
        let needs = needs(&layout)?;
        let slot = self.vacant_slot()?;
        let place = Place { written: needs.written, ..self.take(needs.slot, needs.align)? };
        self.make_ready(place);
        let address = window::code_of(place.bank) + place.offset;
        match link(file, &layout, needs, address, self.room(place)) {
            Ok(resident) => {
                self.occupy(slot, place);
                self.record(slot).publish(&resident);
                Ok(Loaded { slot, bytes: place.bytes, address })
            }
            Err(error) => {
                self.clear(place);
                Err(error)
            }
        }
    }

    /// The slot that the next image gets: the lowest that was never used, or the last that became free.
    fn vacant_slot(&self) -> Result<u32, ExecutorError> {
        let unused = (self.slots.len() < self.geometry.slots).then_some(self.slots.len() as u32);
        self.vacant.last().copied().or(unused).ok_or(ExecutorError::Full)
    }

    fn occupy(&mut self, slot: u32, place: Place) {
        if self.vacant.pop().is_none() {
            self.slots.push(None);
        }
        self.slots[slot as usize] = Some(place);
    }

    /// Takes an image away. The caller has made sure that no worker runs it or will.
    pub fn unload(&mut self, slot: u32) -> Result<(), ExecutorError> {
        let place = self.slots.get_mut(slot as usize).and_then(Option::take).ok_or(ExecutorError::NoSlab)?;
        self.record(slot).clear();
        self.clear(place);
        self.vacant.push(slot);
        Ok(())
    }

    /// Gives up writing, for a process that wants to map the same slab as a worker would: no page
    /// may be writable and executable in one process.
    pub fn finish(self) -> OwnedFd {
        self.fd
    }

    /// Readies room for what is loaded next, so that no load waits for the kernel to find memory. It
    /// writes 2 MiB for every few images, so nobody should wait for it. A frugal slab does without.
    pub fn ready_ahead(&mut self) {
        if self.frugal {
            return;
        }
        if let Some(next) = self.find(AHEAD_BYTES, LINE_BYTES) {
            self.make_ready(Place { written: AHEAD_BYTES, ..next });
        }
    }

    /// The first room that is large enough, in the first bank that has one.
    fn take(&mut self, bytes: usize, align: usize) -> Result<Place, ExecutorError> {
        let place = self.find(bytes, align).ok_or(ExecutorError::Full)?;
        let free = &mut self.free[place.bank];
        let (&offset, &room) = free.range(..=place.offset).next_back().ok_or(ExecutorError::Full)?;
        free.remove(&offset);
        let (before, behind) = (place.offset - offset, offset + room - (place.offset + bytes));
        for (offset, bytes) in [(offset, before), (place.offset + bytes, behind)] {
            if bytes > 0 {
                free.insert(offset, bytes);
            }
        }
        Ok(place)
    }

    fn find(&self, bytes: usize, align: usize) -> Option<Place> {
        let fits = |(&offset, &room): (&usize, &usize)| {
            let start = offset.next_multiple_of(align);
            (start + bytes <= offset + room).then_some(start)
        };
        self.free.iter().enumerate().find_map(|(bank, free)| {
            let offset = free.iter().find_map(fits)?;
            Some(Place { bank, offset, bytes, written: 0 })
        })
    }

    /// Room becomes free, and one with the free room on either side of it.
    fn give(&mut self, place: Place) {
        let free = &mut self.free[place.bank];
        let (mut offset, mut bytes) = (place.offset, place.bytes);
        if let Some((&before, &room)) = free.range(..offset).next_back()
            && before + room == offset
        {
            free.remove(&before);
            (offset, bytes) = (before, room + bytes);
        }
        if let Some(room) = free.remove(&(offset + bytes)) {
            bytes += room;
        }
        free.insert(offset, bytes);
    }

    /// The jumps that imports are bound to, at the beginning of bank 0.
    fn write_imports(&mut self) -> Result<(), ExecutorError> {
        let mut code = Vec::with_capacity(window::import_pages(ROWS.len()));
        for row in 0..ROWS.len() {
            // jmp [rip + distance], whose rip is the instruction's end.
            let distance = window::import_target(row) - (window::import(row) + 6);
            let distance = i32::try_from(distance).map_err(|_| ExecutorError::Unmappable("a far import"))?;
            code.extend_from_slice(&[0xff, 0x25]);
            code.extend_from_slice(&distance.to_le_bytes());
            code.resize((row + 1) * window::IMPORT_BYTES, TRAP);
        }
        let pages = window::import_pages(ROWS.len());
        let place = Place { written: code.len(), ..self.take(pages, PAGE_BYTES)? };
        debug_assert_eq!((place.bank, place.offset), (0, 0), "the first room of an empty slab");
        self.make_ready(place);
        self.room(place).copy_from_slice(&code);
        Ok(())
    }

    /// Readies all of a place that will be written.
    fn make_ready(&mut self, place: Place) {
        let end = place.offset + place.written;
        let mut offset = place.offset;
        while offset < end {
            let piece = self.piece(place.bank, offset);
            offset = piece.end;
            if self.ready.insert((place.bank, piece.start)) {
                self.back(place.bank, piece);
            }
        }
    }

    /// The piece of a bank that is readied with the byte at `offset`.
    fn piece(&self, bank: usize, offset: usize) -> Range<usize> {
        let small = self.frugal && bank == 0 && offset < LARGE_PAGE_BYTES;
        let bytes = if small { SMALL_BYTES } else { LARGE_PAGE_BYTES };
        let start = offset / bytes * bytes;
        start..(start + bytes).min(self.geometry.bank_bytes)
    }

    /// Puts a piece of a bank on memory, two MiB on one large page if there is one: thousands of images
    /// have far more small pages than a processor can remember. Best effort: without it everything
    /// works, slower.
    fn back(&mut self, bank: usize, piece: Range<usize>) {
        let bytes = piece.len();
        let at = self.geometry.bank_offset(bank) + piece.start;
        // The kernel makes no large page of what has no page at all.
        self.trap(at, 1);
        if bytes == LARGE_PAGE_BYTES {
            self.view.collapse(at..at + bytes);
        }
        self.trap(at, bytes);
    }

    /// What may be written of a place, which was readied.
    fn room(&mut self, place: Place) -> &mut [u8] {
        let start = self.view.at(self.offset_of(place));
        // SAFETY: INV-EXECUTOR-9. The place is ours alone, `written` at most its length; others only read.
        unsafe { std::slice::from_raw_parts_mut(start, place.written) }
    }

    /// Leaves traps in a place, and gives it back.
    fn clear(&mut self, place: Place) {
        self.trap(self.offset_of(place), place.written);
        self.give(place);
    }

    /// Fills part of the view with traps.
    fn trap(&mut self, at: usize, bytes: usize) {
        let to = self.view.at(at);
        // SAFETY: INV-EXECUTOR-9. The caller names a place, or room that nobody has yet.
        unsafe { to.write_bytes(TRAP, bytes) };
    }

    fn offset_of(&self, place: Place) -> usize {
        self.geometry.bank_offset(place.bank) + place.offset
    }

    fn header(&self) -> &Header {
        // SAFETY: INV-EXECUTOR-9. The view begins with the header; atomics only.
        unsafe { &*self.view.at(0).cast::<Header>() }
    }

    fn record(&self, slot: u32) -> &Record {
        let at = HEADER_BYTES + slot as usize * size_of::<Record>();
        debug_assert!(at + size_of::<Record>() <= self.geometry.directory_bytes());
        // SAFETY: INV-EXECUTOR-9. Slots are below the geometry's number; aligned to 64; atomics only.
        unsafe { &*self.view.at(at).cast::<Record>() }
    }
}

const _: () = assert!(HEADER_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(AHEAD_BYTES <= LARGE_PAGE_BYTES && LARGE_PAGE_BYTES.is_multiple_of(SMALL_BYTES));
