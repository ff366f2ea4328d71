//! A slab as the loader sees it: the one writable mapping of its memory.
//!
//! The memory is sealed as soon as it is mapped: nobody, the loader included, can map or write it
//! anew, and its size is fixed. Room that an image leaves is filled with instructions that trap and
//! given to the next one; it does not go back to the kernel, which the seal forbids too.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mfaas_ident::Digest;
use mfaas_rules::profiles::imports::ROWS;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::ProtFlags;

use crate::directory::{HEADER_BYTES, Header, Record, SlabGeometry};
use crate::link::{Linked, link, needs};
use crate::memory::{PAGE_BYTES, Region};
use crate::sealed::read_sealed;
use crate::{CageError, system, window};

/// Where a loader would like to write: behind the window of the workers.
const VIEW: usize = window::END;
const LARGE_PAGE_BYTES: usize = 2 << 20;
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
    /// Bytes from the beginning of each bank that lie on large pages, or could not be put there.
    consolidated: Vec<usize>,
}

/// Where an image lies.
#[derive(Debug, Clone, Copy)]
struct Place {
    bank: usize,
    offset: usize,
    bytes: usize,
    /// Bytes from its beginning that hold anything, in whole pages.
    written: usize,
}

/// A resident image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loaded {
    /// Its name in a call.
    pub slot: u32,
    /// Bytes of the slab that it takes.
    pub bytes: usize,
    /// Digest of what stands there: code and pristine data, linked.
    pub linked: Digest,
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
            consolidated: vec![0; geometry.banks],
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
        self.link(&read_sealed(&image)?)
    }

    /// As [`Self::load`], for an image whose digest, as text, somebody vouches for.
    ///
    /// # Errors
    /// Also [`CageError::OtherImage`] when the bytes are not those.
    pub fn load_named(&mut self, image: impl AsFd, digest: &str) -> Result<Loaded, CageError> {
        let file = read_sealed(&image)?;
        if Digest::of(&file).to_string() != digest {
            return Err(CageError::OtherImage);
        }
        self.link(&file)
    }

    fn link(&mut self, file: &[u8]) -> Result<Loaded, CageError> {
        let layout = mfaas_inspect::layout(file)?;
        let needs = needs(&layout)?;
        let mut place = self.take(needs.slot)?;
        let linked = match link(file, &layout, needs, window::code_of(place.bank) + place.offset) {
            Ok(linked) => linked,
            Err(error) => {
                self.give(place);
                return Err(error);
            }
        };
        let Some(slot) = self.vacant.pop() else {
            self.give(place);
            return Err(CageError::Full);
        };
        self.write(&mut place, &linked.bytes);
        self.slots[slot as usize] = Some(place);
        let Linked { bytes, resident } = linked;
        self.record(slot).publish(&resident);
        Ok(Loaded { slot, bytes: place.bytes, linked: Digest::of(&bytes) })
    }

    /// Takes an image away. The caller has made sure that no worker runs it or will.
    pub fn unload(&mut self, slot: u32) -> Result<(), CageError> {
        let place = self.slots.get_mut(slot as usize).and_then(Option::take).ok_or(CageError::NoSlab)?;
        self.record(slot).clear();
        self.fill(place);
        self.give(place);
        self.vacant.push(slot);
        Ok(())
    }

    /// Gives up writing, for a process that wants to map the same slab as a worker would: no page
    /// may be writable and executable in one process.
    pub fn finish(self) -> OwnedFd {
        self.fd
    }

    /// Puts what is full of each bank on large pages: thousands of images have far more small pages
    /// than a processor can remember. Best effort: without them everything works, slower. It copies
    /// 2 MiB for every few images, so nobody should wait for it.
    pub fn consolidate(&mut self) {
        for bank in 0..self.geometry.banks {
            let full =
                self.free[bank].first_key_value().map_or(self.geometry.bank_bytes, |(first, _)| *first);
            while self.consolidated[bank] + LARGE_PAGE_BYTES <= full {
                let offset = self.geometry.bank_offset(bank) + self.consolidated[bank];
                self.view.collapse(offset..offset + LARGE_PAGE_BYTES);
                self.consolidated[bank] += LARGE_PAGE_BYTES;
            }
        }
    }

    /// The first room that is large enough, in the first bank that has one.
    fn take(&mut self, bytes: usize) -> Result<Place, CageError> {
        for (bank, free) in self.free.iter_mut().enumerate() {
            let Some((&offset, &room)) = free.iter().find(|(_, room)| **room >= bytes) else { continue };
            free.remove(&offset);
            if room > bytes {
                free.insert(offset + bytes, room - bytes);
            }
            return Ok(Place { bank, offset, bytes, written: 0 });
        }
        Err(CageError::Full)
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
        let mut place = self.take(window::import_pages(ROWS.len()))?;
        debug_assert_eq!((place.bank, place.offset), (0, 0), "the first room of an empty slab");
        self.write(&mut place, &code);
        Ok(())
    }

    /// Copies `bytes` to the beginning of a place, and traps to the end of the last page.
    fn write(&mut self, place: &mut Place, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(place.bytes)];
        place.written = bytes.len().next_multiple_of(PAGE_BYTES);
        self.fill(*place);
        let to = self.view.at(self.offset_of(*place));
        // SAFETY: INV-CAGE-9. The place is ours alone and at least as long as what is copied.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Fills what is written of a place with traps.
    fn fill(&mut self, place: Place) {
        let to = self.view.at(self.offset_of(place));
        // SAFETY: INV-CAGE-9. The place lies in the view; both of its lengths are whole pages.
        unsafe { to.write_bytes(TRAP, place.written) };
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

const _: () = assert!(HEADER_BYTES.is_multiple_of(PAGE_BYTES));
