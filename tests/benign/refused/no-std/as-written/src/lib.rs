//! Upper case, for a microcontroller as well.
#![no_std]
extern crate alloc;

use alloc::vec::Vec;

pub fn handle(request: &[u8]) -> Vec<u8> {
    request.iter().map(u8::to_ascii_uppercase).collect()
}
