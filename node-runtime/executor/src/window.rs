//! Where everything that a function may touch lies: one window of fixed addresses below 4 GiB, the
//! same in every worker, so that an image is linked once for all of them and the processor itself
//! cuts every address of verified code to it.
//!
//! ```text
//!  256 MiB ┬ code                          RX, shared    gates and library, then images
//!    1 GiB ┼ assets                        R, shared     what functions read and no image holds
//! 1278 MiB ┴
//! 1280 MiB ┬ data                          RW, private   as far behind the code as images want it
//!    2 GiB ┼ constants                     R, shared     and the copies from which data begins
//! 2816 MiB ┼ call memory                   RW, private   record, request, arenas, stacks; twice if there is room
//!    4 GiB ┼ guard                         no access     what `[rsp + distance]` can reach
//!    6 GiB ┴
//! ```
//! Nothing else of a worker lies below 6 GiB: what is between is taken (`memory::reserve_gaps`), and
//! before lock-down the kernel's own list is held against this page ([`confirm`]). So the handlers' stack,
//! the kernel's pages, the ring and all that is the worker's lie above, a pointer that a function hands to
//! the host is checked by two comparisons, and a service can neither be made to read the worker's memory
//! nor to write it.

use std::ops::Range;

use mfaas_rules::profiles::image_layout::{
    ASSETS_BYTES as ASSET_BANK_BYTES, ASSETS_START, BANK_BYTES, CONSTANTS_START, DATA_START,
};
use mfaas_rules::profiles::imports::ROWS;
use mfaas_rules::profiles::seccomp;

use crate::maps::Mapping;

/// Below this the kernel maps nothing for programs (`vm.mmap_min_addr`).
pub(crate) const LOWEST: usize = 64 << 10;
/// First address.
const START: usize = 256 << 20;
/// Code of all images.
pub(crate) const CODE: usize = START;
/// What functions read that is in no image.
pub(crate) const ASSETS: usize = CODE + ASSETS_START as usize;
/// Bytes of that, at most.
pub(crate) const ASSETS_BYTES: usize = ASSET_BANK_BYTES as usize;
/// Their writable data.
pub(crate) const DATA: usize = CODE + DATA_START as usize;
/// What they only read.
pub(crate) const CONSTANTS: usize = CODE + CONSTANTS_START as usize;
/// Memory that calls work in.
pub(crate) const CALL_MEMORY: usize = CONSTANTS + BANK;
/// One past the last address.
pub(crate) const END: usize = 1 << 32;
/// One past the last address that an operand relative to the stack pointer can reach.
pub(crate) const GUARD_END: usize = 6 << 30;
/// Bytes of each of code, data and constants, at most.
pub(crate) const BANK: usize = BANK_BYTES as usize;

/// Whether `bytes` bytes from `address` lie in the window.
pub(crate) fn holds(address: usize, bytes: usize) -> bool {
    address >= START && address.checked_add(bytes).is_some_and(|end| end <= END)
}

/// Whether what begins in the window can come to this address.
pub(crate) fn reaches(address: usize) -> bool {
    (START..GUARD_END).contains(&address)
}

/// Whether a mapping lies in the window.
pub(crate) fn covers(range: &Range<usize>) -> bool {
    holds(range.start, range.len())
}

/// Whether code with this stack pointer is a function's: the host's stack lies above.
pub(crate) fn is_functions_stack(stack_pointer: usize) -> bool {
    stack_pointer < GUARD_END
}

/// Demands that below [`GUARD_END`] there is what belongs there, without a hole, and nothing else:
/// `W1`, `W2` and `W4` of `mfaas_inspect::verify`. `banks` are those of the slab (code, assets, data,
/// constants).
/// An error says what is there instead.
pub(crate) fn confirm(
    mappings: &[Mapping],
    banks: &[Range<usize>; 4],
    call_memory: &Range<usize>,
) -> Result<(), String> {
    let [code, assets, data, constants] = banks;
    // A bank may have no bytes, which nothing meets.
    let meets =
        |one: &Range<usize>, other: &Range<usize>| one.start.max(other.start) < one.end.min(other.end);
    let mut end = LOWEST;
    for mapping in mappings.iter().take_while(|mapping| mapping.range.start < GUARD_END) {
        let Mapping { range, read, write, execute, private, .. } = mapping;
        let is_private_data = *private && !execute;
        // Memory without access is one mapping to the kernel, whoever it borders on.
        let has_no_access = *private && !(*read || *write || *execute);
        // What the loader has not readied yet is not open: see `slab`.
        let is_code = !write && !private && read == execute;
        let is_read_alone = !write && !execute && !private;
        let is_as_it_should_be = [
            (code, is_code),
            (assets, is_read_alone),
            (data, *read && is_private_data),
            (constants, is_read_alone),
            (call_memory, is_private_data),
        ];
        let parts: Vec<_> = is_as_it_should_be.into_iter().filter(|(part, _)| meets(part, range)).collect();
        let inside = parts.iter().any(|(part, _)| part.start <= range.start && range.end <= part.end);
        let fits = parts.iter().all(|(_, fits)| *fits) && (inside || has_no_access);
        if !fits || range.start != end {
            return Err(format!("{range:#x?} is mapped where the window is: {mapping:?}"));
        }
        end = range.end;
    }
    if end >= GUARD_END { Ok(()) } else { Err(format!("nothing keeps the addresses from {end:#x} on free")) }
}

/// Bytes of one gate: a bundle, so that it is entered at its start or not at all.
pub(crate) const GATE_BYTES: usize = mfaas_inspect::verify::BUNDLE_BYTES as usize;

/// Address of a gate.
pub(crate) const fn gate(number: usize) -> usize {
    CODE + number * GATE_BYTES
}

/// Gates: one for each import, and the one through which an entry returns.
pub(crate) const GATES: usize = ROWS.len() + 1;
/// Where an entry returns to.
pub(crate) const RETURN_GATE: usize = gate(ROWS.len());
/// Where the routines of [`crate::library`] begin, behind the gates.
pub(crate) const LIBRARY: usize = gate(GATES);
/// The word of each process through which its gates jump, on a page of its own.
pub(crate) const GATE_TARGET: usize = DATA;

const _: () = assert!(CODE as u64 == seccomp::CODE_START && CONSTANTS as u64 == seccomp::CONSTANTS_START);
const _: () = assert!(ASSETS as u64 == seccomp::ASSETS_START && BANK as u64 == seccomp::CODE_BYTES_MAX);
const _: () = assert!((ASSETS_BYTES as u64) < seccomp::ASSETS_BYTES_MAX);
const _: () = assert!(ASSETS as u64 + seccomp::ASSETS_BYTES_MAX <= DATA as u64);
const _: () = assert!(CODE + BANK <= ASSETS && ASSETS + ASSETS_BYTES <= DATA);
const _: () = assert!(DATA - CODE == 1 << 30 && BANK as u64 <= seccomp::OPENED_BYTES_MAX);
const _: () = assert!(seccomp::OPENED_BYTES_MAX <= (DATA - CODE) as u64);
const _: () = assert!(CODE + BANK <= DATA && DATA + BANK <= CONSTANTS && CALL_MEMORY < END);

#[cfg(test)]
mod tests;
