//! Linking: from a checked layout to the bytes that stand in a slot, written straight into its room.
//! No address is followed here and no memory mapped: the room is a slice like any other.
//!
//! Code, constants and RELRO become one run of bytes at the slot's address; behind them stands the
//! pristine copy of writable data and thread-locals, from which every call starts. The tables by
//! which this is done stay in the file.
//!
//! It must never write outside of the room, nor change code.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use mfaas_inspect::{Layout, PAGE_BYTES, Relocation, Segment, SymbolTarget};
use mfaas_rules::profiles::image_layout::{ALIGN_BYTES, BANK_BYTES, TABLES_START};
use mfaas_rules::profiles::imports::ROWS;

use crate::directory::{Resident, Run};
use crate::{ExecutorError, window};

/// Alignment of slots and of the thread-local block: no two images share a line.
pub(crate) const LINE_BYTES: usize = ALIGN_BYTES as usize;
/// Alignment of the pristine copy.
const COPY_BYTES: usize = 16;

/// How much room an image needs, before it has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Code, constants and RELRO.
    code: usize,
    /// Writable data, and how much of it may be anything but zeros.
    data: usize,
    data_held: usize,
    /// Offset of the thread-local block behind the data, and its size.
    tls_at: usize,
    tls: usize,
    /// Bytes that linking writes, at most, from the slot's beginning.
    pub(crate) written: usize,
    /// What the slot's address must be a multiple of.
    pub(crate) align: usize,
    /// Bytes of the slot: the same in code and data, so that both lie at one offset of the bank.
    pub(crate) slot: usize,
}

/// What `layout` needs. An error for an image whose parts do not lie where
/// `mfaas_rules::profiles::image_layout` puts them.
pub(crate) fn needs(layout: &Layout) -> Result<Needs, ExecutorError> {
    let (mut code, mut data, mut held, mut align) = (0, 0, 0, ALIGN_BYTES);
    for segment in &layout.segments {
        let end = segment.range().end;
        match part_of(layout, segment)? {
            Part::Code => code = code.max(end),
            Part::Tables => continue,
            Part::Data => {
                data = data.max(end - BANK_BYTES);
                held = held.max(segment.va + segment.file_size - BANK_BYTES);
            }
        }
        align = align.max(segment.align);
    }
    let (tls, template, tls_align) =
        layout.tls.map_or((0, 0, 1), |tls| (tls.mem_size as usize, tls.file_size as usize, tls.align));
    if align.max(tls_align) > PAGE_BYTES || template > tls {
        return Err(ExecutorError::Unmappable("an alignment or a thread-local block that cannot be"));
    }
    // A relocation may write where the file holds nothing.
    let written = layout.relocations.iter().map(|one| target_of(one).saturating_add(8));
    let held = written.filter(|end| *end > BANK_BYTES).map(|end| end - BANK_BYTES).fold(held, u64::max);
    let (code, data, data_held) = (code as usize, data as usize, held.min(data) as usize);
    let tls_at = data.next_multiple_of(LINE_BYTES.max(tls_align as usize));
    let written = code.next_multiple_of(COPY_BYTES) + data_held + template;
    let slot = written.max(tls_at + tls).next_multiple_of(LINE_BYTES);
    if slot > window::BANK {
        return Err(ExecutorError::Unmappable("the image is larger than a bank"));
    }
    Ok(Needs { code, data, data_held, tls_at, tls, written, align: align.max(tls_align) as usize, slot })
}

/// What becomes of a segment.
enum Part {
    /// It stands in the slot.
    Code,
    /// It is read, and left where it is.
    Tables,
    /// Every call begins with a copy of it.
    Data,
}

fn part_of(layout: &Layout, segment: &Segment) -> Result<Part, ExecutorError> {
    let (range, access) = (segment.range(), segment.access);
    let relro = layout.relro.clone().unwrap_or(0..0);
    if range.start >= BANK_BYTES {
        let plain = access.write && !access.execute;
        let error = "a segment among the writable ones is not writable data";
        if plain { Ok(Part::Data) } else { Err(ExecutorError::Unmappable(error)) }
    } else if range.end > BANK_BYTES {
        Err(ExecutorError::Unmappable("a segment reaches into the writable bank"))
    } else if range.start >= TABLES_START {
        let read = !access.write && !access.execute;
        if read { Ok(Part::Tables) } else { Err(ExecutorError::Unmappable("tables that are not only read")) }
    } else if range.end > TABLES_START {
        Err(ExecutorError::Unmappable("a segment reaches into the tables"))
    } else if access.write && !(relro.start <= range.start && range.end <= relro.end) {
        Err(ExecutorError::Unmappable("writable data does not lie in the writable bank"))
    } else {
        Ok(Part::Code)
    }
}

/// Links `file` into `room`, the slot whose first byte workers have at address `base`, and says what
/// the directory has to say. After an error the room holds anything.
pub(crate) fn link(
    file: &[u8],
    layout: &Layout,
    needs: Needs,
    base: usize,
    room: &mut [u8],
) -> Result<Resident, ExecutorError> {
    let entry = entry_of(layout)?;
    let (code, pristine) = room
        .get_mut(..needs.written)
        .and_then(|room| room.split_at_mut_checked(needs.code))
        .ok_or(ExecutorError::Unmappable("a slot smaller than its image"))?;
    let mut image =
        Banks { base, code, data: vec![0; needs.data_held], tls_block: base + window::BANK + needs.tls_at };
    for segment in &layout.segments {
        image.fill(file, layout, segment)?;
    }
    image.relocate(layout)?;
    let tls = image.template(layout)?;
    let data = run_of(&image.data, base + window::BANK, needs.data);
    let tls_run = run_of(tls, base + window::BANK + needs.tls_at, needs.tls);
    let at = needs.code.next_multiple_of(COPY_BYTES) - needs.code;
    let copies = pristine.get_mut(at..at + data.copied + tls_run.copied);
    let copies = copies.ok_or(ExecutorError::Unmappable("a slot smaller than its image"))?;
    let (data_copy, tls_copy) = copies.split_at_mut(data.copied);
    data_copy.copy_from_slice(&image.data[..data.copied]);
    tls_copy.copy_from_slice(&tls[..tls_run.copied]);
    let pristine = base + needs.code + at;
    Ok(Resident { generation: 0, entry: base + entry, pristine, data, tls: tls_run })
}

/// The shortest copy that leaves only zeros behind it, in `bytes` bytes of which `held` are the first.
fn run_of(held: &[u8], at: usize, bytes: usize) -> Run {
    let copied = held.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    Run { at, copied, zeroed: bytes - copied }
}

/// Offset of the entry symbol, which must be code.
fn entry_of(layout: &Layout) -> Result<usize, ExecutorError> {
    let code = |va: u64| {
        layout.segments.iter().any(|segment| segment.access.execute && segment.range().contains(&va))
    };
    layout
        .exports
        .iter()
        .find(|export| export.name == mfaas_abi::symbols::ENTRY && code(export.va))
        .map(|export| export.va as usize)
        .ok_or(ExecutorError::NoEntry)
}

/// The two halves of an image while it is linked.
struct Banks<'room> {
    base: usize,
    code: &'room mut [u8],
    data: Vec<u8>,
    tls_block: usize,
}

impl Banks<'_> {
    /// The buffer and the offset in it for an address of the image.
    fn place(&mut self, va: u64) -> (&mut [u8], usize) {
        match va.checked_sub(BANK_BYTES) {
            Some(offset) => (&mut self.data, offset as usize),
            None => (self.code, va as usize),
        }
    }

    /// `bytes` bytes at an address of the image.
    fn at(&mut self, va: u64, bytes: usize) -> Result<&mut [u8], ExecutorError> {
        let (half, start) = self.place(va);
        start
            .checked_add(bytes)
            .and_then(|end| half.get_mut(start..end))
            .ok_or(ExecutorError::Unmappable("an address outside the image"))
    }

    /// Copies what the file holds of a segment. What it does not hold is zeros, and of data nobody
    /// keeps those.
    fn fill(&mut self, file: &[u8], layout: &Layout, segment: &Segment) -> Result<(), ExecutorError> {
        let (from, bytes) = (segment.file_offset as usize, segment.file_size as usize);
        let source = from
            .checked_add(bytes)
            .and_then(|end| file.get(from..end))
            .filter(|source| source.len() as u64 <= segment.mem_size)
            .ok_or(ExecutorError::Unmappable("a segment lies outside the file"))?;
        match part_of(layout, segment)? {
            Part::Code => {
                let (held, rest) = self.at(segment.va, segment.mem_size as usize)?.split_at_mut(bytes);
                held.copy_from_slice(source);
                rest.fill(0);
            }
            Part::Data if bytes > 0 => self.at(segment.va, bytes)?.copy_from_slice(source),
            Part::Data | Part::Tables => {}
        }
        Ok(())
    }

    fn relocate(&mut self, layout: &Layout) -> Result<(), ExecutorError> {
        let imports = bind(layout)?;
        let base = self.base as u64;
        for relocation in &layout.relocations {
            let at = target_of(relocation);
            let value = match *relocation {
                Relocation::Relative { addend, .. } => base.wrapping_add(addend),
                Relocation::Symbol { target, addend, .. } => {
                    let symbol = match target {
                        SymbolTarget::Import(index) => *imports
                            .get(index)
                            .ok_or(ExecutorError::Unmappable("a relocation without its symbol"))?,
                        SymbolTarget::Defined(value) => base.wrapping_add(value),
                    };
                    symbol.wrapping_add_signed(addend)
                }
                Relocation::TlsModule { .. } => self.tls_block as u64,
                Relocation::TlsOffset { value, .. } => value,
            };
            self.check_target(layout, at)?;
            self.at(at, size_of::<u64>())?.copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    }

    /// The layout has promised that a relocation writes into a writable segment. A wrong promise
    /// would change code, so it is checked again.
    fn check_target(&self, layout: &Layout, at: u64) -> Result<(), ExecutorError> {
        let inside = |segment: &Segment| {
            let range = segment.range();
            segment.access.write && range.start <= at && at.saturating_add(8) <= range.end
        };
        if layout.segments.iter().any(inside) {
            Ok(())
        } else {
            Err(ExecutorError::Unmappable("a relocation outside writable segments"))
        }
    }

    /// The template of the thread-local block, relocated.
    fn template(&self, layout: &Layout) -> Result<&[u8], ExecutorError> {
        let Some(tls) = layout.tls else { return Ok(&[]) };
        let (start, bytes) = (tls.va as usize, tls.file_size as usize);
        start
            .checked_add(bytes)
            .and_then(|end| self.code.get(start..end))
            .ok_or(ExecutorError::Unmappable("thread-locals outside of the constants"))
    }
}

/// Where a relocation writes.
fn target_of(relocation: &Relocation) -> u64 {
    match *relocation {
        Relocation::Relative { at, .. }
        | Relocation::Symbol { at, .. }
        | Relocation::TlsModule { at }
        | Relocation::TlsOffset { at, .. } => at,
    }
}

/// The addresses of a layout's imports, in its order. Weak ones that nobody offers are 0.
fn bind(layout: &Layout) -> Result<Vec<u64>, ExecutorError> {
    static OFFERED: LazyLock<BTreeMap<&str, usize>> =
        LazyLock::new(|| ROWS.iter().enumerate().map(|(row, import)| (import.symbol, row)).collect());
    let address = |import: &mfaas_inspect::Import| match OFFERED.get(import.name.as_str()) {
        Some(row) => Ok(window::import(*row) as u64),
        None if import.weak => Ok(0),
        None => Err(ExecutorError::UnknownImport(import.name.clone())),
    };
    layout.imports.iter().map(address).collect()
}
