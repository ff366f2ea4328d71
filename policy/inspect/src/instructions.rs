//! Instructions that undo protection keys, or call the kernel, in executable bytes.
//!
//! `wrpkru`, `xrstor` and `xrstors` are looked for at every offset, since a jump into the middle of
//! an instruction finds them too. `syscall` and its kin, and writes to the thread's base registers, are looked for at instruction boundaries
//! alone: their two bytes occur by chance about once a megabyte, and seccomp owns them.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

use crate::PAGE_BYTES;
use crate::image::{Image, ProgramRange};

/// Places reported for each kind; an image full of them needs no longer list.
const REPORTED_MAX: usize = 64;

/// What tells one of them from others, in bytes.
const KEY_INSTRUCTION_BYTES: usize = 3;

/// Mnemonic and virtual address.
pub(crate) type Place = (String, u64);

/// Protection-key instructions at any offset. Segments are looked at in whole pages of the file, and
/// where one could end that begins on the last: what lies beside the code is executable with it.
pub(crate) fn key_instructions(image: &Image<'_>) -> Vec<Place> {
    let mut found = Vec::new();
    for segment in image.loads.iter().filter(|segment| segment.executable()) {
        let lead = segment.file_offset % PAGE_BYTES;
        let start = segment.file_offset - lead;
        let end = (segment.file_offset + segment.file_size).next_multiple_of(PAGE_BYTES);
        let end = end + KEY_INSTRUCTION_BYTES as u64 - 1;
        let bytes = file_range(image, start, end.min(image.data.len() as u64));
        for (offset, window) in bytes.windows(KEY_INSTRUCTION_BYTES).enumerate() {
            if let Some(mnemonic) = key_instruction(window) {
                found.push((mnemonic.to_owned(), (segment.va + offset as u64).wrapping_sub(lead)));
                if found.len() == REPORTED_MAX {
                    return found;
                }
            }
        }
    }
    found
}

/// Intel SDM volume 2: WRPKRU is 0F 01 EF, XRSTOR is 0F AE /5 and XRSTORS is 0F C7 /3, both with a
/// memory operand (0F AE E8 is LFENCE). Prefixes change nothing about it.
fn key_instruction(window: &[u8]) -> Option<&'static str> {
    let &[0x0f, opcode, modrm] = window else { return None };
    let (memory, extension) = (modrm >> 6 != 0b11, modrm >> 3 & 0b111);
    match opcode {
        0x01 if modrm == 0xef => Some("wrpkru"),
        0xae if memory && extension == 5 => Some("xrstor"),
        0xc7 if memory && extension == 3 => Some("xrstors"),
        _ => None,
    }
}

/// Calls into the kernel, by a linear decode of each executable segment.
pub(crate) fn system_instructions(image: &Image<'_>) -> Vec<Place> {
    let mut found = Vec::new();
    for segment in image.loads.iter().filter(|segment| segment.executable()) {
        decode_segment(image, segment, &mut found);
    }
    found
}

fn decode_segment(image: &Image<'_>, segment: &ProgramRange, found: &mut Vec<Place>) {
    let bytes = file_range(image, segment.file_offset, segment.file_offset + segment.file_size);
    let mut decoder = Decoder::with_ip(64, bytes, segment.va, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() && found.len() < REPORTED_MAX {
        decoder.decode_out(&mut instruction);
        if let Some(mnemonic) = system_instruction(instruction.mnemonic()) {
            found.push((mnemonic.to_owned(), instruction.ip()));
        }
    }
}

/// `int3` is padding between functions and no way into the kernel's system calls.
fn system_instruction(mnemonic: Mnemonic) -> Option<&'static str> {
    match mnemonic {
        Mnemonic::Syscall => Some("syscall"),
        Mnemonic::Sysenter => Some("sysenter"),
        Mnemonic::Int => Some("int"),
        // Not into the kernel, but over the registers that say where the thread's own data is.
        Mnemonic::Wrfsbase => Some("wrfsbase"),
        Mnemonic::Wrgsbase => Some("wrgsbase"),
        _ => None,
    }
}

/// Bytes of the file; the segments' ranges have been checked, so this is empty only for an empty range.
fn file_range<'data>(image: &Image<'data>, start: u64, end: u64) -> &'data [u8] {
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    range.and_then(|(start, end)| image.data.get(start..end)).unwrap_or_default()
}
