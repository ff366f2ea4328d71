//! [`inspect`]: everything that the rules ask about an image.

use mfaas_rules::facts::BinaryFacts;
use mfaas_rules::profiles::image_layout::Bank;
use object::elf;

use crate::InspectError;
use crate::image::{Image, ProgramRange};
use crate::instructions::{key_instructions, system_instructions};
use crate::relocations::{RawRelocation, read_relocations};
use crate::symbols::{RawSymbol, read_symbols, table_bytes};

/// Facts about an image, for `mfaas_rules::judge_binary`.
///
/// Bytes that are no x86-64 shared object yield facts that say so. An error means that a table
/// of the image cannot be read, which is as good as a refusal.
pub fn inspect(data: &[u8]) -> Result<BinaryFacts, InspectError> {
    let file_bytes = data.len() as u64;
    let Some(image) = Image::parse(data)? else {
        return Ok(BinaryFacts { file_bytes, ..BinaryFacts::default() });
    };
    let symbols = read_symbols(&image)?;
    let relocations = read_relocations(&image)?;
    // A symbol behind the table's end would be an import that the verdict does not see.
    if relocations.iter().any(|relocation| relocation.symbol as usize >= symbols.len()) {
        return Err(InspectError::OutOfBounds { what: "the symbol of a relocation" });
    }
    let mut facts = BinaryFacts { file_bytes, is_x86_64_shared_object: true, ..BinaryFacts::default() };
    segment_facts(&image, &mut facts);
    dynamic_facts(&image, &mut facts)?;
    symbol_facts(&symbols, &mut facts);
    relocation_facts(&image, &relocations, &mut facts);
    facts.key_instructions = key_instructions(&image);
    facts.system_instructions = system_instructions(&image);
    Ok(facts)
}

fn segment_facts(image: &Image<'_>, facts: &mut BinaryFacts) {
    let loads = &image.loads;
    facts.image_bytes = image.memory_bytes();
    facts.writable_bytes = loads.iter().filter(|load| load.writable()).map(|load| load.mem_size).sum::<u64>();
    facts.writable_bytes = facts.writable_bytes.saturating_sub(relro_bytes(image));
    facts.tls_bytes = image.tls.map_or(0, |tls| tls.mem_size);
    facts.writable_and_executable = loads.iter().any(|load| load.writable() && load.executable());
    facts.executable_stack = image.stack_flags.is_none_or(|flags| flags & elf::PF_X.0 != 0);
    facts.relro_missing = image.relro.is_none();
    facts.interpreter = image.interpreter;
    facts.segment_faults.clone_from(&image.segment_faults);
    facts.segment_faults.extend(loads.iter().filter_map(|load| bank_fault(image, load)));
    facts.segment_faults.extend(tables_fault(image));
}

/// What lies among the tables stays in the file, so nothing else may lie there: code would find
/// another image's bytes in its place.
fn tables_fault(image: &Image<'_>) -> Option<String> {
    /// Bytes between two tables.
    const PADDING_BYTES_MAX: u64 = 8;
    /// Symbols, names, two kinds of hashes, three of relocations.
    const TABLES: u64 = 7;
    let among = image.loads.iter().filter(|load| Bank::of(&load.memory()) == Some(Bank::Tables));
    let bytes = among.map(|load| load.mem_size).sum::<u64>();
    let known = table_bytes(image).saturating_add(TABLES * PADDING_BYTES_MAX);
    (bytes > known).then(|| format!("{bytes} bytes lie among the tables, which have {known} at most"))
}

/// What is wrong with the place of a segment: each lies in one bank whole, and its rights are the bank's.
fn bank_fault(image: &Image<'_>, load: &ProgramRange) -> Option<String> {
    let range = load.memory();
    let relro = |relro: &ProgramRange| relro.va <= range.start && range.end <= relro.memory().end;
    let stays_writable = load.writable() && !image.relro.as_ref().is_some_and(relro);
    let what = match Bank::of(&range) {
        None => Some("reaches over the end of a bank"),
        Some(Bank::Code) => stays_writable.then_some("stays writable among the code"),
        Some(Bank::Tables) => {
            (load.writable() || load.executable()).then_some("is not only read and lies among the tables")
        }
        Some(Bank::Data) => (!load.writable()).then_some("is not writable and lies among the data"),
        Some(Bank::Constants) => (stays_writable || load.executable())
            .then_some("is not only read once it is linked and lies among the constants"),
    };
    what.map(|what| format!("the segment at {:#x} {what}", load.va))
}

/// How much of the writable segments the RELRO range covers; a range that lies elsewhere covers
/// nothing.
fn relro_bytes(image: &Image<'_>) -> u64 {
    let Some(ProgramRange { va, mem_size, .. }) = image.relro else { return 0 };
    let end = va.saturating_add(mem_size);
    let covered = |load: &ProgramRange| end.min(load.memory().end).saturating_sub(va.max(load.va));
    image.loads.iter().filter(|load| load.writable()).map(covered).sum()
}

fn dynamic_facts(image: &Image<'_>, facts: &mut BinaryFacts) -> Result<(), InspectError> {
    let dynamic = &image.dynamic;
    let flags = dynamic.get(elf::DT_FLAGS).unwrap_or(0);
    facts.text_relocations = dynamic.has(elf::DT_TEXTREL) || flags & elf::DF_TEXTREL.0 != 0;
    for name in &dynamic.needed {
        facts.needed.push(image.string(*name)?);
    }
    facts.search_paths = dynamic.search_paths.iter().map(|tag| (*tag).to_owned()).collect();
    facts.init_array = entries(image, elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ);
    facts.other_constructors = entries(image, elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ)
        .saturating_add(entries(image, elf::DT_PREINIT_ARRAY, elf::DT_PREINIT_ARRAYSZ))
        .saturating_add(usize::from(dynamic.has(elf::DT_INIT)))
        .saturating_add(usize::from(dynamic.has(elf::DT_FINI)));
    Ok(())
}

/// Entries of an array of functions. Either tag alone counts as one: it is not what a linker writes.
fn entries(image: &Image<'_>, start: elf::DynamicTag, size: elf::DynamicTag) -> usize {
    match (image.dynamic.get(start), image.dynamic.get(size)) {
        (None, None) => 0,
        (Some(_), Some(bytes)) => usize::try_from(bytes.div_ceil(8)).unwrap_or(usize::MAX),
        (Some(_), None) | (None, Some(_)) => 1,
    }
}

fn symbol_facts(symbols: &[RawSymbol], facts: &mut BinaryFacts) {
    for symbol in symbols.iter().skip(1) {
        facts.ifuncs += usize::from(symbol.kind == elf::STT_GNU_IFUNC);
        facts.unique_symbols += usize::from(symbol.binding == elf::STB_GNU_UNIQUE);
        if symbol.undefined() {
            facts.imports.push(symbol.name.clone());
        } else if !symbol.local() {
            facts.exports.push(symbol.name.clone());
        }
    }
}

fn relocation_facts(image: &Image<'_>, relocations: &[RawRelocation], facts: &mut BinaryFacts) {
    // Whether or not the image says so itself.
    facts.text_relocations |= relocations.iter().any(|relocation| !image.writable(relocation.at));
    let mut types: Vec<u32> = relocations.iter().map(|relocation| relocation.kind).collect();
    facts.ifuncs += types.iter().filter(|kind| **kind == elf::R_X86_64_IRELATIVE.0).count();
    types.sort_unstable();
    types.dedup();
    facts.relocation_types = types;
}
