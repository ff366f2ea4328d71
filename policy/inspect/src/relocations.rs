//! Relocations as the file lists them: RELA, PLT and the packed RELR form.

use mfaas_rules::limits;
use object::elf;
use object::pod;

use crate::InspectError;
use crate::image::{Endian, Image, LE, too_large};

/// One relocation, not yet checked against anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawRelocation {
    pub(crate) at: u64,
    pub(crate) kind: u32,
    pub(crate) symbol: u32,
    pub(crate) addend: i64,
}

/// All relocations, in the order in which a loader applies them.
pub(crate) fn read_relocations(image: &Image<'_>) -> Result<Vec<RawRelocation>, InspectError> {
    let dynamic = &image.dynamic;
    if dynamic.has(elf::DT_REL) || dynamic.has(elf::DT_RELSZ) {
        return Err(InspectError::Malformed {
            what: "relocations without addends, which x86-64 does not have",
        });
    }
    if dynamic.get(elf::DT_PLTREL).is_some_and(|kind| i64::try_from(kind) != Ok(elf::DT_RELA.0)) {
        return Err(InspectError::Malformed { what: "a PLT with relocations of an unknown form" });
    }
    expect_entry_size(image, elf::DT_RELAENT, size_of::<elf::Rela64<Endian>>())?;
    expect_entry_size(image, elf::DT_RELRENT, size_of::<u64>())?;
    let mut relocations = Vec::new();
    read_packed(image, &mut relocations)?;
    read_table(image, elf::DT_RELA, elf::DT_RELASZ, &mut relocations)?;
    read_table(image, elf::DT_JMPREL, elf::DT_PLTRELSZ, &mut relocations)?;
    Ok(relocations)
}

fn expect_entry_size(image: &Image<'_>, tag: elf::DynamicTag, size: usize) -> Result<(), InspectError> {
    match image.dynamic.get(tag) {
        Some(found) if found != size as u64 => {
            Err(InspectError::Malformed { what: "relocations of an unknown size" })
        }
        _ => Ok(()),
    }
}

/// Where a table of `T` lies, by its two tags. Half a pair is refused.
fn table<'data, T: pod::Pod>(
    image: &Image<'data>,
    start: elf::DynamicTag,
    size: elf::DynamicTag,
) -> Result<&'data [T], InspectError> {
    let what = "a table of relocations";
    let (va, bytes) = match (image.dynamic.get(start), image.dynamic.get(size)) {
        (None, None) => return Ok(&[]),
        (Some(va), Some(bytes)) => (va, bytes),
        _ => return Err(InspectError::Malformed { what: "half a table of relocations" }),
    };
    let count = usize::try_from(bytes / size_of::<T>() as u64).unwrap_or(usize::MAX);
    check_count(count)?;
    if bytes % size_of::<T>() as u64 != 0 {
        return Err(InspectError::Malformed { what: "a table of relocations that is cut" });
    }
    let bytes = image.bytes_at(va, bytes, what)?;
    let (entries, _) =
        pod::slice_from_bytes::<T>(bytes, count).map_err(|()| InspectError::OutOfBounds { what })?;
    Ok(entries)
}

fn check_count(count: usize) -> Result<(), InspectError> {
    let max = limits::BINARY.relocations_max;
    if count > max { Err(too_large("relocations", count, max)) } else { Ok(()) }
}

fn read_table(
    image: &Image<'_>,
    start: elf::DynamicTag,
    size: elf::DynamicTag,
    into: &mut Vec<RawRelocation>,
) -> Result<(), InspectError> {
    let entries = table::<elf::Rela64<Endian>>(image, start, size)?;
    check_count(into.len() + entries.len())?;
    into.extend(entries.iter().map(|entry| RawRelocation {
        at: entry.r_offset.get(LE),
        kind: entry.r_type(LE, false).0,
        symbol: entry.r_sym(LE, false),
        addend: entry.r_addend.get(LE),
    }));
    Ok(())
}

/// RELR: an even word is an address; an odd word is a bitmap over the 63 words behind it. The
/// addend lies in the file where the relocation writes.
fn read_packed(image: &Image<'_>, into: &mut Vec<RawRelocation>) -> Result<(), InspectError> {
    const WORD_BYTES: u64 = 8;
    const BITMAP_WORDS: u64 = 63;
    let overflow = InspectError::OutOfBounds { what: "a packed relocation" };
    let mut next: Option<u64> = None;
    for entry in table::<elf::Relr64<Endian>>(image, elf::DT_RELR, elf::DT_RELRSZ)? {
        let word = entry.0.get(LE);
        if word & 1 == 0 {
            into.push(packed(image, word)?);
            next = Some(word.checked_add(WORD_BYTES).ok_or_else(|| overflow.clone())?);
        } else {
            let base = next.ok_or(InspectError::Malformed { what: "a packed relocation without a start" })?;
            for bit in (0..BITMAP_WORDS).filter(|bit| word >> (bit + 1) & 1 == 1) {
                into.push(packed(
                    image,
                    base.checked_add(bit * WORD_BYTES).ok_or_else(|| overflow.clone())?,
                )?);
            }
            let end = base.checked_add(BITMAP_WORDS * WORD_BYTES);
            next = Some(end.ok_or_else(|| overflow.clone())?);
        }
        check_count(into.len())?;
    }
    Ok(())
}

fn packed(image: &Image<'_>, at: u64) -> Result<RawRelocation, InspectError> {
    let what = "a packed relocation";
    let bytes = image.bytes_at(at, 8, what)?;
    let word: [u8; 8] = bytes.try_into().map_err(|_| InspectError::OutOfBounds { what })?;
    Ok(RawRelocation { at, kind: elf::R_X86_64_RELATIVE.0, symbol: 0, addend: i64::from_le_bytes(word) })
}
