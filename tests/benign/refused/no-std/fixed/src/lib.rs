//! Upper case, with nothing but core and alloc.
extern crate alloc;

use alloc::vec::Vec;

pub fn handle(request: &[u8]) -> Vec<u8> {
    request.iter().map(u8::to_ascii_uppercase).collect()
}
