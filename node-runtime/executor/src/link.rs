//! Linking: from a checked layout to the bytes that stand in a slot, in the loader's own memory, where no
//! function sees them before they are whole. No address is followed here and no memory mapped.
//!
//! Code becomes one run of bytes; constants and RELRO become another, behind which stands the pristine
//! copy of writable data and thread-locals, from which every call starts. The tables by which this is
//! done stay in the file.
//!
//! It must never write outside of its buffers, nor change code.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use mfaas_inspect::{Layout, PAGE_BYTES, Relocation, Segment, SymbolTarget};
use mfaas_rules::profiles::image_layout::{ALIGN_BYTES, Bank, CONSTANTS_START, DATA_START};
use mfaas_rules::profiles::imports::ROWS;

use crate::assets::{TABLE_BYTES, Table};
use crate::directory::{Resident, Run};
use crate::{ExecutorError, library, window};

/// Alignment of slots and of the thread-local block: no two images share a line.
pub(crate) const LINE_BYTES: usize = ALIGN_BYTES as usize;
/// `int3`: what stands where no code does.
pub(crate) const TRAP: u8 = 0xcc;
/// Alignment of the pristine copy.
const COPY_BYTES: usize = 16;

/// How much room an image needs, before it has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Bytes of code, and of constants and RELRO.
    code: usize,
    constants: usize,
    /// Writable data, and how much of it may be anything but zeros.
    data: usize,
    data_held: usize,
    /// Offset of the thread-local block behind the data, and its size.
    tls_at: usize,
    tls: usize,
    /// What the slot's address must be a multiple of.
    pub(crate) align: usize,
    /// Bytes of the slot, the same in code, data and constants: all three lie at one offset of their bank.
    pub(crate) slot: usize,
}

/// What `layout` needs, and behind it a table of assets if it has any. An error for an image whose parts do not
/// lie where `mfaas_rules::profiles::image_layout` puts them.
pub(crate) fn needs(layout: &Layout, has_assets: bool) -> Result<Needs, ExecutorError> {
    let (mut code, mut constants, mut data, mut held, mut align) = (0, 0, 0, 0, ALIGN_BYTES);
    for segment in &layout.segments {
        let end = segment.range().end;
        match bank_of(layout, segment)? {
            Bank::Code => code = code.max(end),
            Bank::Constants => constants = constants.max(end - CONSTANTS_START),
            Bank::Tables => continue,
            Bank::Data => {
                data = data.max(end - DATA_START);
                held = held.max(segment.va + segment.file_size - DATA_START);
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
    let held = written
        .filter(|end| (DATA_START + 1..=CONSTANTS_START).contains(end))
        .map(|end| end - DATA_START)
        .fold(held, u64::max);
    let (code, constants) = (code as usize, constants as usize);
    let (data, data_held) = (data as usize, held.min(data) as usize);
    let tls_at = data.next_multiple_of(LINE_BYTES.max(tls_align as usize));
    let read = constants.next_multiple_of(COPY_BYTES) + data_held + template;
    let read = if has_assets { read.next_multiple_of(COPY_BYTES) + TABLE_BYTES } else { read };
    let slot = slot_bytes(code.max(read).max(tls_at + tls));
    if slot > window::BANK {
        return Err(ExecutorError::Unmappable("the image is larger than a bank"));
    }
    let align = align.max(tls_align) as usize;
    Ok(Needs { code, constants, data, data_held, tls_at, tls, align, slot })
}

/// An odd number of lines: slots of one size behind each other then begin in all sets of a cache in turn,
/// and not all in a few.
fn slot_bytes(bytes: usize) -> usize {
    (bytes.div_ceil(LINE_BYTES) | 1) * LINE_BYTES
}

/// Where a segment goes, and that it may.
fn bank_of(layout: &Layout, segment: &Segment) -> Result<Bank, ExecutorError> {
    let (range, access) = (segment.range(), segment.access);
    let relro = layout.relro.clone().unwrap_or(0..0);
    let stays_writable = access.write && !(relro.start <= range.start && range.end <= relro.end);
    let bank =
        Bank::of(&range).ok_or(ExecutorError::Unmappable("a segment reaches over the end of a bank"))?;
    let (fits, error) = match bank {
        Bank::Code => (!stays_writable, "writable data lies among the code"),
        Bank::Tables => (!access.write && !access.execute, "tables that are not only read"),
        Bank::Data => (access.write && !access.execute, "what lies among the data is not writable data"),
        Bank::Constants => {
            (!stays_writable && !access.execute, "what lies among the constants is not only read")
        }
    };
    if fits { Ok(bank) } else { Err(ExecutorError::Unmappable(error)) }
}

/// An image as it will stand in its slot.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(crate) resident: Resident,
    pub(crate) code: Vec<u8>,
    /// Constants, behind them the copy from which data begins, and behind that the table of its assets.
    pub(crate) constants: Vec<u8>,
}

/// Links `file` for the slot whose code workers have at address `base`. An empty table is none.
pub(crate) fn link(
    file: &[u8],
    layout: &Layout,
    needs: Needs,
    base: usize,
    table: &Table,
) -> Result<Linked, ExecutorError> {
    let entry = entry_of(layout)?;
    let mut image = Banks {
        base,
        code: vec![TRAP; needs.code],
        constants: vec![0; needs.constants],
        data: vec![0; needs.data_held],
        tls_block: base + DATA_START as usize + needs.tls_at,
    };
    for segment in &layout.segments {
        image.fill(file, layout, segment)?;
    }
    image.relocate(layout)?;
    let template = image.template(layout)?;
    let data = run_of(&image.data, base + DATA_START as usize, needs.data);
    let tls = run_of(&template, image.tls_block, needs.tls);
    let Banks { code, mut constants, data: held, .. } = image;
    constants.resize(needs.constants.next_multiple_of(COPY_BYTES), 0);
    let pristine = base + CONSTANTS_START as usize + constants.len();
    constants.extend_from_slice(&held[..data.copied]);
    constants.extend_from_slice(&template[..tls.copied]);
    let mut assets = 0;
    if !table.is_empty() {
        constants.resize(constants.len().next_multiple_of(COPY_BYTES), 0);
        assets = base + CONSTANTS_START as usize + constants.len();
        constants.extend_from_slice(&table.encode());
    }
    let resident = Resident { generation: 0, entry: base + entry, pristine, data, tls, assets };
    Ok(Linked { resident, code, constants })
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

/// The parts of an image while it is linked.
struct Banks {
    base: usize,
    code: Vec<u8>,
    constants: Vec<u8>,
    data: Vec<u8>,
    tls_block: usize,
}

impl Banks {
    /// The buffer and the offset in it for an address of the image.
    fn place(&mut self, va: u64) -> (&mut [u8], usize) {
        if let Some(offset) = va.checked_sub(CONSTANTS_START) {
            (&mut self.constants, offset as usize)
        } else if let Some(offset) = va.checked_sub(DATA_START) {
            (&mut self.data, offset as usize)
        } else {
            (&mut self.code, va as usize)
        }
    }

    /// `bytes` bytes at an address of the image.
    fn at(&mut self, va: u64, bytes: usize) -> Result<&mut [u8], ExecutorError> {
        let (bank, start) = self.place(va);
        start
            .checked_add(bytes)
            .and_then(|end| bank.get_mut(start..end))
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
        match bank_of(layout, segment)? {
            Bank::Code | Bank::Constants => {
                let (held, rest) = self.at(segment.va, segment.mem_size as usize)?.split_at_mut(bytes);
                held.copy_from_slice(source);
                rest.fill(0);
            }
            Bank::Data if bytes > 0 => self.at(segment.va, bytes)?.copy_from_slice(source),
            Bank::Data | Bank::Tables => {}
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
    fn template(&mut self, layout: &Layout) -> Result<Vec<u8>, ExecutorError> {
        match layout.tls {
            None => Ok(Vec::new()),
            Some(tls) if tls.file_size == 0 => Ok(Vec::new()),
            Some(tls) if (DATA_START..CONSTANTS_START).contains(&tls.va) => {
                Err(ExecutorError::Unmappable("thread-locals outside of the constants"))
            }
            Some(tls) => Ok(self.at(tls.va, tls.file_size as usize)?.to_vec()),
        }
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
        Some(row) => Ok(address_of(*row) as u64),
        None if import.weak => Ok(0),
        None => Err(ExecutorError::UnknownImport(import.name.clone())),
    };
    layout.imports.iter().map(address).collect()
}

/// What an image calls for an import: a routine of the library, or the gate to a service.
fn address_of(row: usize) -> usize {
    let routine = library::offset_of(ROWS[row].symbol);
    routine.map_or_else(|| window::gate(row), |offset| window::LIBRARY + offset)
}
