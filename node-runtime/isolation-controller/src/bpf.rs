//! Programs for the kernel (BPF). Their instructions are written down where they are used and wrapped into the object file that the
//! loader reads: no compiler for BPF is needed.

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use object::write::{Object, SectionId, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

/// Bytes of an instruction.
pub(crate) const INSTRUCTION: usize = 8;

/// Why a program of ours does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BpfError {
    /// The object file; a mistake of ours.
    #[error("the program cannot be written: {0}")]
    Object(#[from] object::write::Error),
    /// The kernel does not take it.
    #[error("the kernel takes no program of ours: {0}")]
    Load(#[from] EbpfError),
    /// It is not attached.
    #[error("the kernel does not run it: {0}")]
    Attach(#[from] ProgramError),
    /// Its array cannot be read.
    #[error("what it notes cannot be read: {0}")]
    Map(#[from] MapError),
    /// There is no such part in what was loaded; a mistake of ours.
    #[error("the program lacks {0}")]
    Missing(&'static str),
}

/// One instruction.
pub(crate) const fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> [u8; INSTRUCTION] {
    let ([o0, o1], [v0, v1, v2, v3]) = (offset.to_le_bytes(), value.to_le_bytes());
    [code, from << 4 | to, o0, o1, v0, v1, v2, v3]
}

/// An object file without anything in it.
pub(crate) fn object() -> Object<'static> {
    Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little)
}

/// A program, and where it is; its section says where the kernel is to run it.
pub(crate) fn add_program(
    file: &mut Object<'_>,
    section: &str,
    name: &str,
    program: &[[u8; INSTRUCTION]],
) -> SectionId {
    let text = file.add_section(Vec::new(), section.as_bytes().to_vec(), SectionKind::Text);
    file.append_section_data(text, program.as_flattened(), INSTRUCTION as u64);
    file.add_symbol(symbol(name, text, program.as_flattened().len(), SymbolKind::Text));
    text
}

/// The name of what begins a section.
pub(crate) fn symbol(name: &str, section: SectionId, size: usize, kind: SymbolKind) -> Symbol {
    Symbol {
        name: name.as_bytes().to_vec(),
        value: 0,
        size: size as u64,
        kind,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    }
}
