//! Instructions that the verifier accepts: of whole images, and one by one.

use std::ops::Range;

use iced_x86::{Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use mfaas_inspect::verify::{BUNDLE_BYTES, CodeSegment, Rule, verify, verify_image};

use crate::processor::{GUARD, INSTRUCTION_BYTES_MAX};

/// Where one instruction is looked at: everything that it may name is its own.
const CODE: u64 = GUARD - BUNDLE_BYTES;
const IMAGE: Range<u64> = 0..1 << 32;
const BUNDLE: usize = BUNDLE_BYTES as usize;
const TRAP: u8 = 0xcc;
const MASKED_RETURN: [u8; 12] = [0x44, 0x8b, 0x1c, 0x24, 0x41, 0x83, 0xe3, 0xe0, 0x4c, 0x89, 0x1c, 0x24];

/// Bytes of an instruction, the rest zeros, and how many they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bytes {
    pub(crate) all: [u8; INSTRUCTION_BYTES_MAX],
    pub(crate) len: u8,
}

impl Bytes {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut all = [0; INSTRUCTION_BYTES_MAX];
        all[..bytes.len()].copy_from_slice(bytes);
        Self { all, len: bytes.len() as u8 }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.all[..usize::from(self.len)]
    }

    pub(crate) fn text(&self) -> String {
        let bytes: Vec<_> = self.as_slice().iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.join(" ")
    }

    /// Reads it where its end is the guard's beginning.
    pub(crate) fn decoded(&self) -> Option<Instruction> {
        decode(self.as_slice(), GUARD - u64::from(self.len))
    }
}

/// The first instruction of these bytes.
pub(crate) fn decode(bytes: &[u8], at: u64) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (decoder.last_error() == DecoderError::None).then_some(instruction)
}

/// All instructions of an image, in order. An error says why it does not verify.
pub(crate) fn of_image(file: &[u8]) -> Result<Vec<Bytes>, String> {
    verify_image(file).map_err(|error| error.to_string())?;
    let layout = mfaas_inspect::layout(file).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for segment in layout.segments.iter().filter(|segment| segment.access.execute) {
        let start = segment.file_offset as usize;
        let code = &file[start..start + segment.file_size as usize];
        let mut at = 0;
        while at < code.len() {
            let instruction = decode(&code[at..], segment.va + at as u64).ok_or("it has verified")?;
            found.push(Bytes::of(&code[at..at + instruction.len()]));
            at += instruction.len();
        }
    }
    Ok(found)
}

/// What the verifier says of one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opinion {
    /// It passes, alone, behind its mask, or with another distance, which is in the bytes.
    Accepted(Bytes),
    /// It is an instruction, and does not pass.
    Refused(Bytes, Rule),
    /// It is none.
    NoInstruction,
}

/// Asks the verifier for the instruction that these bytes begin with.
pub(crate) fn opinion(bytes: &[u8]) -> Opinion {
    let Some(instruction) = decode(bytes, CODE) else { return Opinion::NoInstruction };
    let mut bytes = Bytes::of(&bytes[..instruction.len()]);
    let Err(first) = verified(&[], &bytes) else { return Opinion::Accepted(bytes) };
    let again = match first {
        Rule::Branch => {
            jump_to_itself(&mut bytes, &instruction);
            verified(&[], &bytes)
        }
        Rule::Indirect => verified(&mask_of(&instruction), &bytes),
        Rule::Return => verified(&MASKED_RETURN, &bytes),
        other => Err(other),
    };
    again.map_or_else(|rule| Opinion::Refused(bytes, rule), |()| Opinion::Accepted(bytes))
}

/// The instruction in a bundle, behind these bytes and before traps.
fn verified(before: &[u8], bytes: &Bytes) -> Result<(), Rule> {
    let (start, end) = (before.len(), before.len() + usize::from(bytes.len));
    let mut bundle = [TRAP; BUNDLE];
    bundle[..start].copy_from_slice(before);
    bundle[start..end].copy_from_slice(bytes.as_slice());
    let code = CodeSegment { bytes: &bundle, address: CODE, image: std::slice::from_ref(&IMAGE) };
    verify(code).map_err(|violation| violation.rule)
}

/// In one bundle a branch has no other place to go to that is sure to be an instruction's.
fn jump_to_itself(bytes: &mut Bytes, instruction: &Instruction) {
    let len = usize::from(bytes.len);
    let distance = -i32::from(bytes.len);
    let width = match instruction.op0_kind() {
        OpKind::NearBranch64 if len - 1 <= 2 => 1,
        OpKind::NearBranch64 => 4,
        _ => return,
    };
    bytes.all[len - width..len].copy_from_slice(&distance.to_le_bytes()[..width]);
}

/// `and register, -32` for the register that an indirect branch goes by.
fn mask_of(instruction: &Instruction) -> Vec<u8> {
    let register = instruction.op0_register();
    if instruction.op0_kind() != OpKind::Register || !register.is_gpr64() {
        return Vec::new();
    }
    let number = register.number() as u8;
    let and = [0x83, 0xe0 | (number & 7), 0xe0];
    if number < 8 { and.to_vec() } else { [&[0x41], &and[..]].concat() }
}

/// Where an instruction goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    /// To the next one when it has been repeated often enough.
    Repeated,
    /// To an address that is in it, or to the next one.
    Direct {
        target: u64,
        falls: bool,
        calls: bool,
    },
    /// To where a register or the stack says.
    Elsewhere {
        calls: bool,
    },
    /// To nowhere: its purpose is to be an invalid opcode.
    Raises,
}

pub(crate) fn flow(instruction: &Instruction) -> Flow {
    let target = instruction.near_branch_target();
    let is_repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    match instruction.flow_control() {
        _ if instruction.is_string_instruction() && is_repeated => Flow::Repeated,
        FlowControl::UnconditionalBranch => Flow::Direct { target, falls: false, calls: false },
        FlowControl::ConditionalBranch => Flow::Direct { target, falls: true, calls: false },
        FlowControl::Call => Flow::Direct { target, falls: false, calls: true },
        FlowControl::IndirectBranch | FlowControl::Return => Flow::Elsewhere { calls: false },
        FlowControl::Exception => Flow::Raises,
        FlowControl::IndirectCall => Flow::Elsewhere { calls: true },
        _ => Flow::Next,
    }
}

/// The address of its operand, if that is relative to the next instruction.
pub(crate) fn relative_address(instruction: &Instruction) -> Option<u64> {
    let touches = instruction.memory_size().size() > 0;
    (instruction.memory_base() == Register::RIP && touches).then(|| instruction.memory_displacement64())
}
