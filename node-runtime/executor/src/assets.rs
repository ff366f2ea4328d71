//! The assets of a slab: bytes that functions read and no image holds, each there once however many of its functions
//! bind it.
//!
//! The bank is readied as far as assets were ever written, and no further: a page that nobody wrote costs the
//! slab memory when it is read. What is readied stays, as the rest of a slab does. An asset lies there as long as a
//! slot has it, until [`Assets::release`]; then there are zeros, and its room is the next one's.
//!
//! It must never write where an asset lies that a slot has, and never let a slot have bytes of another digest than the
//! one that was named.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use mfaas_abi::AssetTable;
use mfaas_abi::limits::BINDINGS_MAX;
use mfaas_ident::Digest;

use crate::directory::{Header, SlabGeometry};
use crate::memory::{PAGE_BYTES, Region};
use crate::room::{Place, Room};
use crate::{ExecutorError, system, window};

/// Bytes of a table of assets.
pub(crate) const TABLE_BYTES: usize = size_of::<AssetTable>();
const _: () = assert!(TABLE_BYTES == BINDINGS_MAX * 2 * size_of::<u64>());

/// What a function binds in one of its places, and where its bytes are to be had.
#[derive(Debug, Clone, Copy)]
pub struct NamedAsset<Fd> {
    /// The place of its binding among all of the function's.
    pub place: usize,
    /// What its bytes have to be. They are hashed where they lie then, and nobody else can write there: it does not
    /// matter who could change what is behind the descriptor.
    pub digest: Digest,
    /// A file.
    pub file: Fd,
}

/// Where the assets of one slot lie, by the places of their bindings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Table([(usize, usize); BINDINGS_MAX]);

impl Table {
    /// Whether the slot has none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, bytes)| *bytes == 0)
    }

    /// As [`AssetTable`].
    pub(crate) fn encode(&self) -> [u8; TABLE_BYTES] {
        let mut bytes = [0; TABLE_BYTES];
        let words = self.0.iter().flat_map(|(address, bytes)| [*address, *bytes]);
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = (word as u64).to_le_bytes();
        }
        bytes
    }
}

/// An asset in the bank.
#[derive(Debug)]
struct Held {
    room: Place,
    bytes: usize,
    /// How many slots have it.
    slots: usize,
}

/// The assets of one slab.
#[derive(Debug)]
pub(crate) struct Assets {
    room: Room,
    /// Bytes that were written, from the first.
    ready: usize,
    held: BTreeMap<Digest, Held>,
    /// What each slot has that has any.
    of_slots: BTreeMap<u32, Vec<Digest>>,
}

impl Assets {
    /// None.
    pub(crate) fn new(geometry: SlabGeometry) -> Self {
        Self {
            room: Room::of(geometry.asset_bytes),
            ready: 0,
            held: BTreeMap::new(),
            of_slots: BTreeMap::new(),
        }
    }

    /// Bytes that assets take.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.held.values().map(|held| held.room.bytes).sum()
    }

    /// Has all of them in the bank, and says where; until [`Self::keep`] they are nobody's.
    ///
    /// # Errors
    /// [`ExecutorError::Full`] without room for them, [`ExecutorError::OtherAsset`] when bytes are not those of
    /// their digest.
    pub(crate) fn bring<Fd: AsFd>(
        &mut self,
        bank: &Bank<'_>,
        assets: &[NamedAsset<Fd>],
    ) -> Result<Table, ExecutorError> {
        let mut table = Table::default();
        for asset in assets {
            let row = table.0.get_mut(asset.place);
            let row = row.filter(|row| **row == (0, 0)).ok_or(ExecutorError::OtherAsset)?;
            if !self.held.contains_key(&asset.digest) {
                let held = self.write(bank, asset)?;
                self.held.insert(asset.digest, held);
            }
            let held = self.held.get(&asset.digest).ok_or(ExecutorError::OtherAsset)?;
            *row = (window::ASSETS + held.room.offset, held.bytes);
        }
        Ok(table)
    }

    /// A slot has them from now on; how many bytes they take.
    pub(crate) fn keep<Fd>(&mut self, slot: u32, assets: &[NamedAsset<Fd>]) -> usize {
        let mut bytes = 0;
        for asset in assets {
            let Some(held) = self.held.get_mut(&asset.digest) else { continue };
            held.slots += 1;
            bytes += held.room.bytes;
            self.of_slots.entry(slot).or_default().push(asset.digest);
        }
        bytes
    }

    /// A slot has none any more. The caller has made sure that no call of its image can come again.
    pub(crate) fn release(&mut self, bank: &Bank<'_>, slot: u32) {
        for digest in self.of_slots.remove(&slot).into_iter().flatten() {
            if let Some(held) = self.held.get_mut(&digest) {
                held.slots -= 1;
            }
        }
        self.sweep(bank);
    }

    /// Gives up what no slot has.
    pub(crate) fn sweep(&mut self, bank: &Bank<'_>) {
        let room = &mut self.room;
        self.held.retain(|_, held| {
            if held.slots == 0 {
                bank.clear(held.room);
                room.give(held.room);
            }
            held.slots > 0
        });
    }

    /// Copies a file into the bank and hashes what lies there then.
    fn write<Fd: AsFd>(&mut self, bank: &Bank<'_>, asset: &NamedAsset<Fd>) -> Result<Held, ExecutorError> {
        let size = rustix::fs::fstat(&asset.file).map_err(system("fstat"))?.st_size;
        let bytes = usize::try_from(size).ok().filter(|bytes| (1..=window::ASSETS_BYTES).contains(bytes));
        let bytes = bytes.ok_or(ExecutorError::OtherAsset)?;
        let room = self.room.find(bytes.next_multiple_of(PAGE_BYTES), PAGE_BYTES);
        let room = room.ok_or(ExecutorError::Full)?;
        self.room.take(room);
        let written = bank.fill(room, bytes, &asset.file);
        // What was written is there, whatever it is: a worker that reads it costs no memory.
        self.ready = self.ready.max(room.offset + room.bytes);
        let is_it = written.map(|()| Digest::of(bank.bytes(room, bytes)) == asset.digest);
        if let Ok(true) = is_it {
            bank.header.announce_assets(self.ready);
            return Ok(Held { room, bytes, slots: 0 });
        }
        bank.clear(room);
        bank.header.announce_assets(self.ready);
        self.room.give(room);
        Err(is_it.err().unwrap_or(ExecutorError::OtherAsset))
    }
}

/// The bank as the loader has it.
#[derive(Debug)]
pub(crate) struct Bank<'a> {
    pub(crate) view: &'a Region,
    pub(crate) offset: usize,
    pub(crate) header: &'a Header,
}

impl Bank<'_> {
    /// Copies so many bytes of a file to a place that nobody has.
    fn fill(&self, place: Place, bytes: usize, file: &impl AsFd) -> Result<(), ExecutorError> {
        let at = self.view.at(self.offset + place.offset);
        // SAFETY: INV-EXECUTOR-9. A place that was found free, at least as large.
        let to = unsafe { std::slice::from_raw_parts_mut(at, bytes) };
        let mut done = 0;
        while done < bytes {
            match rustix::io::pread(file, &mut to[done..], done as u64).map_err(system("read the asset"))? {
                0 => return Err(ExecutorError::OtherAsset),
                count => done += count,
            }
        }
        Ok(())
    }

    /// What lies there.
    fn bytes(&self, place: Place, bytes: usize) -> &[u8] {
        // SAFETY: INV-EXECUTOR-9. A place that was given out; only its owner writes, who is here.
        unsafe { std::slice::from_raw_parts(self.view.at(self.offset + place.offset), bytes) }
    }

    /// Leaves zeros, and no page that nobody wrote.
    fn clear(&self, place: Place) {
        let at = self.view.at(self.offset + place.offset);
        // SAFETY: INV-EXECUTOR-9. A place that nobody has any more.
        unsafe { at.write_bytes(0, place.bytes) };
    }
}
