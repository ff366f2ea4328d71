//! The dynamic symbol table. Its length comes from the hash tables, as for any loader.

use mfaas_rules::limits;
use object::elf;
use object::pod;
use object::read::elf::{GnuHashTable, HashTable};

use crate::InspectError;
use crate::image::{Endian, Image, LE, too_large};

/// One entry of the dynamic symbol table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawSymbol {
    pub(crate) name: String,
    pub(crate) binding: elf::SymbolBind,
    pub(crate) kind: elf::SymbolType,
    pub(crate) section: elf::SymbolSection,
    pub(crate) value: u64,
}

impl RawSymbol {
    pub(crate) fn undefined(&self) -> bool {
        self.section == elf::SHN_UNDEF
    }

    pub(crate) fn local(&self) -> bool {
        self.binding == elf::STB_LOCAL
    }
}

/// All symbols, the null symbol at index 0 included.
pub(crate) fn read_symbols(image: &Image<'_>) -> Result<Vec<RawSymbol>, InspectError> {
    let what = "the symbol table";
    let count = symbol_count(image)?;
    if count > limits::BINARY.symbols_max {
        return Err(too_large("dynamic symbols", count, limits::BINARY.symbols_max));
    }
    let entry_bytes = size_of::<elf::Sym64<Endian>>() as u64;
    if image.dynamic.get(elf::DT_SYMENT).is_some_and(|size| size != entry_bytes) {
        return Err(InspectError::Malformed { what: "symbols of an unknown size" });
    }
    let table = image.dynamic.get(elf::DT_SYMTAB).ok_or(InspectError::OutOfBounds { what })?;
    let bytes = image.bytes_at(table, count as u64 * entry_bytes, what)?;
    let (symbols, _) = pod::slice_from_bytes::<elf::Sym64<Endian>>(bytes, count)
        .map_err(|()| InspectError::OutOfBounds { what })?;
    symbols.iter().map(|symbol| read_symbol(image, symbol)).collect()
}

fn read_symbol(image: &Image<'_>, symbol: &elf::Sym64<Endian>) -> Result<RawSymbol, InspectError> {
    Ok(RawSymbol {
        name: image.string(u64::from(symbol.st_name.get(LE)))?,
        binding: symbol.st_bind(),
        kind: symbol.st_type(),
        section: symbol.st_shndx.get(LE),
        value: symbol.st_value.get(LE),
    })
}

/// Bytes of the tables that are found by the dynamic table's entries: symbols, their names and hashes,
/// relocations. Sizes that cannot be read count as nothing.
pub(crate) fn table_bytes(image: &Image<'_>) -> u64 {
    let value = |tag| image.dynamic.get(tag).unwrap_or(0);
    let symbols = symbol_count(image).unwrap_or(0) as u64;
    let listed = [elf::DT_STRSZ, elf::DT_RELASZ, elf::DT_RELRSZ, elf::DT_PLTRELSZ];
    let listed = listed.into_iter().map(value).fold(0, u64::saturating_add);
    let hash = image.dynamic.get(elf::DT_HASH).map_or(0, |va| hash_bytes(image, va));
    let gnu_hash = image.dynamic.get(elf::DT_GNU_HASH).map_or(0, |va| gnu_hash_bytes(image, va, symbols));
    let entries = symbols * size_of::<elf::Sym64<Endian>>() as u64;
    [listed, hash, gnu_hash].into_iter().fold(entries, u64::saturating_add)
}

/// Two counts, and a word for each of them.
fn hash_bytes(image: &Image<'_>, va: u64) -> u64 {
    let [buckets, chains] = words(image, va);
    4 * (2 + u64::from(buckets) + u64::from(chains))
}

/// Four counts, filter words of 8 bytes, buckets, and a word for each symbol from the first that is
/// hashed.
fn gnu_hash_bytes(image: &Image<'_>, va: u64, symbols: u64) -> u64 {
    let [buckets, first, filters, _] = words(image, va);
    4 * (4 + 2 * u64::from(filters) + u64::from(buckets) + symbols.saturating_sub(u64::from(first)))
}

/// The first words of a table, zeros where it cannot be read.
fn words<const N: usize>(image: &Image<'_>, va: u64) -> [u32; N] {
    let bytes = image.bytes_at(va, 4 * N as u64, "a hash table").unwrap_or_default();
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

/// The number of symbols, by DT_HASH, else by DT_GNU_HASH. Where both exist, the second must not
/// know symbols that the first hides.
fn symbol_count(image: &Image<'_>) -> Result<usize, InspectError> {
    let by_hash = image.dynamic.get(elf::DT_HASH).map(|va| hash_count(image, va)).transpose()?;
    let by_gnu =
        image.dynamic.get(elf::DT_GNU_HASH).map(|va| gnu_hash_count(image, va)).transpose()?.flatten();
    match (by_hash, by_gnu) {
        (Some(all), Some(hashed)) if hashed > all => {
            Err(InspectError::Malformed { what: "hash tables that contradict each other" })
        }
        (Some(all), _) => Ok(all as usize),
        (None, Some(all)) => Ok(all as usize),
        (None, None) => Err(InspectError::Malformed { what: "no hash table of symbols" }),
    }
}

fn hash_count(image: &Image<'_>, va: u64) -> Result<u32, InspectError> {
    let bytes = image.bytes_from(va, "the hash table")?;
    HashTable::<elf::FileHeader64<Endian>>::parse(LE, bytes)
        .map(|table| table.symbol_table_length())
        .map_err(|_| InspectError::OutOfBounds { what: "the hash table" })
}

/// `None`: the table names no symbol, so it says nothing about their number.
fn gnu_hash_count(image: &Image<'_>, va: u64) -> Result<Option<u32>, InspectError> {
    let bytes = image.bytes_from(va, "the GNU hash table")?;
    GnuHashTable::<elf::FileHeader64<Endian>>::parse(LE, bytes)
        .map(|table| table.symbol_table_length(LE))
        .map_err(|_| InspectError::OutOfBounds { what: "the GNU hash table" })
}
