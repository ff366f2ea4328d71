//! Relocations: addresses written into a freshly mapped image, as its checked layout says.

use mfaas_inspect::{Layout, Relocation, SymbolTarget};

use crate::CageError;
use crate::bind;
use crate::memory::Region;

/// The addresses of a layout's imports, in its order. Weak ones that nobody offers are 0.
fn bind_imports(layout: &Layout) -> Result<Vec<u64>, CageError> {
    let bind = |import: &mfaas_inspect::Import| match bind::address_of(&import.name) {
        Some(address) => Ok(address as u64),
        None if import.weak => Ok(0),
        None => Err(CageError::UnknownImport(import.name.clone())),
    };
    layout.imports.iter().map(bind).collect()
}

/// Writes all relocations into `image`, whose writable segments are mapped and filled.
/// `tls_block` is the address of its thread-local block.
pub(crate) fn relocate(image: &Region, layout: &Layout, tls_block: u64) -> Result<(), CageError> {
    let base = image.address() as u64;
    let imports = bind_imports(layout)?;
    for relocation in &layout.relocations {
        let (at, value) = match *relocation {
            Relocation::Relative { at, addend } => (at, base.wrapping_add(addend)),
            Relocation::Symbol { at, target, addend, kind: _ } => {
                let symbol = match target {
                    SymbolTarget::Import(index) => {
                        *imports.get(index).ok_or(CageError::Unmappable("a relocation without its symbol"))?
                    }
                    SymbolTarget::Defined(value) => base.wrapping_add(value),
                };
                (at, symbol.wrapping_add_signed(addend))
            }
            Relocation::TlsModule { at } => (at, tls_block),
            Relocation::TlsOffset { at, value } => (at, value),
        };
        write(image, layout, at, value)?;
    }
    Ok(())
}

/// Writes one word. The layout has promised that it lies in a writable segment; a wrong promise
/// would write into the worker, so it is checked again.
fn write(image: &Region, layout: &Layout, at: u64, value: u64) -> Result<(), CageError> {
    let inside = |range: &std::ops::Range<u64>| range.start <= at && at.saturating_add(8) <= range.end;
    if !layout.segments.iter().any(|segment| segment.access.write && inside(&segment.range())) {
        return Err(CageError::Unmappable("a relocation outside writable segments"));
    }
    let word = image.at(at as usize).cast::<u64>();
    // SAFETY: INV-CAGE-3. Inside a segment that is mapped writable and not yet used.
    unsafe { word.write_unaligned(value) };
    Ok(())
}
