//! Where everything that a function may touch lies: one window of fixed addresses, the same in
//! every worker, so that an image is linked once for all of them.
//!
//! ```text
//! START ┬ header and directory of the slab          read-only, shared
//!       ├ bank 0: code   RX, shared ─┐ 1 GiB apart, so that code finds its data
//!       ├ bank 0: data   RW, private ┘ wherever both are put
//!       ├ bank 1: code, data …
//!       ├ call memory: request, arenas, stacks          RW, private
//! END   ┴
//! ```
//! Nothing else of a worker lies in the window. So a pointer that a function hands to the host is
//! checked by two comparisons, and a service can neither be made to read the worker's memory nor
//! to write it.

use std::ops::Range;

use mfaas_rules::profiles::image_layout::BANK_BYTES;

use crate::pages::PAGE_BYTES;

/// First address. Far from where Linux puts programs, libraries, heaps and stacks.
pub(crate) const START: usize = 0x2000_0000_0000;
/// Header and directory of the slab.
pub(crate) const DIRECTORY: usize = START;
/// First bank.
const BANKS: usize = START + (4 << 30);
/// Memory that calls work in.
pub(crate) const CALL_MEMORY: usize = START + (512 << 30);
/// One past the last address.
pub(crate) const END: usize = START + (768 << 30);
/// Banks in one slab, at most.
pub(crate) const BANKS_MAX: usize = 64;
/// A bank's size in this process, in bytes.
pub(crate) const BANK: usize = BANK_BYTES as usize;

/// Address of a bank's code; its data begins [`BANK`] bytes later.
pub(crate) const fn code_of(bank: usize) -> usize {
    BANKS + bank * 2 * BANK
}

/// Address of a bank's data.
pub(crate) const fn data_of(bank: usize) -> usize {
    code_of(bank) + BANK
}

/// Whether `bytes` bytes from `address` lie in the window.
pub(crate) fn holds(address: usize, bytes: usize) -> bool {
    address >= START && address.checked_add(bytes).is_some_and(|end| end <= END)
}

/// Whether a mapping lies in the window.
pub(crate) fn covers(range: &Range<usize>) -> bool {
    holds(range.start, range.len())
}

/// Bytes of one entry of the table of imports: a jump through the worker's own table.
pub(crate) const IMPORT_BYTES: usize = 16;

/// Address that an image calls for the import in row `row` of the profile.
pub(crate) const fn import(row: usize) -> usize {
    code_of(0) + row * IMPORT_BYTES
}

/// Address of the word through which that import jumps.
pub(crate) const fn import_target(row: usize) -> usize {
    data_of(0) + row * size_of::<usize>()
}

/// Whole pages at the beginning of bank 0 that the imports take, in its code and in its data.
pub(crate) const fn import_pages(rows: usize) -> usize {
    (rows * IMPORT_BYTES).next_multiple_of(PAGE_BYTES)
}

const _: () = assert!(code_of(BANKS_MAX) <= CALL_MEMORY);
