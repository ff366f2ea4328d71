//! Headers, segments and the dynamic table: the parts of an image that a loader obeys.
//!
//! Faults of segments are collected, since they are facts to report; a dynamic table that cannot
//! be read is an error. Addresses are turned into bytes here alone ([`Image::bytes_at`]).

use std::ops::Range;

use mfaas_rules::limits;
use mfaas_rules::profiles::image_layout::{CONSTANTS_START, DATA_START, TABLES_START};
use object::elf;
use object::pod;

use crate::{InspectError, PAGE_BYTES};

pub(crate) type Endian = object::LittleEndian;
pub(crate) const LE: Endian = object::LittleEndian;

/// Program headers that an inspector reads. rust-lld writes ten.
const PROGRAM_HEADERS_MAX: usize = 32;
/// Entries of the dynamic table that an inspector reads. rust-lld writes about twenty.
const DYNAMIC_ENTRIES_MAX: usize = 128;
/// Files above this are not looked at; the verdict's own limit is far lower.
const FILE_BYTES_HARD_MAX: u64 = 4 * limits::BINARY.file_bytes_max;
/// Length of one name. Thousands of symbols may share one string, so this bounds their sum too.
const NAME_BYTES_MAX: usize = 1024;
/// User addresses end here.
const ADDRESS_MAX: u64 = 1 << 47;

/// The range of one program header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProgramRange {
    pub(crate) va: u64,
    pub(crate) file_offset: u64,
    pub(crate) file_size: u64,
    pub(crate) mem_size: u64,
    pub(crate) align: u64,
    pub(crate) flags: u32,
}

impl ProgramRange {
    pub(crate) fn writable(&self) -> bool {
        self.flags & elf::PF_W.0 != 0
    }

    pub(crate) fn executable(&self) -> bool {
        self.flags & elf::PF_X.0 != 0
    }

    pub(crate) fn readable(&self) -> bool {
        self.flags & elf::PF_R.0 != 0
    }

    /// Addresses in memory. Only for ranges that passed [`range_fault`].
    pub(crate) fn memory(&self) -> Range<u64> {
        self.va..self.va.saturating_add(self.mem_size)
    }
}

/// The dynamic table: each known tag at most once, lists apart.
#[derive(Debug, Default)]
pub(crate) struct Dynamic {
    values: Vec<(i64, u64)>,
    pub(crate) needed: Vec<u64>,
    /// Tags that make a loader look elsewhere, by name.
    pub(crate) search_paths: Vec<&'static str>,
}

impl Dynamic {
    pub(crate) fn get(&self, tag: elf::DynamicTag) -> Option<u64> {
        self.values.iter().find(|(known, _)| *known == tag.0).map(|(_, value)| *value)
    }

    pub(crate) fn has(&self, tag: elf::DynamicTag) -> bool {
        self.get(tag).is_some()
    }
}

/// An image whose headers have been read.
pub(crate) struct Image<'data> {
    pub(crate) data: &'data [u8],
    /// PT_LOAD segments without a fault, in file order.
    pub(crate) loads: Vec<ProgramRange>,
    pub(crate) segment_faults: Vec<String>,
    pub(crate) relro: Option<ProgramRange>,
    pub(crate) tls: Option<ProgramRange>,
    pub(crate) stack_flags: Option<u32>,
    pub(crate) interpreter: bool,
    pub(crate) dynamic: Dynamic,
}

impl<'data> Image<'data> {
    /// Reads the headers. `Ok(None)`: these bytes are not an x86-64 shared object.
    pub(crate) fn parse(data: &'data [u8]) -> Result<Option<Self>, InspectError> {
        let file_bytes = data.len() as u64;
        if file_bytes > FILE_BYTES_HARD_MAX {
            return Err(InspectError::TooLarge {
                what: "bytes",
                value: file_bytes,
                max: FILE_BYTES_HARD_MAX,
            });
        }
        let Some(programs) = program_headers(data)? else { return Ok(None) };
        let mut image = Self {
            data,
            loads: Vec::new(),
            segment_faults: Vec::new(),
            relro: None,
            tls: None,
            stack_flags: None,
            interpreter: false,
            dynamic: Dynamic::default(),
        };
        let mut dynamic = None;
        for (kind, range) in programs {
            match kind {
                elf::PT_LOAD => image.take_load(range),
                elf::PT_GNU_RELRO => set_once(&mut image.relro, range, "a second RELRO range")?,
                elf::PT_TLS => set_once(&mut image.tls, range, "a second thread-local template")?,
                elf::PT_DYNAMIC => set_once(&mut dynamic, range, "a second dynamic table")?,
                elf::PT_GNU_STACK => set_once(&mut image.stack_flags, range.flags, "a second stack header")?,
                elf::PT_INTERP => image.interpreter = true,
                kind if UNREAD_HEADERS.contains(&kind) => {}
                _ => return Err(InspectError::Malformed { what: "a program header of an unknown type" }),
            }
        }
        let dynamic = dynamic.ok_or(InspectError::Malformed { what: "no dynamic table" })?;
        image.check_alias(Some(&dynamic), "a dynamic table with two places in the file")?;
        image.check_alias(image.tls.as_ref(), "a thread-local template with two places in the file")?;
        image.check_alias(image.relro.as_ref(), "a RELRO range with two places in the file")?;
        image.dynamic = image.read_dynamic(&dynamic)?;
        Ok(Some(image))
    }

    fn take_load(&mut self, range: ProgramRange) {
        let number = self.loads.len() + self.segment_faults.len();
        let fault = range_fault(&range, self.data.len() as u64).or_else(|| self.neighbour_fault(&range));
        match fault {
            Some(fault) => self.segment_faults.push(format!("segment {number} {fault}")),
            None => self.loads.push(range),
        }
    }

    /// Segments have to ascend and must not overlap, or what lies at an address would depend on who
    /// reads. They may share a page: a loader of ours copies them to where all images lie, and no
    /// page there has the protection of one segment. Code is in one segment, or an instruction could
    /// begin in one and end in another, where no search for it looks.
    fn neighbour_fault(&self, range: &ProgramRange) -> Option<&'static str> {
        if range.va < self.loads.last()?.memory().end {
            Some("overlaps, or lies before, another")
        } else if range.executable() && self.loads.iter().any(ProgramRange::executable) {
            Some("is a second one with code")
        } else {
            None
        }
    }

    /// Whether the 8 bytes at `at` lie in one writable segment, as a relocation's have to.
    pub(crate) fn writable(&self, at: u64) -> bool {
        let holds = |load: &ProgramRange, end| load.writable() && load.va <= at && end <= load.memory().end;
        at.checked_add(8).is_some_and(|end| self.loads.iter().any(|load| holds(load, end)))
    }

    /// A range that is named by address and by place in the file has to mean one thing by both:
    /// which of them is believed depends on who reads.
    fn check_alias(&self, range: Option<&ProgramRange>, what: &'static str) -> Result<(), InspectError> {
        let Some(range) = range.filter(|range| range.file_size > 0) else { return Ok(()) };
        let holder = self.loads.iter().find(|load| load.va <= range.va && range.va < load.va + load.mem_size);
        let agrees = |load: &ProgramRange| range.file_offset == load.file_offset + (range.va - load.va);
        // Whoever needs a range that lies in no segment says so.
        if holder.is_none_or(agrees) { Ok(()) } else { Err(InspectError::Malformed { what }) }
    }

    /// The file's bytes behind `length` bytes of memory at `va`, if all of them come from the file.
    pub(crate) fn bytes_at(
        &self,
        va: u64,
        length: u64,
        what: &'static str,
    ) -> Result<&'data [u8], InspectError> {
        let error = InspectError::OutOfBounds { what };
        let end = va.checked_add(length).ok_or_else(|| error.clone())?;
        let holder = self.loads.iter().find(|load| load.va <= va && end <= load.va + load.file_size);
        let start = holder.map(|load| load.file_offset + (va - load.va)).ok_or_else(|| error.clone())?;
        let range = usize::try_from(start).ok().zip(usize::try_from(start + length).ok());
        range.and_then(|(start, end)| self.data.get(start..end)).ok_or(error)
    }

    /// The file's bytes from `va` to the end of its segment's part of the file, for tables that
    /// carry their own length.
    pub(crate) fn bytes_from(&self, va: u64, what: &'static str) -> Result<&'data [u8], InspectError> {
        let holder = self.loads.iter().find(|load| load.va <= va && va < load.va + load.file_size);
        let holder = holder.ok_or(InspectError::OutOfBounds { what })?;
        self.bytes_at(va, holder.va + holder.file_size - va, what)
    }

    /// A NUL-terminated string of the dynamic string table, printable ASCII without spaces.
    pub(crate) fn string(&self, offset: u64) -> Result<String, InspectError> {
        let what = "the string table";
        let table = self.dynamic.get(elf::DT_STRTAB).ok_or(InspectError::OutOfBounds { what })?;
        let size = self.dynamic.get(elf::DT_STRSZ).ok_or(InspectError::OutOfBounds { what })?;
        let bytes = self.bytes_at(table, size, what)?;
        let offset = usize::try_from(offset).map_err(|_| InspectError::OutOfBounds { what })?;
        let rest = bytes.get(offset..).ok_or(InspectError::OutOfBounds { what })?;
        let length = rest.iter().take(NAME_BYTES_MAX + 1).position(|byte| *byte == 0);
        let name = &rest[..length.ok_or(InspectError::OutOfBounds { what: "a name, or it is too long," })?];
        match std::str::from_utf8(name) {
            Ok(text) if name.iter().all(u8::is_ascii_graphic) => Ok(text.to_owned()),
            _ => Err(InspectError::Malformed { what: "a name that is not printable ASCII" }),
        }
    }

    /// Bytes from address 0 to the end of the last segment, in whole pages.
    pub(crate) fn span_bytes(&self) -> u64 {
        self.loads.last().map_or(0, |last| last.memory().end.next_multiple_of(PAGE_BYTES))
    }

    /// Bytes that the image takes in memory: its banks, each from its beginning, since an image may
    /// not begin high up to seem small. Tables stay in the file.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let reach = |start: u64, end: u64| {
            let part = self.loads.iter().filter(move |load| (start..end).contains(&load.va));
            part.map(|load| load.memory().end - start).max().unwrap_or(0)
        };
        reach(0, TABLES_START) + reach(DATA_START, CONSTANTS_START) + reach(CONSTANTS_START, u64::MAX)
    }

    fn read_dynamic(&self, range: &ProgramRange) -> Result<Dynamic, InspectError> {
        let what = "the dynamic table";
        let bytes = self.bytes_at(range.va, range.mem_size, what)?;
        let mut dynamic = Dynamic::default();
        for (number, entry) in bytes.chunks_exact(size_of::<elf::Dyn64<Endian>>()).enumerate() {
            let (entry, _) = pod::from_bytes::<elf::Dyn64<Endian>>(entry)
                .map_err(|()| InspectError::OutOfBounds { what })?;
            if number >= DYNAMIC_ENTRIES_MAX {
                return Err(too_large("dynamic entries", number + 1, DYNAMIC_ENTRIES_MAX));
            }
            let (tag, value) = (entry.d_tag.get(LE), entry.d_val.get(LE));
            if tag == elf::DT_NULL {
                return Ok(dynamic);
            }
            dynamic.take(tag, value)?;
        }
        Err(InspectError::Malformed { what: "a dynamic table without an end" })
    }
}

impl Dynamic {
    /// Keeps one entry. A tag that is not known here is refused: it could ask a loader for
    /// anything.
    fn take(&mut self, tag: elf::DynamicTag, value: u64) -> Result<(), InspectError> {
        match tag {
            elf::DT_NEEDED if self.needed.len() < DYNAMIC_ENTRIES_MAX => self.needed.push(value),
            elf::DT_RPATH => self.search_paths.push("DT_RPATH"),
            elf::DT_RUNPATH => self.search_paths.push("DT_RUNPATH"),
            elf::DT_AUXILIARY => self.search_paths.push("DT_AUXILIARY"),
            elf::DT_FILTER => self.search_paths.push("DT_FILTER"),
            _ if !KNOWN_TAGS.contains(&tag) => {
                return Err(InspectError::Malformed { what: "an unknown entry in the dynamic table" });
            }
            _ if self.has(tag) => {
                return Err(InspectError::Malformed { what: "an entry twice in the dynamic table" });
            }
            _ => self.values.push((tag.0, value)),
        }
        Ok(())
    }
}

/// Program headers that no loader of ours reads: notes, unwinding tables, the headers themselves.
/// Any other type is refused: it could ask a loader for anything.
const UNREAD_HEADERS: &[elf::ProgramType] =
    &[elf::PT_NULL, elf::PT_NOTE, elf::PT_PHDR, elf::PT_GNU_EH_FRAME, elf::PT_GNU_PROPERTY];

/// Tags that rust-lld and GNU ld write, and those that a check looks for. Those of symbol versions
/// are not among them: a function's one library has none, and a table of them names libraries.
const KNOWN_TAGS: &[elf::DynamicTag] = &[
    elf::DT_PLTRELSZ,
    elf::DT_PLTGOT,
    elf::DT_HASH,
    elf::DT_STRTAB,
    elf::DT_SYMTAB,
    elf::DT_RELA,
    elf::DT_RELASZ,
    elf::DT_RELAENT,
    elf::DT_STRSZ,
    elf::DT_SYMENT,
    elf::DT_INIT,
    elf::DT_FINI,
    elf::DT_SONAME,
    elf::DT_SYMBOLIC,
    elf::DT_REL,
    elf::DT_RELSZ,
    elf::DT_RELENT,
    elf::DT_PLTREL,
    elf::DT_DEBUG,
    elf::DT_TEXTREL,
    elf::DT_JMPREL,
    elf::DT_BIND_NOW,
    elf::DT_INIT_ARRAY,
    elf::DT_FINI_ARRAY,
    elf::DT_INIT_ARRAYSZ,
    elf::DT_FINI_ARRAYSZ,
    elf::DT_FLAGS,
    elf::DT_PREINIT_ARRAY,
    elf::DT_PREINIT_ARRAYSZ,
    elf::DT_RELR,
    elf::DT_RELRSZ,
    elf::DT_RELRENT,
    elf::DT_GNU_HASH,
    elf::DT_RELACOUNT,
    elf::DT_FLAGS_1,
];

pub(crate) fn too_large(what: &'static str, value: usize, max: usize) -> InspectError {
    InspectError::TooLarge { what, value: value as u64, max: max as u64 }
}

fn set_once<T>(slot: &mut Option<T>, value: T, what: &'static str) -> Result<(), InspectError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(InspectError::Malformed { what }),
    }
}

/// Type and range of each program header; `None` if this is no x86-64 shared object.
fn program_headers(data: &[u8]) -> Result<Option<Vec<(elf::ProgramType, ProgramRange)>>, InspectError> {
    let Ok((header, _)) = pod::from_bytes::<elf::FileHeader64<Endian>>(data) else { return Ok(None) };
    let ident = &header.e_ident;
    let expected = ident.magic == elf::ELFMAG
        && ident.class == elf::ELFCLASS64
        && ident.data == elf::ELFDATA2LSB
        && ident.version == elf::EV_CURRENT
        && header.e_type.get(LE) == elf::ET_DYN
        && header.e_machine.get(LE) == elf::EM_X86_64;
    if !expected {
        return Ok(None);
    }
    let count = usize::from(header.e_phnum.get(LE));
    if count > PROGRAM_HEADERS_MAX {
        return Err(too_large("program headers", count, PROGRAM_HEADERS_MAX));
    }
    if usize::from(header.e_phentsize.get(LE)) != size_of::<elf::ProgramHeader64<Endian>>() {
        return Err(InspectError::Malformed { what: "program headers of an unknown size" });
    }
    let what = "the table of program headers";
    let offset = usize::try_from(header.e_phoff.get(LE)).map_err(|_| InspectError::OutOfBounds { what })?;
    let bytes = data.get(offset..).ok_or(InspectError::OutOfBounds { what })?;
    let (headers, _) = pod::slice_from_bytes::<elf::ProgramHeader64<Endian>>(bytes, count)
        .map_err(|()| InspectError::OutOfBounds { what })?;
    Ok(Some(headers.iter().map(|header| (header.p_type.get(LE), program_range(header))).collect()))
}

fn program_range(header: &elf::ProgramHeader64<Endian>) -> ProgramRange {
    ProgramRange {
        va: header.p_vaddr.get(LE),
        file_offset: header.p_offset.get(LE),
        file_size: header.p_filesz.get(LE),
        mem_size: header.p_memsz.get(LE),
        align: header.p_align.get(LE),
        flags: header.p_flags.get(LE).0,
    }
}

/// What is wrong with a PT_LOAD by itself. After this, sums of its fields cannot overflow.
///
/// Alignment above a page is what `#[repr(align(65536))]` on a static asks for, in safe code. The
/// compiler then reasons with an address that the loader does not keep: undefined behaviour.
fn range_fault(range: &ProgramRange, file_bytes: u64) -> Option<&'static str> {
    let file_end = range.file_offset.checked_add(range.file_size);
    let memory_end = range.va.checked_add(range.mem_size);
    if file_end.is_none_or(|end| end > file_bytes) {
        Some("leaves the file")
    } else if memory_end.is_none_or(|end| end > ADDRESS_MAX) {
        Some("wraps around or leaves the address space")
    } else if range.mem_size == 0 || range.mem_size < range.file_size {
        Some("is smaller in memory than in the file, or empty")
    } else if range.align > PAGE_BYTES || (range.align > 1 && !range.align.is_power_of_two()) {
        Some("asks for an alignment that a loader does not give")
    } else if range.va % range.align.max(1) != range.file_offset % range.align.max(1) {
        Some("is not aligned with its bytes in the file")
    } else {
        None
    }
}
