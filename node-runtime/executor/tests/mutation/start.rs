//! What a run begins with: the call's record, and registers that no function has in a worker.
//!
//! A worker leaves zeros in all registers but one. Then an address whose upper half nobody cut would lie in
//! the window as well, and nothing would be seen of it. So nearly every run begins with upper halves that
//! are not zero, in registers and in the pointers of the record: what code does not cut leads outside.

use std::mem::offset_of;

use mfaas_abi::{ABI_VERSION, Call};

use crate::block::{PAGE_BYTES, Start};
use crate::random::Random;
use crate::window::{ARENA, ARENA_BYTES, CALL_AT, CODE, CONSTANTS, DATA, RECORD_PAGE, REQUEST_AT, STACK_END};

/// RDI and RSP among [`Start::registers`].
const RDI: usize = 5;
const RSP: usize = 7;

/// Upper halves of addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Halves {
    /// Zeros, as in a worker.
    Zero,
    /// One that leads to addresses at which nothing is.
    Outside(u32),
}

impl Halves {
    pub(crate) fn any(random: &mut Random) -> Self {
        match random.below(8) {
            0 => Self::Zero,
            // Addresses that are none.
            1 => Self::Outside(0x8000_0000 | random.next() as u32 & 0x3fff_ffff),
            _ => Self::Outside(0x1000 + random.below(0x1000) as u32),
        }
    }

    fn over(self, address: usize) -> u64 {
        match self {
            Self::Zero => address as u64,
            Self::Outside(half) => address as u64 | u64::from(half) << 32,
        }
    }
}

/// The registers, stack, entry and timer of a run, which may take so many microseconds.
pub(crate) fn start(entry: u64, halves: Halves, time_us: u64, random: &mut Random) -> Start {
    let mut registers = [0; 16];
    if let Halves::Outside(_) = halves {
        for register in &mut registers {
            let places = [ARENA, CODE, DATA, CONSTANTS, RECORD_PAGE];
            let low = match random.below(8) {
                place @ 0..=4 => places[place] + random.below(PAGE_BYTES) / 32 * 32,
                5 => random.below(64),
                _ => random.next() as u32 as usize,
            };
            *register = halves.over(low);
        }
    }
    registers[RDI] = halves.over(RECORD_PAGE + CALL_AT);
    registers[RSP] = STACK_END as u64;
    Start { registers, entry, timer: [0, 0, 0, time_us] }
}

/// The page of the call's record, with a request.
pub(crate) fn record(request: &[u8], halves: Halves) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    let address = |place: usize| halves.over(place).to_le_bytes();
    let body = RECORD_PAGE + REQUEST_AT;
    put(REQUEST_AT, request);
    put(CALL_AT + offset_of!(Call, abi_version), &ABI_VERSION.to_le_bytes());
    put(CALL_AT + offset_of!(Call, arena), &address(ARENA));
    put(CALL_AT + offset_of!(Call, arena_bytes), &ARENA_BYTES.to_le_bytes());
    for at in [
        offset_of!(Call, request.method.start),
        offset_of!(Call, request.path.start),
        offset_of!(Call, request.headers.start),
        offset_of!(Call, request.body.start),
    ] {
        put(CALL_AT + at, &address(body));
    }
    put(CALL_AT + offset_of!(Call, request.body.bytes), &request.len().to_le_bytes());
    page
}
