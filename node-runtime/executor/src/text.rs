//! The worker's own code, looked through for instructions that change the rights of protection keys:
//! WRPKRU (`0f 01 ef`), and XRSTOR from memory (`0f ae`, 5 in the middle of the next byte), at every
//! byte, since code can be entered anywhere. XRSTORS is the kernel's alone.
//!
//! What is allowed is in the section of [`crate::keyed`], each followed by its comparison. What is
//! known and whole is overwritten with breakpoints: glibc's `pkey_set`, and what ld.so puts registers
//! back with when it binds a symbol at its first call, which nothing does after start: the worker is
//! bound when it starts, and what libraries bind lazily lies on ways to an early end. Anything else
//! means that there are no keys.
//!
//! It must never let a page be writable and executable, and never guess whether bytes are an
//! instruction.

use std::hint::black_box;
use std::ops::Range;

use rustix::mm::MprotectFlags;

use crate::keyed;
use crate::maps::Mapping;
use crate::memory::PAGE_BYTES;
use crate::{ExecutorError, system};

/// Bytes of either instruction that tell what it is.
const TELLING_BYTES: usize = 3;
/// The bytes of WRPKRU, and the first two of XRSTOR.
const ESCAPE: u8 = 0x0f;
const SYSTEM: u8 = 0x01;
const WRPKRU_LAST: u8 = 0xef;
const STATE: u8 = 0xae;
/// What glibc has in front of XRSTOR: `mov eax, MASK` and `xor edx, edx`.
const MOV_EAX: u8 = 0xb8;
const XOR_EDX: [u8; 2] = [0x31, 0xd2];
/// Its own length at most, from the function's first byte.
const PKEY_SET_BYTES: usize = 128;
/// `cmp eax, …`.
const CMP_EAX: u8 = 0x3d;

/// What is to be overwritten: addresses of whole instructions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    breakpoints: Vec<usize>,
}

/// Looks through all executable mappings outside of the window. An error is a sentence about what
/// stands in the way.
pub(crate) fn look(mappings: &[Mapping]) -> Result<Findings, String> {
    let mut findings = Findings::default();
    let mut executable: Vec<(Range<usize>, &str)> = Vec::new();
    for mapping in mappings.iter().filter(|mapping| mapping.execute && !crate::window::covers(&mapping.range))
    {
        match executable.last_mut() {
            // The kernel's page for old programs: fixed, and no byte of it can be read.
            _ if mapping.name == "[vsyscall]" => {}
            _ if !mapping.read || mapping.write => {
                return Err(format!("the code of {} cannot be looked through", mapping.name));
            }
            Some((before, _)) if before.end == mapping.range.start => before.end = mapping.range.end,
            _ => executable.push((mapping.range.clone(), &mapping.name)),
        }
    }
    for (range, name) in executable {
        look_at(range, name, &mut findings)?;
    }
    Ok(findings)
}

fn look_at(range: Range<usize>, name: &str, findings: &mut Findings) -> Result<(), String> {
    let start = std::ptr::with_exposed_provenance::<u8>(range.start);
    // SAFETY: INV-EXECUTOR-12. Mapped and readable by the kernel's list, and nobody writes code.
    let code = unsafe { std::slice::from_raw_parts(start, range.len()) };
    for at in hits(code) {
        let address = range.start + at;
        if is_gate(code, at, address) {
            continue;
        }
        if !(is_pkey_set(code, at, address) || is_lazy_binding(code, at, name)) {
            return Err(format!("{name} changes rights at {:#x} of its code", at));
        }
        findings.breakpoints.push(address);
    }
    Ok(())
}

/// Offsets of all bytes at which such an instruction could begin. What it looks for is never whole in
/// this code: as a constant of a comparison it would be found there.
pub(crate) fn hits(code: &[u8]) -> impl Iterator<Item = usize> {
    let (escape, system, last) = (black_box(ESCAPE), black_box(SYSTEM), black_box(WRPKRU_LAST));
    let state = black_box(STATE);
    code.windows(TELLING_BYTES).enumerate().filter_map(move |(at, bytes)| {
        let &[first, second, third] = bytes else { return None };
        let wrpkru = second == system && third == last;
        let xrstor = second == state && third >> 3 & 7 == 5 && third >> 6 != 3;
        (first == escape && (wrpkru || xrstor)).then_some(at)
    })
}

/// Ours, with the comparison behind it.
fn is_gate(code: &[u8], at: usize, address: usize) -> bool {
    let wanted = [keyed::HOST, keyed::FUNCTION].map(u32::to_le_bytes);
    keyed::section().contains(&address)
        && code.get(at + 1) == Some(&SYSTEM)
        && code
            .get(at + TELLING_BYTES..at + 8)
            .is_some_and(|bytes| bytes[0] == CMP_EAX && wanted.iter().any(|value| bytes[1..] == *value))
}

/// glibc's `pkey_set`, which the worker has no use for.
fn is_pkey_set(code: &[u8], at: usize, address: usize) -> bool {
    // SAFETY: INV-EXECUTOR-7. A live string; answers an address or null.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"pkey_set".as_ptr()) }.addr();
    let wrpkru = code.get(at + 1) == Some(&SYSTEM);
    wrpkru && function != 0 && (function..function + PKEY_SET_BYTES).contains(&address)
}

/// ld.so's way back from binding a symbol: the instructions in front of it show that it is one.
fn is_lazy_binding(code: &[u8], at: usize, name: &str) -> bool {
    let xrstor = code.get(at + 1) == Some(&STATE);
    let before = at.checked_sub(7).and_then(|start| code.get(start..at));
    let shape = before.is_some_and(|bytes| bytes[0] == MOV_EAX && bytes[5..] == XOR_EDX);
    xrstor && shape && name.rsplit('/').next().is_some_and(|file| file.starts_with("ld-linux"))
}

/// Overwrites what was found.
pub(crate) fn overwrite(findings: &Findings) -> Result<(), ExecutorError> {
    findings.breakpoints.iter().try_for_each(|address| overwrite_at(*address))
}

fn overwrite_at(address: usize) -> Result<(), ExecutorError> {
    const BREAKPOINT: u8 = 0xcc;
    let first = address / PAGE_BYTES * PAGE_BYTES;
    let bytes = (address + TELLING_BYTES).next_multiple_of(PAGE_BYTES) - first;
    let pages = std::ptr::with_exposed_provenance_mut(first);
    let writable = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: INV-EXECUTOR-12. Pages of a library's code that hold no instruction which runs meanwhile.
    unsafe { rustix::mm::mprotect(pages, bytes, writable) }.map_err(system("open code for a breakpoint"))?;
    for at in address..address + TELLING_BYTES {
        // SAFETY: INV-EXECUTOR-12. On the pages just made writable.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(BREAKPOINT) };
    }
    let code = MprotectFlags::READ | MprotectFlags::EXEC;
    // SAFETY: INV-EXECUTOR-12. The same pages, as they were.
    unsafe { rustix::mm::mprotect(pages, bytes, code) }.map_err(system("close code again"))
}

#[cfg(test)]
mod tests;
