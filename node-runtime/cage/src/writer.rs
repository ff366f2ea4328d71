//! A slab as the loader sees it: the one writable mapping of its memory.
//!
//! The memory is sealed as soon as it is mapped: nobody, the loader included, can map or write it
//! anew, and its size is fixed. Images lie side by side, whatever the pages are. Room is readied two
//! MiB at a time, on one large page if the kernel has one, and filled with instructions that trap; so
//! is what an image leaves, which the next one gets. It does not go back to the kernel, which the
//! seal forbids too.
//!
//! It must never write to room that it did not ready, and never leave anything but traps in room that
//! is free.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mfaas_ident::Digest;
use mfaas_rules::profiles::imports::ROWS;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::ProtFlags;

use crate::directory::{HEADER_BYTES, Header, Record, SlabGeometry};
use crate::link::{LINE_BYTES, link, needs};
use crate::memory::{PAGE_BYTES, Region};
use crate::sealed::{Identity, Sealed};
use crate::{CageError, system, window};

/// Where a loader would like to write: behind the window of the workers.
const VIEW: usize = window::END;
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// Room that is readied before anybody asks for it.
const AHEAD_BYTES: usize = 1 << 20;
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
    slots: Vec<Option<Place>>,
    vacant: Vec<u32>,
    /// For each two MiB of each bank, whether they were readied.
    ready: Vec<bool>,
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
    pub fn new(geometry: SlabGeometry) -> Result<Self, CageError> {
        if !geometry.is_possible() {
            return Err(CageError::NoSlab);
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
            slots: vec![None; geometry.slots],
            vacant: (0..geometry.slots as u32).rev().collect(),
            hashed: BTreeMap::new(),
            file: Vec::new(),
            ready: vec![false; geometry.banks * large_pages(geometry)],
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
    /// [`CageError::Full`] when no bank has room for it; what is wrong with the image otherwise.
    pub fn load(&mut self, image: impl AsFd) -> Result<Loaded, CageError> {
        self.read(&Sealed::new(&image)?, Self::link)
    }

    /// As [`Self::load`], for an image whose digest, as text, somebody vouches for. It is hashed when
    /// its memory is seen for the first time: what is sealed does not change until it is seen again.
    ///
    /// # Errors
    /// Also [`CageError::OtherImage`] when the bytes are not those.
    pub fn load_named(&mut self, image: impl AsFd, digest: &str) -> Result<Loaded, CageError> {
        let sealed = Sealed::new(&image)?;
        self.read(&sealed, |writer, file| {
            if writer.digest_of(sealed.identity(), file).to_string() != digest {
                return Err(CageError::OtherImage);
            }
            writer.link(file)
        })
    }

    /// Reads an image into the loader's own memory, where nobody can change it, and uses it there.
    fn read<T>(
        &mut self,
        image: &Sealed<impl AsFd>,
        use_it: impl FnOnce(&mut Self, &[u8]) -> Result<T, CageError>,
    ) -> Result<T, CageError> {
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

    fn link(&mut self, file: &[u8]) -> Result<Loaded, CageError> {
        let layout = mfaas_inspect::layout(file)?;
        let needs = needs(&layout)?;
        let slot = *self.vacant.last().ok_or(CageError::Full)?;
        let place = Place { written: needs.written, ..self.take(needs.slot, needs.align)? };
        self.make_ready(place);
        let address = window::code_of(place.bank) + place.offset;
        match link(file, &layout, needs, address, self.room(place)) {
            Ok(resident) => {
                self.vacant.pop();
                self.slots[slot as usize] = Some(place);
                self.record(slot).publish(&resident);
                Ok(Loaded { slot, bytes: place.bytes, address })
            }
            Err(error) => {
                self.clear(place);
                Err(error)
            }
        }
    }

    /// Takes an image away. The caller has made sure that no worker runs it or will.
    pub fn unload(&mut self, slot: u32) -> Result<(), CageError> {
        let place = self.slots.get_mut(slot as usize).and_then(Option::take).ok_or(CageError::NoSlab)?;
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
    /// writes 2 MiB for every few images, so nobody should wait for it.
    pub fn ready_ahead(&mut self) {
        if let Some(next) = self.find(AHEAD_BYTES, LINE_BYTES) {
            self.make_ready(Place { written: AHEAD_BYTES, ..next });
        }
    }

    /// The first room that is large enough, in the first bank that has one.
    fn take(&mut self, bytes: usize, align: usize) -> Result<Place, CageError> {
        let place = self.find(bytes, align).ok_or(CageError::Full)?;
        let free = &mut self.free[place.bank];
        let (&offset, &room) = free.range(..=place.offset).next_back().ok_or(CageError::Full)?;
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
    fn write_imports(&mut self) -> Result<(), CageError> {
        let mut code = Vec::with_capacity(window::import_pages(ROWS.len()));
        for row in 0..ROWS.len() {
            // jmp [rip + distance], whose rip is the instruction's end.
            let distance = window::import_target(row) - (window::import(row) + 6);
            let distance = i32::try_from(distance).map_err(|_| CageError::Unmappable("a far import"))?;
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
        let Some(last) = place.written.checked_sub(1) else { return };
        for page in place.offset / LARGE_PAGE_BYTES..=(place.offset + last) / LARGE_PAGE_BYTES {
            let index = place.bank * large_pages(self.geometry) + page;
            if !std::mem::replace(&mut self.ready[index], true) {
                self.back(place.bank, page * LARGE_PAGE_BYTES);
            }
        }
    }

    /// Puts two MiB of a bank on memory, on one large page if there is one: thousands of images have
    /// far more small pages than a processor can remember. Best effort: without it everything
    /// works, slower.
    fn back(&mut self, bank: usize, offset: usize) {
        let bytes = LARGE_PAGE_BYTES.min(self.geometry.bank_bytes - offset);
        let at = self.geometry.bank_offset(bank) + offset;
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
        // SAFETY: INV-CAGE-9. The place is ours alone, `written` at most its length; others only read.
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
        // SAFETY: INV-CAGE-9. The caller names a place, or room that nobody has yet.
        unsafe { to.write_bytes(TRAP, bytes) };
    }

    fn offset_of(&self, place: Place) -> usize {
        self.geometry.bank_offset(place.bank) + place.offset
    }

    fn header(&self) -> &Header {
        // SAFETY: INV-CAGE-9. The view begins with the header; atomics only.
        unsafe { &*self.view.at(0).cast::<Header>() }
    }

    fn record(&self, slot: u32) -> &Record {
        let at = HEADER_BYTES + slot as usize * size_of::<Record>();
        debug_assert!(at + size_of::<Record>() <= self.geometry.directory_bytes());
        // SAFETY: INV-CAGE-9. Slots are below the geometry's number; aligned to 64; atomics only.
        unsafe { &*self.view.at(at).cast::<Record>() }
    }
}

/// How often two MiB begin in a bank.
fn large_pages(geometry: SlabGeometry) -> usize {
    geometry.bank_bytes.div_ceil(LARGE_PAGE_BYTES)
}

const _: () = assert!(HEADER_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(AHEAD_BYTES <= LARGE_PAGE_BYTES);
