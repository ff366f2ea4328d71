//! Linking: from a checked layout to the bytes that stand in a slot. No address is followed here
//! and no memory mapped: everything happens in ordinary buffers.
//!
//! Code, constants and RELRO become one run of bytes at the slot's address; writable data and
//! thread-locals become the pristine copy that every call starts from.

use mfaas_inspect::{Layout, Relocation, Segment, SymbolTarget};
use mfaas_rules::profiles::image_layout::BANK_BYTES;
use mfaas_rules::profiles::imports::ROWS;

use crate::directory::{Resident, Run};
use crate::memory::PAGE_BYTES;
use crate::{CageError, window};

/// Alignment of the pristine copy and of the thread-local block.
const LINE_BYTES: usize = 64;

/// How much room an image needs, before it has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Code, constants and RELRO, in whole pages.
    code: usize,
    /// Writable data.
    data: usize,
    /// Offset of the thread-local block behind the data, and its size.
    tls_at: usize,
    tls: usize,
    /// Bytes of the slot: the same in code and data, so that both lie at one offset of the bank.
    pub(crate) slot: usize,
}

/// An image as it stands in its slot.
#[derive(Debug)]
pub(crate) struct Linked {
    /// From the slot's first byte: code, constants, RELRO, then the pristine copy.
    pub(crate) bytes: Vec<u8>,
    /// What the directory says about it.
    pub(crate) resident: Resident,
}

/// What `layout` needs. An error for an image whose writable memory does not lie where
/// `mfaas_rules::profiles::image_layout` puts it.
pub(crate) fn needs(layout: &Layout) -> Result<Needs, CageError> {
    let relro = layout.relro.clone().unwrap_or(0..0);
    let (mut code, mut data) = (0, 0);
    for segment in &layout.segments {
        let pages = segment.pages();
        if segment.va >= BANK_BYTES {
            if !segment.access.write || segment.access.execute {
                return Err(CageError::Unmappable("a segment among the writable ones is not writable data"));
            }
            data = data.max(segment.range().end - BANK_BYTES);
        } else if pages.end > BANK_BYTES {
            return Err(CageError::Unmappable("a segment reaches into the writable bank"));
        } else if segment.access.write && !(relro.start <= segment.va && pages.end <= relro.end) {
            return Err(CageError::Unmappable("writable data does not lie in the writable bank"));
        } else {
            code = code.max(pages.end);
        }
    }
    let (tls, align) = layout.tls.map_or((0, 1), |tls| (tls.mem_size as usize, tls.align as usize));
    if align > PAGE_BYTES || layout.tls.is_some_and(|tls| tls.file_size > tls.mem_size) {
        return Err(CageError::Unmappable("a thread-local block that cannot be"));
    }
    let (code, data) = (code as usize, data as usize);
    let tls_at = data.next_multiple_of(align.max(LINE_BYTES));
    // The pristine copy is at most all data and thread-locals, and stands behind the code.
    let pristine = data + LINE_BYTES + tls;
    let slot = (code + pristine).max(tls_at + tls).next_multiple_of(PAGE_BYTES);
    if slot > window::BANK {
        return Err(CageError::Unmappable("the image is larger than a bank"));
    }
    Ok(Needs { code, data, tls_at, tls, slot })
}

/// Links `file` for the slot whose code begins at address `base`.
pub(crate) fn link(file: &[u8], layout: &Layout, needs: Needs, base: usize) -> Result<Linked, CageError> {
    let entry = entry_of(layout)?;
    let mut image = Banks {
        base,
        code: vec![0; needs.code],
        data: vec![0; needs.data],
        tls_block: base + window::BANK + needs.tls_at,
    };
    for segment in &layout.segments {
        image.fill(file, segment)?;
    }
    image.relocate(layout)?;
    let tls = image.thread_locals(layout, needs.tls)?;
    let Banks { code: mut bytes, data, .. } = image;
    let pristine = base + bytes.len();
    let data_run = run_of(&data, base + window::BANK);
    let tls_run = run_of(&tls, base + window::BANK + needs.tls_at);
    bytes.extend_from_slice(&data[..data_run.copied]);
    bytes.extend_from_slice(&tls[..tls_run.copied]);
    let resident = Resident { generation: 0, entry: base + entry, pristine, data: data_run, tls: tls_run };
    Ok(Linked { bytes, resident })
}

/// The shortest copy that leaves only zeros behind it.
fn run_of(held: &[u8], at: usize) -> Run {
    let copied = held.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    Run { at, copied, zeroed: held.len() - copied }
}

/// Offset of the entry symbol, which must be code.
fn entry_of(layout: &Layout) -> Result<usize, CageError> {
    let code = |va: u64| {
        layout.segments.iter().any(|segment| segment.access.execute && segment.range().contains(&va))
    };
    layout
        .exports
        .iter()
        .find(|export| export.name == mfaas_abi::symbols::ENTRY && code(export.va))
        .map(|export| export.va as usize)
        .ok_or(CageError::NoEntry)
}

/// The two halves of an image while it is linked.
struct Banks {
    base: usize,
    code: Vec<u8>,
    data: Vec<u8>,
    tls_block: usize,
}

impl Banks {
    /// The buffer and the offset in it for an address of the image.
    fn place(&mut self, va: u64) -> (&mut [u8], usize) {
        match va.checked_sub(BANK_BYTES) {
            Some(offset) => (&mut self.data, offset as usize),
            None => (&mut self.code, va as usize),
        }
    }

    /// `bytes` bytes at an address of the image.
    fn at(&mut self, va: u64, bytes: usize) -> Result<&mut [u8], CageError> {
        let (half, start) = self.place(va);
        start
            .checked_add(bytes)
            .and_then(|end| half.get_mut(start..end))
            .ok_or(CageError::Unmappable("an address outside the image"))
    }

    /// Copies what the file holds of a segment.
    fn fill(&mut self, file: &[u8], segment: &Segment) -> Result<(), CageError> {
        let (from, bytes) = (segment.file_offset as usize, segment.file_size as usize);
        let source = from
            .checked_add(bytes)
            .and_then(|end| file.get(from..end))
            .filter(|source| source.len() as u64 <= segment.mem_size)
            .ok_or(CageError::Unmappable("a segment lies outside the file"))?;
        self.at(segment.va, bytes)?.copy_from_slice(source);
        Ok(())
    }

    fn relocate(&mut self, layout: &Layout) -> Result<(), CageError> {
        let imports = bind(layout)?;
        let base = self.base as u64;
        for relocation in &layout.relocations {
            let (at, value) = match *relocation {
                Relocation::Relative { at, addend } => (at, base.wrapping_add(addend)),
                Relocation::Symbol { at, target, addend, kind: _ } => {
                    let symbol = match target {
                        SymbolTarget::Import(index) => *imports
                            .get(index)
                            .ok_or(CageError::Unmappable("a relocation without its symbol"))?,
                        SymbolTarget::Defined(value) => base.wrapping_add(value),
                    };
                    (at, symbol.wrapping_add_signed(addend))
                }
                Relocation::TlsModule { at } => (at, self.tls_block as u64),
                Relocation::TlsOffset { at, value } => (at, value),
            };
            self.check_target(layout, at)?;
            self.at(at, size_of::<u64>())?.copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    }

    /// The layout has promised that a relocation writes into a writable segment. A wrong promise
    /// would change code, so it is checked again.
    fn check_target(&self, layout: &Layout, at: u64) -> Result<(), CageError> {
        let inside = |segment: &Segment| {
            let range = segment.range();
            segment.access.write && range.start <= at && at.saturating_add(8) <= range.end
        };
        if layout.segments.iter().any(inside) {
            Ok(())
        } else {
            Err(CageError::Unmappable("a relocation outside writable segments"))
        }
    }

    /// The thread-local block as every call finds it: the template, relocated, and zeros.
    fn thread_locals(&mut self, layout: &Layout, bytes: usize) -> Result<Vec<u8>, CageError> {
        let mut block = vec![0; bytes];
        if let Some(tls) = layout.tls {
            let template = self.at(tls.va, tls.file_size as usize)?;
            block[..template.len()].copy_from_slice(template);
        }
        Ok(block)
    }
}

/// The addresses of a layout's imports, in its order. Weak ones that nobody offers are 0.
fn bind(layout: &Layout) -> Result<Vec<u64>, CageError> {
    let address = |import: &mfaas_inspect::Import| match ROWS.iter().position(|row| row.symbol == import.name)
    {
        Some(row) => Ok(window::import(row) as u64),
        None if import.weak => Ok(0),
        None => Err(CageError::UnknownImport(import.name.clone())),
    };
    layout.imports.iter().map(address).collect()
}
