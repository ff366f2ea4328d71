//! How an image lies in memory: two banks, so that one mapping of code and one of data serve every
//! image of a worker; and a third range that never gets there.
//!
//! Below [`TABLES_START`] lies what never changes once it is linked: code, constants, and what only
//! relocation writes, one part behind the other without padding. From [`TABLES_START`] on lie the
//! tables that tell a loader how to link: it reads them in the file and leaves them out. From
//! [`BANK_BYTES`] on lies what a call may write. Code reaches its data by distance, so wherever the
//! first part is put, the last follows [`BANK_BYTES`] later.

/// Distance of the writable bank from the image's first byte, in bytes. Fits twice into what an
/// instruction can reach.
pub const BANK_BYTES: u64 = 1 << 30;

/// Where the tables begin that only a loader reads. Nothing that a call runs or reads may lie between
/// here and [`BANK_BYTES`].
pub const TABLES_START: u64 = 0x3000_0000;

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
/// What every call runs comes first and together (the entry and the allocator): a worker fetches an
/// image's first lines ahead of a call.
///
/// What tells an unwinder about frames is not linked.
pub const LINKER_SCRIPT: &str = "\
SECTIONS {
  . = 0;
  .text : {
    *(.text.mfaas_entry_v1) *(.text.*10mfaas_shim*) *(.text.*___rustc*)
    *(.text .text.*)
  }
  .plt : { *(.plt) }
  .rodata : { *(.rodata .rodata.*) }
  .tdata : { *(.tdata .tdata.*) }
  .tbss : { *(.tbss .tbss.*) }
  .data.rel.ro : { *(.data.rel.ro .data.rel.ro.*) *(.data.DW.ref.*) }
  .init_array : { *(.init_array .init_array.*) }
  .dynamic : { *(.dynamic) }
  .got : { *(.got) *(.got.plt) }
  . = 0x30000000;
  .dynsym : { *(.dynsym) }
  .gnu.hash : { *(.gnu.hash) }
  .hash : { *(.hash) }
  .dynstr : { *(.dynstr) }
  .rela.dyn : { *(.rela.dyn) }
  .relr.dyn : { *(.relr.dyn) }
  .rela.plt : { *(.rela.plt) }
  . = 0x40000000;
  .data : { *(.data .data.*) }
  .bss : { *(.bss .bss.*) *(COMMON) }
  /DISCARD/ : { *(.eh_frame) *(.eh_frame_hdr) *(.gcc_except_table .gcc_except_table.*) *(.note .note.*) }
}
";

const _: () = assert!(ALIGN_BYTES == 64 && TABLES_START == 0x3000_0000 && BANK_BYTES == 0x4000_0000);
