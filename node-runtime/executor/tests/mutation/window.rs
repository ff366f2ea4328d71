//! Where everything lies: the addresses of `src/window.rs`, `src/directory.rs` and `src/memory.rs`, which
//! are the executor's own, with banks of two MiB and one arena and one stack of the sizes there are.

use mfaas_rules::profiles::image_layout::{CONSTANTS_START, DATA_START};
use mfaas_rules::profiles::imports::ROWS;

pub(crate) const BUNDLE_BYTES: usize = mfaas_inspect::verify::BUNDLE_BYTES as usize;

pub(crate) const CODE: usize = 256 << 20;
pub(crate) const DATA: usize = CODE + DATA_START as usize;
pub(crate) const CONSTANTS: usize = CODE + CONSTANTS_START as usize;
pub(crate) const CALL_MEMORY: usize = CONSTANTS + (768 << 20);
/// One past what addresses of 32 bits reach.
pub(crate) const END: u64 = 1 << 32;
/// One past what operands relative to the stack pointer reach.
pub(crate) const GUARD_END: u64 = 6 << 30;
/// The page in which the last such operands below the first address end.
pub(crate) const LAST_PAGE: u64 = (4096_u64).wrapping_neg();

pub(crate) const GATES: usize = ROWS.len() + 1;
pub(crate) const RETURN_NUMBER: usize = ROWS.len();
pub(crate) const RETURN_GATE: usize = CODE + RETURN_NUMBER * BUNDLE_BYTES;

/// Bytes of each bank. A slab of this size has readied all of its code when it is made.
pub(crate) const BANK: usize = 2 << 20;
pub(crate) const SLOTS: usize = 64;
/// Where the records of the directory begin in a slab, its code and its constants.
pub(crate) const RECORDS: u64 = 4096;
pub(crate) const CODE_OFFSET: u64 = BANK as u64;
pub(crate) const CONSTANTS_OFFSET: u64 = 2 * BANK as u64;

const GUARD_BYTES: usize = 64 << 10;
/// The page of the call's record, which holds the request here too.
pub(crate) const RECORD_PAGE: usize = CALL_MEMORY + GUARD_BYTES;
pub(crate) const CALL_AT: usize = 64;
pub(crate) const REQUEST_AT: usize = 1024;
pub(crate) const ARENA: usize = RECORD_PAGE + 4096 + GUARD_BYTES;
pub(crate) const ARENA_BYTES: usize = 64 << 10;
pub(crate) const STACK: usize = ARENA + ARENA_BYTES + GUARD_BYTES;
pub(crate) const STACK_END: usize = STACK + (64 << 10);
