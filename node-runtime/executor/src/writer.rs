//! A slab as the loader sees it: the one writable mapping of its memory.
//!
//! The memory is sealed as soon as it is mapped: nobody, the loader included, can map or write it
//! anew, and its size is fixed. Images lie side by side, whatever the pages are. Room is readied two
//! MiB at a time, on one large page if the kernel has one, and filled with instructions that trap. It
//! does not go back to the kernel, which the seal forbids too. A frugal slab begins with small pieces:
//! where each tenant has a slab of its own, two MiB for a few small images would be most of what the
//! tenant costs.
//!
//! Workers run hostile code in the slab meanwhile, which may jump to the start of any bundle. So an image is
//! linked and verified in the loader's own memory; its code then appears bundle by bundle, the first
//! bytes of each last and at once: until then there is a trap. An image that leaves becomes traps in the
//! opposite order, and its room is given away only when no worker can stand in it any more
//! ([`SlabWriter::reclaim`]).
//!
//! It must never write to room that it did not ready, and never leave anything but traps in room for
//! code that is free.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use mfaas_ident::Digest;
use mfaas_inspect::Layout;
use mfaas_inspect::verify::{CodeSegment, verify};
use mfaas_rules::profiles::image_layout::Bank;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::ProtFlags;

use crate::assets::{Assets, Bank as AssetBank, NamedAsset, Table};
use crate::directory::{HEADER_BYTES, Header, Record, SlabGeometry, Verification};
use crate::link::{LINE_BYTES, Linked, TRAP, link, needs};
use crate::memory::{PAGE_BYTES, Region};
use crate::pages::LARGE_PAGE_BYTES;
use crate::room::{Place, Room};
use crate::sealed::{Identity, Sealed};
use crate::{ExecutorError, library, system, window};

/// Where a loader would like to write: far from where Linux puts programs, libraries, heaps and stacks.
const VIEW: usize = 0x2000_0000_0000;
/// Room that is readied before anybody asks for it.
const AHEAD_BYTES: usize = 1 << 20;
/// What is readied at a time of the first two MiB of a frugal slab.
const SMALL_BYTES: usize = 64 << 10;
/// Memory that the loader keeps for the next image to be read to.
const FILE_BYTES_KEPT: usize = 1 << 20;
/// What a worker demands of a slab's memory.
pub(crate) const SEALS: SealFlags =
    SealFlags::FUTURE_WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);
/// An image that binds none.
const NO_ASSETS: &[NamedAsset<BorrowedFd<'static>>] = &[];
/// Eight traps: the beginning of a bundle without code.
const TRAPS: u64 = u64::from_le_bytes([TRAP; 8]);
/// Words of a bundle.
const BUNDLE_WORDS: usize = window::GATE_BYTES / size_of::<u64>();

/// The loader's end of a slab.
#[derive(Debug)]
pub struct SlabWriter {
    fd: OwnedFd,
    view: Region,
    geometry: SlabGeometry,
    verification: Verification,
    /// Free room, the same of code, data and constants.
    room: Room,
    assets: Assets,
    /// Those that were ever used.
    slots: Vec<Slot>,
    /// Those of them that hold nothing.
    vacant: Vec<u32>,
    /// Where the first piece of code and constants begins that was not readied.
    ready: usize,
    /// The first two MiB are readied in small pieces.
    frugal: bool,
    /// What was found in sealed memory that was hashed; at most as many as there are slots.
    hashed: BTreeMap<Identity, Digest>,
    /// Where images are read to.
    file: Vec<u8>,
}

/// What became of a slot.
#[derive(Debug, Clone, Copy)]
enum Slot {
    Vacant,
    Resident(Place),
    /// Its code is traps; a worker may stand in the middle of one.
    Left(Place),
}

/// A resident image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loaded {
    /// Its name in a call.
    pub slot: u32,
    /// Bytes of the slab that it takes.
    pub bytes: usize,
    /// Bytes of the slab that its assets take, which others may have too.
    pub asset_bytes: usize,
    /// Where workers have its first byte. What stands there follows from this and from the file alone.
    pub address: usize,
}

impl SlabWriter {
    /// An empty slab.
    pub fn new(geometry: SlabGeometry, verification: Verification) -> Result<Self, ExecutorError> {
        Self::with(geometry, verification, false)
    }

    /// An empty slab of which there may be many: it takes little memory while it holds little.
    pub fn frugal(geometry: SlabGeometry, verification: Verification) -> Result<Self, ExecutorError> {
        Self::with(geometry, verification, true)
    }

    fn with(geometry: SlabGeometry, verification: Verification, frugal: bool) -> Result<Self, ExecutorError> {
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
            verification,
            room: Room::of(geometry.bank_bytes),
            assets: Assets::new(geometry),
            slots: Vec::new(),
            vacant: Vec::new(),
            hashed: BTreeMap::new(),
            file: Vec::new(),
            ready: 0,
            frugal,
        };
        writer.header().write(geometry, verification);
        writer.write_gates()?;
        Ok(writer)
    }

    /// The slab's memory, for workers to map.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Bytes that resident images take.
    pub fn resident_bytes(&self) -> usize {
        let bytes = |slot: &Slot| match slot {
            Slot::Resident(place) | Slot::Left(place) => place.bytes,
            Slot::Vacant => 0,
        };
        self.slots.iter().map(bytes).sum()
    }

    /// Bytes that assets take.
    pub fn resident_asset_bytes(&self) -> usize {
        self.assets.resident_bytes()
    }

    /// Links the image behind a memfd that is sealed against writing into a free slot.
    ///
    /// # Errors
    /// [`ExecutorError::Full`] when no bank has room for it; what is wrong with the image otherwise.
    pub fn load(&mut self, image: impl AsFd) -> Result<Loaded, ExecutorError> {
        self.read(&Sealed::new(&image)?, |writer, file| writer.link(file, NO_ASSETS))
    }

    /// As [`Self::load`], for an image whose digest, as text, somebody vouches for. It is hashed when
    /// its memory is seen for the first time: what is sealed does not change until it is seen again.
    ///
    /// # Errors
    /// Also [`ExecutorError::OtherImage`] when the bytes are not those.
    pub fn load_named(&mut self, image: impl AsFd, digest: &str) -> Result<Loaded, ExecutorError> {
        self.load_with(image, digest, NO_ASSETS)
    }

    /// As [`Self::load_named`], for an image that finds these assets. One that is in the slab already is not read again.
    ///
    /// # Errors
    /// Also [`ExecutorError::OtherAsset`] when the bytes of one are not those of its digest, or two have one place.
    pub fn load_with<Fd: AsFd>(
        &mut self,
        image: impl AsFd,
        digest: &str,
        assets: &[NamedAsset<Fd>],
    ) -> Result<Loaded, ExecutorError> {
        let sealed = Sealed::new(&image)?;
        let loaded = self.read(&sealed, |writer, file| {
            if writer.digest_of(sealed.identity(), file).to_string() != digest {
                return Err(ExecutorError::OtherImage);
            }
            writer.link(file, assets)
        });
        if loaded.is_err() {
            // Some may be there already that no slot has now.
            self.with_assets(Assets::sweep);
        }
        loaded
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

    fn link<Fd: AsFd>(&mut self, file: &[u8], assets: &[NamedAsset<Fd>]) -> Result<Loaded, ExecutorError> {
        let layout = mfaas_inspect::layout(file)?;
        let needs = needs(&layout, !assets.is_empty())?;
        let slot = self.vacant_slot()?;
        let place = self.room.find(needs.slot, needs.align).ok_or(ExecutorError::Full)?;
        let address = window::CODE + place.offset;
        let table: Table = self.with_assets(|held, bank| held.bring(bank, assets))?;
        let linked = link(file, &layout, needs, address, &table)?;
        if self.verification == Verification::Required {
            verified(&layout, &linked, address)?;
        }
        self.room.take(place);
        self.publish(place, &linked);
        if self.vacant.pop().is_none() {
            self.slots.push(Slot::Vacant);
        }
        self.slots[slot as usize] = Slot::Resident(place);
        let asset_bytes = self.assets.keep(slot, assets);
        self.record(slot).publish(&linked.resident);
        Ok(Loaded { slot, bytes: place.bytes, asset_bytes, address })
    }

    /// Does something with the assets where they lie.
    fn with_assets<T>(&mut self, act: impl FnOnce(&mut Assets, &AssetBank<'_>) -> T) -> T {
        // SAFETY: INV-EXECUTOR-9. The view begins with the header; atomics only.
        let header = unsafe { &*self.view.at(0).cast::<Header>() };
        let bank = AssetBank { view: &self.view, offset: self.geometry.assets_offset(), header };
        act(&mut self.assets, &bank)
    }

    /// The slot that the next image gets: the lowest that was never used, or the last that became free.
    fn vacant_slot(&self) -> Result<u32, ExecutorError> {
        let unused = (self.slots.len() < self.geometry.slots).then_some(self.slots.len() as u32);
        self.vacant.last().copied().or(unused).ok_or(ExecutorError::Full)
    }

    /// Takes an image away: whoever jumps there meets traps. The caller has made sure that no worker has a
    /// call of it.
    pub fn unload(&mut self, slot: u32) -> Result<(), ExecutorError> {
        let Some(Slot::Resident(place)) = self.slots.get(slot as usize).copied() else {
            return Err(ExecutorError::NoSlab);
        };
        self.record(slot).clear();
        for bundle in self.code(place.offset, place.bytes).as_chunks::<BUNDLE_WORDS>().0 {
            for word in bundle {
                word.store(TRAPS, Ordering::Release);
            }
        }
        self.header().count_departure();
        self.slots[slot as usize] = Slot::Left(place);
        Ok(())
    }

    /// Gives the room of an image that left to the next. The caller has made sure that every worker has
    /// ended all calls that it had after [`Self::unload`] returned: hostile code of another image could have
    /// jumped there before the traps stood, and be in the middle of a bundle.
    pub fn reclaim(&mut self, slot: u32) -> Result<(), ExecutorError> {
        let Some(Slot::Left(place)) = self.slots.get(slot as usize).copied() else {
            return Err(ExecutorError::NoSlab);
        };
        let constants = self.view.at(self.geometry.constants_offset() + place.offset);
        // SAFETY: INV-EXECUTOR-9. The place of an image that left.
        unsafe { constants.write_bytes(0, place.bytes) };
        self.slots[slot as usize] = Slot::Vacant;
        self.room.give(place);
        self.with_assets(|held, bank| held.release(bank, slot));
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
        if let Some(next) = self.room.find(AHEAD_BYTES, LINE_BYTES) {
            self.make_ready(next.offset + AHEAD_BYTES);
        }
    }

    /// The gates, and behind them the library, at the beginning of the code. The first page of data is each
    /// process's own, for the word through which its gates jump.
    fn write_gates(&mut self) -> Result<(), ExecutorError> {
        let mut code = Vec::with_capacity(PAGE_BYTES);
        for gate in 0..window::GATES {
            code.extend_from_slice(&gate_code(gate)?);
        }
        let masked = library::code();
        match self.verification {
            Verification::Required => {
                let address = window::LIBRARY as u64;
                let end = address + masked.len() as u64;
                let own = address..end;
                verify(CodeSegment { bytes: masked, address, image: std::slice::from_ref(&own) })?;
                code.extend_from_slice(masked);
            }
            Verification::Waived => code.extend(library::without_masks()),
        }
        let place = Place { offset: 0, bytes: code.len().next_multiple_of(PAGE_BYTES) };
        self.room.take(place);
        self.make_ready(place.bytes);
        self.appear(place, &code);
        Ok(())
    }

    /// Puts a linked image into its place: constants, then code.
    fn publish(&mut self, place: Place, linked: &Linked) {
        self.make_ready(place.offset + linked.code.len().max(linked.constants.len()));
        let constants = self.view.at(self.geometry.constants_offset() + place.offset);
        // SAFETY: INV-EXECUTOR-9. The place is ours alone, and at least as large as what was linked for it.
        unsafe { constants.copy_from_nonoverlapping(linked.constants.as_ptr(), linked.constants.len()) };
        self.appear(place, &linked.code);
    }

    /// Puts code where traps are: of each bundle the first word last. Workers may run there.
    fn appear(&self, place: Place, code: &[u8]) {
        let to = self.code(place.offset, place.bytes).as_chunks::<BUNDLE_WORDS>().0;
        for (bundle, bytes) in to.iter().zip(code.chunks(window::GATE_BYTES)) {
            let mut whole = [TRAP; window::GATE_BYTES];
            whole[..bytes.len()].copy_from_slice(bytes);
            let words = whole.as_chunks::<8>().0;
            for (word, bytes) in bundle.iter().zip(words).rev() {
                word.store(u64::from_le_bytes(*bytes), Ordering::Release);
            }
        }
    }

    /// Readies code and constants up to an offset of both, and says so: workers may read and execute all that
    /// lies before it, and nothing behind it.
    fn make_ready(&mut self, end: usize) {
        while self.ready < end {
            let piece = self.piece(self.ready);
            for bank in [self.geometry.code_offset(), self.geometry.constants_offset()] {
                self.back(bank + piece.start, piece.len());
            }
            self.ready = piece.end;
            self.header().announce_ready(self.ready);
        }
    }

    /// The piece of a bank that is readied with the byte at `offset`.
    fn piece(&self, offset: usize) -> Range<usize> {
        let small = self.frugal && offset < LARGE_PAGE_BYTES;
        let bytes = if small { SMALL_BYTES } else { LARGE_PAGE_BYTES };
        let start = offset / bytes * bytes;
        start..(start + bytes).min(self.geometry.bank_bytes)
    }

    /// Puts a piece of a bank on memory, two MiB on one large page if there is one: thousands of images
    /// have far more small pages than a processor can remember. Best effort: without it everything
    /// works, slower.
    fn back(&mut self, at: usize, bytes: usize) {
        // The kernel makes no large page of what has no page at all.
        self.trap(at, 1);
        if bytes == LARGE_PAGE_BYTES {
            self.view.collapse(at..at + bytes);
        }
        self.trap(at, bytes);
    }

    /// Room for code in words.
    fn code(&self, offset: usize, bytes: usize) -> &[AtomicU64] {
        let at = self.geometry.code_offset() + offset;
        debug_assert!(at.is_multiple_of(window::GATE_BYTES) && offset + bytes <= self.geometry.bank_bytes);
        // SAFETY: INV-EXECUTOR-9. Inside the bank, aligned; atomics only.
        unsafe { std::slice::from_raw_parts(self.view.at(at).cast(), bytes / size_of::<u64>()) }
    }

    /// Fills part of the view with traps.
    fn trap(&mut self, at: usize, bytes: usize) {
        let to = self.view.at(at);
        // SAFETY: INV-EXECUTOR-9. The caller names room that nobody has yet.
        unsafe { to.write_bytes(TRAP, bytes) };
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

/// One gate: the number of the service, and a jump to where the process says. The one that an entry returns
/// through passes what it returns as the argument.
fn gate_code(number: usize) -> Result<[u8; window::GATE_BYTES], ExecutorError> {
    const MOV_EDI_EAX: [u8; 2] = [0x89, 0xc7];
    const MOV_R10D: [u8; 2] = [0x41, 0xba];
    const JMP_RIP: [u8; 2] = [0xff, 0x25];
    let is_return = window::gate(number) == window::RETURN_GATE;
    let mut code = Vec::with_capacity(window::GATE_BYTES);
    code.extend_from_slice(if is_return { &MOV_EDI_EAX } else { &[] });
    code.extend_from_slice(&MOV_R10D);
    code.extend_from_slice(&(number as u32).to_le_bytes());
    code.extend_from_slice(&JMP_RIP);
    let next = window::gate(number) + code.len() + size_of::<i32>();
    let distance = i32::try_from(window::GATE_TARGET - next);
    code.extend_from_slice(&distance.map_err(|_| ExecutorError::Unmappable("a far gate"))?.to_le_bytes());
    let mut bundle = [TRAP; window::GATE_BYTES];
    bundle[..code.len()].copy_from_slice(&code);
    Ok(bundle)
}

/// Demands of a linked image that its code passes the verifier where it will stand, that nothing else stands
/// among the code, and that it is entered at the start of a bundle.
fn verified(layout: &Layout, linked: &Linked, base: usize) -> Result<(), ExecutorError> {
    let base = base as u64;
    let loaded = layout.segments.iter().filter(|segment| Bank::of(&segment.range()) != Some(Bank::Tables));
    let image: Vec<_> =
        loaded.map(|segment| base + segment.range().start..base + segment.range().end).collect();
    for segment in layout.segments.iter().filter(|segment| Bank::of(&segment.range()) == Some(Bank::Code)) {
        let range = segment.range();
        let bytes = linked.code.get(range.start as usize..range.end as usize);
        let bytes = bytes.filter(|_| segment.access.execute);
        let bytes = bytes.ok_or(ExecutorError::Unmappable("what lies among the code is not code"))?;
        verify(CodeSegment { bytes, address: base + range.start, image: &image })?;
    }
    if linked.resident.entry.is_multiple_of(window::GATE_BYTES) {
        Ok(())
    } else {
        Err(ExecutorError::Unmappable("the entry is not the start of a bundle"))
    }
}

const _: () = assert!(HEADER_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(AHEAD_BYTES <= LARGE_PAGE_BYTES && LARGE_PAGE_BYTES.is_multiple_of(SMALL_BYTES));
