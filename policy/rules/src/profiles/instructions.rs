//! What an image may be made of: libraries, entry, relocation types, constructors.

/// The one library that an image may name. Whatever loads the image decides what its symbols mean.
pub const NEEDED: &str = "libmfaas-host.so.1";

/// The one symbol that an image may export.
pub const ENTRY: &str = "mfaas_entry_v1";

/// Entries of DT_INIT_ARRAY: std's capture of argc and argv, which the worker never runs.
pub const INIT_ARRAY_ENTRIES: usize = 1;

/// A relocation type of the x86-64 psABI that an image may have.
#[derive(Debug, Clone, Copy)]
pub struct RelocationRow {
    /// The number in the psABI.
    pub number: u32,
    /// Its name there, without `R_X86_64_`.
    pub name: &'static str,
    /// Why it is needed.
    pub why: &'static str,
}

/// The relocation types that the loader knows. COPY and IRELATIVE are absent on purpose: the
/// first writes to foreign memory, the second runs code while loading.
pub const RELOCATIONS: &[RelocationRow] = &[
    RelocationRow { number: 1, name: "64", why: "addresses in vtables and tables of functions" },
    RelocationRow { number: 6, name: "GLOB_DAT", why: "imports through the GOT" },
    RelocationRow { number: 7, name: "JUMP_SLOT", why: "imports called through the PLT" },
    RelocationRow { number: 8, name: "RELATIVE", why: "addresses within the image" },
    RelocationRow { number: 16, name: "DTPMOD64", why: "the module of a thread-local" },
    RelocationRow { number: 17, name: "DTPOFF64", why: "the offset of a thread-local" },
];
