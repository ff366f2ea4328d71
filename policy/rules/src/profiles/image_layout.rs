//! How an image lies in memory: two banks, so that one mapping of code and one of data serve every
//! image of a worker.
//!
//! Below [`BANK_BYTES`] lies what never changes once it is linked: headers, constants, code, and
//! what only relocation writes. From [`BANK_BYTES`] on lies what a call may write. Code reaches its
//! data by distance, so wherever the first half is put, the second follows [`BANK_BYTES`] later.

/// Distance of the writable bank from the image's first byte, in bytes. Fits twice into what an
/// instruction can reach.
pub const BANK_BYTES: u64 = 1 << 30;

/// The linker script that makes images of this shape. Sections that it does not name are placed by
/// the linker's own rules, and an image whose writable part then lies elsewhere is refused.
///
/// `MAPPINGS_CACHE` is where std remembers the files that a backtrace's symbols came from: 2.3 KiB of
/// 2.8 that every image would have to restore in every call. A function has no backtrace (its
/// unwinder is inert) and so never writes there; it lies with the constants. So do the addresses of
/// unwinding (`DW.ref.*`), for which alone a small image would need a page to write in.
pub const LINKER_SCRIPT: &str = "\
SECTIONS {
  . = SIZEOF_HEADERS;
  .dynsym : { *(.dynsym) }
  .gnu.hash : { *(.gnu.hash) }
  .hash : { *(.hash) }
  .dynstr : { *(.dynstr) }
  .rela.dyn : { *(.rela.dyn) }
  .relr.dyn : { *(.relr.dyn) }
  .rela.plt : { *(.rela.plt) }
  .rodata : { *(.rodata .rodata.*) }
  .eh_frame_hdr : { *(.eh_frame_hdr) }
  .eh_frame : { *(.eh_frame) }
  .gcc_except_table : { *(.gcc_except_table .gcc_except_table.*) }
  . = ALIGN(4096);
  .text : { *(.text .text.*) }
  .plt : { *(.plt) }
  . = ALIGN(4096);
  .tdata : { *(.tdata .tdata.*) }
  .tbss : { *(.tbss .tbss.*) }
  .data.rel.ro : { *(.data.rel.ro .data.rel.ro.*) *(.data.*MAPPINGS_CACHE*) *(.data.DW.ref.*) }
  .init_array : { *(.init_array .init_array.*) }
  .dynamic : { *(.dynamic) }
  .got : { *(.got) *(.got.plt) }
  . = 0x40000000;
  .data : { *(.data .data.*) }
  .bss : { *(.bss .bss.*) *(COMMON) }
}
";
