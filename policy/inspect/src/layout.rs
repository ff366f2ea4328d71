//! What a loader needs, as plain data that has been checked.
//!
//! A loader that obeys a [`Layout`] reads only the given file and writes only into segments that are
//! writable or RELRO: every address here has been proven to lie there. Where the halves of an image
//! lie is `mfaas_rules::profiles::image_layout`'s to say.

use std::ops::Range;

use mfaas_rules::limits;
use mfaas_rules::profiles::image_layout::{Bank, CONSTANTS_START, DATA_START};
use object::elf;

use crate::image::{Image, ProgramRange};
use crate::relocations::{RawRelocation, read_relocations};
use crate::symbols::{RawSymbol, read_symbols};
use crate::{InspectError, PAGE_BYTES};

/// How to load an image. Addresses are virtual addresses of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Bytes from address 0 to the end of the last segment, a multiple of [`PAGE_BYTES`].
    pub span_bytes: u64,
    /// PT_LOAD segments, ascending; no two overlap.
    pub segments: Vec<Segment>,
    /// What becomes read-only after relocation; within one writable segment.
    pub relro: Option<Range<u64>>,
    /// The thread-local template.
    pub tls: Option<TlsTemplate>,
    /// What to write, in file order. Each writes 8 bytes, and all of them into writable segments.
    pub relocations: Vec<Relocation>,
    /// Undefined symbols; [`SymbolTarget::Import`] counts in this list.
    pub imports: Vec<Import>,
    /// Defined symbols that are visible outside.
    pub exports: Vec<Export>,
    /// DT_INIT_ARRAY as addresses. Exposed to be counted; a loader of ours never runs it.
    pub init_array: Option<Range<u64>>,
}

impl Layout {
    /// As much as the image takes of the banks of a window, up to the end of its last part in each: all three
    /// lie at one offset, so the largest decides. What its data begins as lies behind its constants.
    pub fn bank_bytes(&self) -> u64 {
        let (template, block) = self.tls.map_or((0, 0), |tls| (tls.file_size, tls.mem_size));
        let (mut code, mut data, mut held, mut constants) = (0, 0, 0, 0);
        for segment in &self.segments {
            let range = segment.range();
            match Bank::of(&range) {
                Some(Bank::Code) => code = range.end.max(code),
                Some(Bank::Data) => {
                    data = (range.end - DATA_START).max(data);
                    held = (segment.va + segment.file_size - DATA_START).max(held);
                }
                Some(Bank::Constants) => constants = (range.end - CONSTANTS_START).max(constants),
                Some(Bank::Tables) | None => {}
            }
        }
        code.max(data + block).max(constants + held + template)
    }
}

/// A PT_LOAD segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub va: u64,
    /// Where its bytes begin in the file.
    pub file_offset: u64,
    /// How many bytes come from the file; within the file.
    pub file_size: u64,
    /// How many bytes it has in memory, at least `file_size`; the rest is zero.
    pub mem_size: u64,
    /// What its addresses have to keep when the image is moved: a power of two, at most
    /// [`PAGE_BYTES`].
    pub align: u64,
    /// Its protection; never writable and executable.
    pub access: Access,
}

impl Segment {
    /// Addresses of the segment.
    pub fn range(&self) -> Range<u64> {
        self.va..self.va + self.mem_size
    }
}

/// Protection of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// PF_R.
    pub read: bool,
    /// PF_W.
    pub write: bool,
    /// PF_X.
    pub execute: bool,
}

/// The thread-local template (PT_TLS).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsTemplate {
    /// Where the initial bytes lie, as an address; they come from the file.
    pub va: u64,
    /// How many initial bytes there are.
    pub file_size: u64,
    /// Size of the block; the rest is zero.
    pub mem_size: u64,
    /// Alignment, a power of two, at most [`PAGE_BYTES`].
    pub align: u64,
}

/// One write of 8 bytes at `at`. `base` is where the loader put address 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relocation {
    /// `base + addend`; the sum lies within the span.
    Relative {
        /// Where.
        at: u64,
        /// An address of the image.
        addend: u64,
    },
    /// The symbol's value plus `addend`.
    Symbol {
        /// Where.
        at: u64,
        /// Which symbol.
        target: SymbolTarget,
        /// Added to its value, wrapping.
        addend: i64,
        /// What the slot is for.
        kind: SymbolKind,
    },
    /// The id of this module for `__tls_get_addr`.
    TlsModule {
        /// Where.
        at: u64,
    },
    /// An offset into this module's thread-local block; within it.
    TlsOffset {
        /// Where.
        at: u64,
        /// What to write.
        value: u64,
    },
}

/// What a symbol relocation refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolTarget {
    /// Index into [`Layout::imports`].
    Import(usize),
    /// An address within the span: `base + value`.
    Defined(u64),
}

/// The psABI type of a symbol relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolKind {
    /// R_X86_64_GLOB_DAT: addend is 0.
    Glob,
    /// R_X86_64_JUMP_SLOT: addend is 0.
    JumpSlot,
    /// R_X86_64_64.
    Abs64,
}

/// An undefined symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Its name, printable ASCII.
    pub name: String,
    /// May stay unbound (its value is then 0).
    pub weak: bool,
}

/// A defined symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its name, printable ASCII.
    pub name: String,
    /// Its address, within the span.
    pub va: u64,
}

/// The layout of an image that a loader of ours can load. Whether it may is the rules' question.
pub fn layout(data: &[u8]) -> Result<Layout, InspectError> {
    let image = Image::parse(data)?.ok_or(InspectError::Unloadable { what: "no x86-64 shared object" })?;
    check_loadable(&image)?;
    // Nothing here follows these names, but what has no facts must not have a layout either.
    image.dynamic.needed.iter().try_for_each(|name| image.string(*name).map(drop))?;
    let symbols = read_symbols(&image)?;
    let raw = read_relocations(&image)?;
    let span_bytes = image.span_bytes();
    let (numbers, imports) = imports(&symbols);
    let tls = image.tls.map(|range| tls_template(&image, &range)).transpose()?;
    let context = Context { image: &image, symbols: &symbols, import_numbers: &numbers, tls };
    let mut relocations = Vec::with_capacity(raw.len());
    for one in &raw {
        relocations.push(context.relocation(one)?);
    }
    Ok(Layout {
        span_bytes,
        segments: image.loads.iter().map(segment).collect(),
        relro: image.relro.map(|range| relro(&image, &range)).transpose()?,
        tls,
        relocations,
        imports,
        exports: exports(&symbols, span_bytes)?,
        init_array: init_array(&image)?,
    })
}

fn check_loadable(image: &Image<'_>) -> Result<(), InspectError> {
    let max = limits::BINARY.image_bytes_max;
    let bytes = image.memory_bytes();
    if !image.segment_faults.is_empty() {
        Err(InspectError::Malformed { what: "a segment that overlaps another or leaves the file" })
    } else if image.loads.is_empty() {
        Err(InspectError::Malformed { what: "no segments" })
    } else if bytes > max {
        Err(InspectError::TooLarge { what: "bytes of memory", value: bytes, max })
    } else if image.loads.iter().any(|load| load.writable() && load.executable()) {
        Err(InspectError::Unloadable { what: "a segment that is writable and executable" })
    } else if image.interpreter {
        Err(InspectError::Unloadable { what: "it is a program, not a library" })
    } else {
        Ok(())
    }
}

fn segment(range: &ProgramRange) -> Segment {
    Segment {
        va: range.va,
        file_offset: range.file_offset,
        file_size: range.file_size,
        mem_size: range.mem_size,
        align: range.align.max(1),
        access: Access { read: range.readable(), write: range.writable(), execute: range.executable() },
    }
}

/// The range, which lies in one writable segment.
fn relro(image: &Image<'_>, range: &ProgramRange) -> Result<Range<u64>, InspectError> {
    let error = InspectError::OutOfBounds { what: "the RELRO range" };
    let end = range.va.checked_add(range.mem_size).ok_or_else(|| error.clone())?;
    let inside = |load: &ProgramRange| load.writable() && load.va <= range.va && end <= load.memory().end;
    if image.loads.iter().any(inside) { Ok(range.va..end) } else { Err(error) }
}

fn tls_template(image: &Image<'_>, range: &ProgramRange) -> Result<TlsTemplate, InspectError> {
    // One of zeros alone has an address that may lie between two segments.
    if range.file_size > 0 {
        image.bytes_at(range.va, range.file_size, "the thread-local template")?;
    }
    let max = limits::BINARY.tls_bytes_max;
    let align = range.align.max(1);
    if range.mem_size > max {
        Err(InspectError::TooLarge { what: "thread-local bytes", value: range.mem_size, max })
    } else if range.mem_size < range.file_size || !align.is_power_of_two() || align > PAGE_BYTES {
        Err(InspectError::Malformed { what: "a thread-local template of an impossible shape" })
    } else {
        Ok(TlsTemplate { va: range.va, file_size: range.file_size, mem_size: range.mem_size, align })
    }
}

/// For each symbol its number among the imports, and the imports.
fn imports(symbols: &[RawSymbol]) -> (Vec<Option<usize>>, Vec<Import>) {
    let mut imports = Vec::new();
    let mut numbers = vec![None; symbols.len()];
    for (index, symbol) in symbols.iter().enumerate().skip(1).filter(|(_, symbol)| symbol.undefined()) {
        numbers[index] = Some(imports.len());
        imports.push(Import { name: symbol.name.clone(), weak: symbol.binding == elf::STB_WEAK });
    }
    (numbers, imports)
}

fn exports(symbols: &[RawSymbol], span_bytes: u64) -> Result<Vec<Export>, InspectError> {
    let visible = symbols.iter().skip(1).filter(|symbol| !symbol.undefined() && !symbol.local());
    visible
        .map(|symbol| Ok(Export { name: symbol.name.clone(), va: defined_value(symbol, span_bytes)? }))
        .collect()
}

/// The address of a defined symbol that is neither absolute, nor common, nor thread-local, nor IFUNC.
fn defined_value(symbol: &RawSymbol, span_bytes: u64) -> Result<u64, InspectError> {
    let special = symbol.section == elf::SHN_ABS || symbol.section == elf::SHN_COMMON;
    if special || symbol.kind == elf::STT_GNU_IFUNC || symbol.kind == elf::STT_TLS {
        Err(InspectError::Unloadable { what: "a symbol that is absolute, common, thread-local or IFUNC" })
    } else if symbol.value > span_bytes {
        Err(InspectError::OutOfBounds { what: "a symbol" })
    } else {
        Ok(symbol.value)
    }
}

fn init_array(image: &Image<'_>) -> Result<Option<Range<u64>>, InspectError> {
    let what = "the array of constructors";
    match (image.dynamic.get(elf::DT_INIT_ARRAY), image.dynamic.get(elf::DT_INIT_ARRAYSZ)) {
        (None, None) => Ok(None),
        (Some(va), Some(bytes)) => {
            image.bytes_at(va, bytes, what)?;
            Ok(Some(va..va + bytes))
        }
        (Some(_), None) | (None, Some(_)) => Err(InspectError::Malformed { what }),
    }
}

/// What decoding one relocation needs.
struct Context<'image> {
    image: &'image Image<'image>,
    symbols: &'image [RawSymbol],
    import_numbers: &'image [Option<usize>],
    tls: Option<TlsTemplate>,
}

impl Context<'_> {
    fn relocation(&self, raw: &RawRelocation) -> Result<Relocation, InspectError> {
        let at = self.writable(raw.at)?;
        match elf::RelocationType(raw.kind) {
            elf::R_X86_64_RELATIVE => Ok(Relocation::Relative { at, addend: self.address(raw.addend)? }),
            elf::R_X86_64_GLOB_DAT => self.symbol(at, raw.symbol, 0, SymbolKind::Glob),
            elf::R_X86_64_JUMP_SLOT => self.symbol(at, raw.symbol, 0, SymbolKind::JumpSlot),
            elf::R_X86_64_64 => self.symbol(at, raw.symbol, raw.addend, SymbolKind::Abs64),
            elf::R_X86_64_DTPMOD64 => self.tls_value(raw.symbol, 0).map(|_| Relocation::TlsModule { at }),
            elf::R_X86_64_DTPOFF64 => {
                Ok(Relocation::TlsOffset { at, value: self.tls_value(raw.symbol, raw.addend)? })
            }
            // COPY, IRELATIVE, static TLS and whatever comes: refused by number.
            _ => Err(InspectError::UnknownRelocation { kind: raw.kind, at: raw.at }),
        }
    }

    /// `at`, if the 8 bytes there lie in one writable segment.
    fn writable(&self, at: u64) -> Result<u64, InspectError> {
        let error = InspectError::OutOfBounds { what: "the target of a relocation" };
        if self.image.writable(at) { Ok(at) } else { Err(error) }
    }

    /// An addend that is an address of the image, its end included.
    fn address(&self, addend: i64) -> Result<u64, InspectError> {
        let address = u64::try_from(addend).ok().filter(|address| *address <= self.image.span_bytes());
        address.ok_or(InspectError::OutOfBounds { what: "the value of a relocation" })
    }

    fn symbol(&self, at: u64, index: u32, addend: i64, kind: SymbolKind) -> Result<Relocation, InspectError> {
        let symbol = self.entry(index)?;
        let target = match self.import_numbers.get(index as usize).copied().flatten() {
            Some(_) if symbol.kind == elf::STT_TLS => {
                return Err(InspectError::Unloadable { what: "a thread-local of another library" });
            }
            Some(number) => SymbolTarget::Import(number),
            None => SymbolTarget::Defined(defined_value(symbol, self.image.span_bytes())?),
        };
        Ok(Relocation::Symbol { at, target, addend, kind })
    }

    /// Symbol 0 is no symbol, so nothing but a thread-local relocation may name it.
    fn entry(&self, index: u32) -> Result<&RawSymbol, InspectError> {
        let what = "the symbol of a relocation";
        if index == 0 {
            return Err(InspectError::Malformed { what: "a relocation without a symbol" });
        }
        self.symbols.get(index as usize).ok_or(InspectError::OutOfBounds { what })
    }

    /// The offset of a thread-local of this image, within its block.
    fn tls_value(&self, index: u32, addend: i64) -> Result<u64, InspectError> {
        let error = InspectError::OutOfBounds { what: "a thread-local" };
        let template =
            self.tls.ok_or(InspectError::Malformed { what: "thread-locals without a template" })?;
        let base = if index == 0 {
            0
        } else {
            let symbol = self.entry(index)?;
            if symbol.undefined() || symbol.kind != elf::STT_TLS {
                return Err(InspectError::Unloadable { what: "a thread-local of another library" });
            }
            symbol.value
        };
        let value = base.checked_add_signed(addend).ok_or_else(|| error.clone())?;
        if value <= template.mem_size { Ok(value) } else { Err(error) }
    }
}
