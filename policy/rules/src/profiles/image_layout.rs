//! How an image lies in memory: in banks a fixed distance apart, so that one mapping of each serves
//! every image of a worker; and a range that never gets there.
//!
//! Code, data and constants each have a bank, since each has rights of its own. Code reaches the
//! other two by distance, so wherever an image's code is put, they follow [`DATA_START`] and
//! [`CONSTANTS_START`] later. From [`TABLES_START`] on lie the tables that tell a loader how to link:
//! it reads them in the file and leaves them out.

use std::ops::Range;

/// Where the tables begin that only a loader reads. Nothing that a call runs or reads may lie between
/// here and [`DATA_START`].
pub const TABLES_START: u64 = 0x3000_0000;

/// Where the data begins that a call may write, in bytes from the image's first.
pub const DATA_START: u64 = 1 << 30;

/// Where constants begin, and what only relocation writes. An instruction reaches 2 GiB, so that this
/// leaves an image 256 MiB.
pub const CONSTANTS_START: u64 = 0x7000_0000;

/// Where all of an image ends.
pub const IMAGE_END: u64 = CONSTANTS_START + TABLES_START;

/// Bytes of each of code, data and constants in the window of a worker. One image may fill it.
pub const BANK_BYTES: u64 = TABLES_START;

/// Where the assets that functions read begin, in bytes from the window's first: no part of any image is
/// there, whose tables stay in the file.
pub const ASSETS_START: u64 = TABLES_START;

/// Bytes of all assets in a window. Two MiB short of a power of two, so that a mask bounds what of them a
/// worker opens.
pub const ASSETS_BYTES: u64 = (256 << 20) - (2 << 20);

/// Images in a window that tenants share, and in one of a tenant's own, at most.
pub const SHARED_IMAGES_MAX: usize = 1 << 17;
/// See [`SHARED_IMAGES_MAX`].
pub const TENANT_IMAGES_MAX: usize = 1 << 15;

/// Parts of an image, by what becomes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bank {
    /// It is executed. Releases up to 0.2 put constants here too.
    Code,
    /// It tells a loader how to link.
    Tables,
    /// A call may write it.
    Data,
    /// A call reads it.
    Constants,
}

impl Bank {
    /// The bank that holds all of a range of an image's addresses; `None` if none does.
    pub fn of(range: &Range<u64>) -> Option<Self> {
        let banks = [
            (Self::Code, 0..TABLES_START),
            (Self::Tables, TABLES_START..DATA_START),
            (Self::Data, DATA_START..CONSTANTS_START),
            (Self::Constants, CONSTANTS_START..IMAGE_END),
        ];
        let holds =
            |bank: &Range<u64>| bank.contains(&range.start) && (range.start..=bank.end).contains(&range.end);
        banks.into_iter().find(|(_, bank)| holds(bank)).map(|(bank, _)| bank)
    }
}

/// Images and their parts begin on multiples of this, in bytes; an image that asks for more gets it,
/// up to a page.
pub const ALIGN_BYTES: u64 = 64;

/// What the linker must be told besides the script: no part needs a page of its own. It also makes
/// the alignment of a segment the one that its contents need.
pub const ALIGN_ARGUMENT: &str = "-zmax-page-size=64";

/// Symbols of std that are the shim's in every image, and what takes their place.
///
/// What std does when a function panics or cannot allocate leads to all that it brings for backtraces:
/// readers of executables, of debug information and of compressed files, nine tenths of an image.
/// Nobody sees a backtrace of a function, so those two ways are ours, and what only they used is not
/// linked. Nothing is ever unwound, so the routine that tells an unwinder about frames becomes nothing.
/// The names are those of the pinned toolchain, with its mark in them: a test of the builder looks for
/// them there.
pub const REPLACED: [(&str, &str); 3] = [
    ("_RNvNtCsjrHSEGnQ3l9_3std9panicking12default_hook", "mfaas_panicked"),
    ("_RNvCsfLfy6EI15iL_7___rustc26___rust_alloc_error_handler", "mfaas_no_room"),
    ("rust_eh_personality", "0"),
];

/// What the compiler must tell the linker besides, for an image with our shim in it: [`REPLACED`], and to
/// keep to the image what the shim's own rlib, a file of this name, defines.
pub fn shim_flags(rlib: &str) -> Vec<String> {
    let replaced = REPLACED.iter().map(|(symbol, ours)| format!("-Clink-arg=--defsym={symbol}={ours}"));
    replaced.chain([format!("-Clink-arg=--exclude-libs={rlib}")]).collect()
}

/// The linker script that makes images of this shape. Sections that it does not name are placed by
/// the linker's own rules, and an image whose writable part then lies elsewhere is refused.
///
/// What every call runs comes first and together (the entry, the allocator, and what leads from `alloc` to it): a worker
/// fetches an image's first lines ahead of a call.
///
/// What tells an unwinder about frames is not linked.
pub const LINKER_SCRIPT: &str = "\
MEMORY {
  code (rx) : ORIGIN = 0, LENGTH = 0x30000000
  tables (r) : ORIGIN = 0x30000000, LENGTH = 0x10000000
  data (w) : ORIGIN = 0x40000000, LENGTH = 0x30000000
  constants (r) : ORIGIN = 0x70000000, LENGTH = 0x30000000
}
SECTIONS {
  .text : {
    *(.text.mfaas_entry_v1) *(.text.*5arena5Arena*) *(.text.*___rustc*) *(.text.*10mfaas_shim*)
    *(.text .text.*)
  } > code
  .plt : { *(.plt) } > code
  .dynsym : { *(.dynsym) } > tables
  .gnu.hash : { *(.gnu.hash) } > tables
  .hash : { *(.hash) } > tables
  .dynstr : { *(.dynstr) } > tables
  .rela.dyn : { *(.rela.dyn) } > tables
  .relr.dyn : { *(.relr.dyn) } > tables
  .rela.plt : { *(.rela.plt) } > tables
  .data : { *(.data .data.*) } > data
  .bss : { *(.bss .bss.*) *(COMMON) } > data
  .rodata : { *(.rodata .rodata.*) } > constants
  .tdata : { *(.tdata .tdata.*) } > constants
  .tbss : { *(.tbss .tbss.*) } > constants
  .data.rel.ro : { *(.data.rel.ro .data.rel.ro.*) *(.data.DW.ref.*) } > constants
  .init_array : { *(.init_array .init_array.*) } > constants
  .dynamic : { *(.dynamic) } > constants
  .got : { *(.got) *(.got.plt) } > constants
  /DISCARD/ : { *(.eh_frame) *(.eh_frame_hdr) *(.gcc_except_table .gcc_except_table.*) *(.note .note.*) }
}
";

const _: () = assert!(ASSETS_START + ASSETS_BYTES < DATA_START);
const _: () =
    assert!(TABLES_START == 0x3000_0000 && DATA_START == 0x4000_0000 && CONSTANTS_START == 0x7000_0000);
