//! The verifier: proves of an image's machine code that it stays inside its window, whatever
//! compiled it.
//!
//! Software fault isolation in the tradition of NaCl and LFI, with the address prefix of x86-64 as
//! the means. The *window* is the low 4 GiB of a worker. Code that passes, entered at the start of a
//! bundle with its stack in the window, reads, writes and jumps nowhere else until it leaves through
//! a gate. What the loader and the worker owe it:
//!
//! - `W1` below 6 GiB nothing is mapped but the window's banks; from 4 GiB to 6 GiB nothing at all,
//!   nor the page at 0. The last page of all addresses is nobody's on Linux.
//! - `W2` everything executable in the window is verified code or a gate of one bundle, and begins on
//!   a bundle. Code is never writable.
//! - `W3` an image keeps the distances between its segments, and each lies where the image says,
//!   moved by a multiple of a bundle.
//! - `W4` no other thread writes what may be a stack of this one.
//!
//! Then the lemmas, each a [`Rule`] and each with the tests that notice when it is not checked:
//!
//! 1. [`Rule::Decoding`]: all code is a sequence of listed instructions. Every byte belongs to one
//!    instruction, none crosses a bundle, and prefixes stand only as every maker reads them alike.
//!    So whoever enters at the start of a bundle executes what was looked at.
//! 2. [`Rule::Instruction`]: each is on the list of `codes`, so it does no more than its operands and
//!    its class say, and changes no right, base, direction flag or control register.
//! 3. [`Rule::Memory`]: every address of an operand is one of
//!    - truncated to 32 bits by the processor (prefix 67), so in the window;
//!    - constant and in the window;
//!    - relative to the next instruction, and within a segment of the image's own;
//!    - relative to `rsp` alone, from 4 KiB below to 1 GiB above: by 4 in the window, in the page
//!      above it that nothing maps, or in the last page of all addresses.
//! 4. [`Rule::StackPointer`]: `rsp` is never above 4 GiB. A 32-bit write clears the upper half; each
//!    push, pop, call and return moves it by 8 and touches what it passes, so that at the edge there
//!    is a fault before there is a second step. Nothing else writes it.
//! 5. [`Rule::Branch`]: a direct branch goes to an instruction of this code that is not behind a mask
//!    (7).
//! 6. [`Rule::Indirect`]: an indirect branch goes to the start of a bundle in the window: in the same
//!    bundle just before it, `and r32, -32` has cleared the register's lower five and upper 32 bits.
//! 7. [`Rule::Return`]: the same for a return, whose target `mov r11d, [rsp]`, `and r11d, -32` and
//!    `mov [rsp], r11` mask where it stands; nobody else writes there (W4).
//!
//! Not claimed: that code ends, that it does not read its own image, and anything about what the
//! processor does on a path that it later takes back.

mod codes;

use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderError, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use codes::{Class, class_of};
use mfaas_rules::profiles::image_layout::Bank;

use crate::InspectError;
use crate::image::Image;

/// Indirect branches go to multiples of this, in bytes, and no instruction crosses one.
pub const BUNDLE_BYTES: u64 = 32;

/// Grows when code that passed may not pass any more, or the other way round. Signed statements name it.
pub const RULES_REVISION: u32 = 1;

/// What stands before a return: `mov r11d, [rsp]`, `and r11d, -32`, `mov [rsp], r11`, of four bytes each.
const MASKED_RETURN: [u8; 12] = [0x44, 0x8b, 0x1c, 0x24, 0x41, 0x83, 0xe3, 0xe0, 0x4c, 0x89, 0x1c, 0x24];

/// One past the window.
const WINDOW_END: u64 = 1 << 32;
/// How far below `rsp` an operand may lie, in bytes.
pub const BELOW_STACK_POINTER_MAX: i64 = 4 << 10;
/// How far above `rsp` an operand may lie, in bytes.
pub const ABOVE_STACK_POINTER_MAX: i64 = 1 << 30;

/// What is said of code that does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{rule} at {at:#x}: {why}")]
pub struct Violation {
    /// The lemma that does not hold.
    pub rule: Rule,
    /// Address of the instruction in the image.
    pub at: u64,
    /// What is wrong with it.
    pub why: &'static str,
}

/// The lemmas, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Lemma 1.
    Decoding = 1,
    /// Lemma 2.
    Instruction = 2,
    /// Lemma 3.
    Memory = 3,
    /// Lemma 4.
    StackPointer = 4,
    /// Lemma 5.
    Branch = 5,
    /// Lemma 6.
    Indirect = 6,
    /// Lemma 7.
    Return = 7,
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rule {} ({self:?})", *self as u8)
    }
}

/// Code, and where it lies among what belongs to it.
#[derive(Debug, Clone, Copy)]
pub struct CodeSegment<'image> {
    /// The bytes of the segment, whole bundles.
    pub bytes: &'image [u8],
    /// Address of the first one in the image, a multiple of a bundle.
    pub address: u64,
    /// Addresses of the image's segments, this one among them.
    pub image: &'image [Range<u64>],
}

/// Proves the lemmas of `code`, or names the first instruction for which one does not hold. Takes
/// time and memory in proportion to the code.
pub fn verify(code: CodeSegment<'_>) -> Result<(), Violation> {
    Verifier::new(code)?.run()
}

/// Why an image does not verify.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] InspectError),
    /// A lemma does not hold.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// Proves the lemmas for all code of an image; answers how many bytes of code it has.
pub fn verify_image(data: &[u8]) -> Result<u64, VerifyError> {
    let image = Image::parse(data)?.ok_or(InspectError::Unloadable { what: "no x86-64 shared object" })?;
    if !image.segment_faults.is_empty() {
        return Err(
            InspectError::Malformed { what: "a segment that overlaps another or leaves the file" }.into()
        );
    }
    // The tables that tell a loader how to link stay in the file: at their addresses lies something else.
    let mut ranges = Vec::with_capacity(image.loads.len());
    for segment in &image.loads {
        let bank = Bank::of(&segment.memory());
        if bank.is_none() || segment.executable() != (bank == Some(Bank::Code)) {
            return Err(InspectError::Malformed {
                what: "code, and nothing else, lies in the bank for code",
            }
            .into());
        }
        ranges.extend((bank != Some(Bank::Tables)).then(|| segment.memory()));
    }
    let mut code_bytes = 0;
    for segment in image.loads.iter().filter(|segment| segment.executable()) {
        if segment.file_size != segment.mem_size {
            return Err(InspectError::Malformed { what: "code that is not in the file" }.into());
        }
        let bytes = image.bytes_at(segment.va, segment.file_size, "a code segment")?;
        verify(CodeSegment { bytes, address: segment.va, image: &ranges })?;
        code_bytes += segment.file_size;
    }
    Ok(code_bytes)
}

/// Where a branch may go to, for each byte of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Into an instruction.
    Inside,
    /// To the start of an instruction.
    Start,
    /// To the start of one that counts on those before it.
    Masked,
}

struct Verifier<'image> {
    code: CodeSegment<'image>,
    targets: Vec<Target>,
    /// Direct branches: from where, to where.
    branches: Vec<(u64, u64)>,
    /// The last three instructions of the bundle, the newest last; `Code::INVALID` where there are fewer.
    before: [Instruction; 3],
}

impl<'image> Verifier<'image> {
    fn new(code: CodeSegment<'image>) -> Result<Self, Violation> {
        let bytes = code.bytes.len() as u64;
        let end = code.address.checked_add(bytes);
        let is_whole = code.address.is_multiple_of(BUNDLE_BYTES) && bytes.is_multiple_of(BUNDLE_BYTES);
        if !is_whole || end.is_none_or(|end| end > WINDOW_END) {
            let why = "the code is not a number of whole bundles below 4 GiB";
            return Err(Violation { rule: Rule::Decoding, at: code.address, why });
        }
        let targets = vec![Target::Inside; code.bytes.len()];
        Ok(Self { code, targets, branches: Vec::new(), before: Default::default() })
    }

    fn run(mut self) -> Result<(), Violation> {
        let (bytes, address) = (self.code.bytes, self.code.address);
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let at = instruction.ip();
            let decoded = decoder.last_error() == DecoderError::None;
            self.instruction(&instruction, decoded).map_err(|(rule, why)| Violation { rule, at, why })?;
        }
        for (at, target) in &self.branches {
            let why = match target.checked_sub(address).and_then(|offset| self.targets.get(offset as usize)) {
                Some(Target::Start) => continue,
                Some(Target::Masked) => "it goes behind a mask",
                Some(Target::Inside) => "it goes into an instruction",
                None => "it leaves the code",
            };
            return Err(Violation { rule: Rule::Branch, at: *at, why });
        }
        Ok(())
    }

    fn instruction(&mut self, instruction: &Instruction, decoded: bool) -> Result<(), Fault> {
        let at = instruction.ip();
        if !decoded {
            return Err((Rule::Decoding, "these bytes are no instruction"));
        }
        if at / BUNDLE_BYTES != (instruction.next_ip() - 1) / BUNDLE_BYTES {
            return Err((Rule::Decoding, "it crosses a bundle"));
        }
        if at.is_multiple_of(BUNDLE_BYTES) {
            self.before = Default::default();
        }
        let Some(class) = class_of(instruction.code()) else {
            return Err((Rule::Instruction, "this instruction is not on the list"));
        };
        self.check_encoding(instruction, class)?;
        match class {
            Class::RegisterOnly if has_memory(instruction) => {
                return Err((Rule::Instruction, "this instruction is on the list for registers alone"));
            }
            Class::Plain | Class::RegisterOnly | Class::String | Class::Stack => {
                self.check_memory(instruction)?;
                check_stack_pointer(instruction, class)?;
            }
            Class::Address => check_stack_pointer(instruction, class)?,
            Class::Padding => {}
            Class::Branch => self.branches.push((at, instruction.near_branch_target())),
            Class::Indirect => check_indirect(instruction, &self.before)?,
            Class::Return => self.check_return(instruction)?,
        }
        self.mark(instruction, class);
        self.before = [self.before[1], self.before[2], *instruction];
        Ok(())
    }

    /// Records that `instruction` begins here, and for a masked branch that nobody may enter between
    /// the mask and it.
    fn mark(&mut self, instruction: &Instruction, class: Class) {
        let masks = match class {
            Class::Indirect => 1,
            Class::Return => 3,
            _ => 0,
        };
        let offset = |at: u64| (at - self.code.address) as usize;
        self.targets[offset(instruction.ip())] = Target::Start;
        for before in self.before.iter().rev().take(masks) {
            self.targets[offset(before.next_ip())] = Target::Masked;
        }
    }

    /// Lemma 1: prefixes that every maker reads alike. None twice, none that names a segment, none that repeats
    /// or cuts an address where there is nothing to repeat or to cut; a branch has none at all but the one that
    /// names a high register, and string operations no REX but the one that makes them 64 bits wide
    /// (CVE-2023-23583).
    fn check_encoding(&self, instruction: &Instruction, class: Class) -> Result<(), Fault> {
        let offset = (instruction.ip() - self.code.address) as usize;
        let bytes = self.code.bytes.get(offset..offset + instruction.len()).unwrap_or_default();
        let prefixes = bytes.iter().take_while(|byte| legacy_prefix(**byte).is_some()).count();
        let (prefixes, rest) = bytes.split_at(prefixes);
        let mut seen = [false; 5];
        for kind in prefixes.iter().filter_map(|byte| legacy_prefix(*byte)) {
            if std::mem::replace(&mut seen[kind as usize], true) {
                return Err((Rule::Decoding, "two prefixes of one kind"));
            }
        }
        let [has_rex, is_after_rex] = match rest {
            [0x40..=0x4f, next, ..] => [true, legacy_prefix(*next).is_some() || matches!(next, 0x40..=0x4f)],
            _ => [false, false],
        };
        let has_plain_rex = has_rex && rest.first() != Some(&REX_W);
        let is_repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        if seen[Prefix::Segment as usize] {
            Err((Rule::Decoding, "it names a segment"))
        } else if is_after_rex {
            Err((Rule::Decoding, "a prefix stands behind REX"))
        } else if instruction.has_repne_prefix() || is_repeated && class != Class::String {
            Err((Rule::Decoding, "a prefix to repeat what cannot be repeated"))
        } else if seen[Prefix::AddressSize as usize] && !has_memory(instruction) {
            Err((Rule::Decoding, "a prefix to cut an address that is not there"))
        } else if class == Class::String && has_plain_rex {
            Err((Rule::Decoding, "a string operation with a prefix that it has no use for"))
        } else if matches!(class, Class::Branch | Class::Return) && (has_rex || !prefixes.is_empty())
            || class == Class::Indirect && !prefixes.is_empty()
        {
            Err((Rule::Decoding, "a branch with a prefix"))
        } else {
            Ok(())
        }
    }

    /// Lemma 3.
    fn check_memory(&self, instruction: &Instruction) -> Result<(), Fault> {
        for operand in 0..instruction.op_count() {
            match instruction.op_kind(operand) {
                OpKind::Memory => self.check_operand(instruction)?,
                OpKind::MemorySegESI | OpKind::MemoryESEDI => {}
                kind if is_register_or_immediate(kind) => {}
                _ => return Err((Rule::Memory, "an operand whose address is not truncated")),
            }
        }
        Ok(())
    }

    /// Lemma 7: the three instructions before it, byte for byte.
    fn check_return(&self, instruction: &Instruction) -> Result<(), Fault> {
        let at = instruction.ip();
        let is_whole = self.before.map(|before| at.wrapping_sub(before.ip())) == [12, 8, 4];
        let end = (at - self.code.address) as usize;
        let before = end.checked_sub(MASKED_RETURN.len()).and_then(|start| self.code.bytes.get(start..end));
        if is_whole && before == Some(&MASKED_RETURN) {
            return Ok(());
        }
        Err((Rule::Return, "no mask of its target stands just before it in its bundle"))
    }

    fn check_operand(&self, instruction: &Instruction) -> Result<(), Fault> {
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let displacement = instruction.memory_displacement64();
        match (base, index) {
            (Register::RIP, Register::None) => self.check_own(displacement, instruction.memory_size().size()),
            (Register::RSP, Register::None) => {
                let near = -BELOW_STACK_POINTER_MAX..=ABOVE_STACK_POINTER_MAX;
                if near.contains(&(displacement as i64)) {
                    return Ok(());
                }
                Err((Rule::Memory, "too far from the stack pointer"))
            }
            (Register::None, Register::None) if displacement < WINDOW_END => Ok(()),
            (base, index) if is_truncated(base, index) => Ok(()),
            _ => Err((Rule::Memory, "an operand whose address is not truncated")),
        }
    }

    /// An address relative to the next instruction: within one of the image's segments.
    fn check_own(&self, address: u64, bytes: usize) -> Result<(), Fault> {
        let end = address.checked_add(bytes as u64);
        let holds = |range: &Range<u64>| range.start <= address && end.is_some_and(|end| end <= range.end);
        if bytes > 0 && self.code.image.iter().any(holds) {
            return Ok(());
        }
        Err((Rule::Memory, "it reaches out of the image"))
    }
}

/// Kinds of prefixes, of which one instruction has at most one each.
#[derive(Debug, Clone, Copy)]
enum Prefix {
    OperandSize,
    AddressSize,
    Repeat,
    Lock,
    Segment,
}

fn legacy_prefix(byte: u8) -> Option<Prefix> {
    match byte {
        0x66 => Some(Prefix::OperandSize),
        0x67 => Some(Prefix::AddressSize),
        0xf2 | 0xf3 => Some(Prefix::Repeat),
        0xf0 => Some(Prefix::Lock),
        0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 => Some(Prefix::Segment),
        _ => None,
    }
}

/// The lemma that does not hold, and why.
type Fault = (Rule, &'static str);

/// REX that says nothing but that an operand has 64 bits.
const REX_W: u8 = 0x48;

fn has_memory(instruction: &Instruction) -> bool {
    let is_memory = |kind| matches!(kind, OpKind::Memory | OpKind::MemorySegESI | OpKind::MemoryESEDI);
    (0..instruction.op_count()).any(|operand| is_memory(instruction.op_kind(operand)))
}

fn is_register_or_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Register
            | OpKind::Immediate8
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate32to64
            | OpKind::Immediate64
    )
}

/// Whether the address is of 32-bit registers, which it is under prefix 67 alone.
fn is_truncated(base: Register, index: Register) -> bool {
    let fits = |register: Register| register == Register::None || register.is_gpr32();
    fits(base) && fits(index) && (base, index) != (Register::None, Register::None)
}

fn is_stack_pointer(register: Register) -> bool {
    register.full_register() == Register::RSP
}

/// Lemma 4. An operand that is some part of `rsp` is read, or is all of `esp` and written by one of few
/// instructions that clear the upper half.
fn check_stack_pointer(instruction: &Instruction, class: Class) -> Result<(), Fault> {
    for operand in 0..instruction.op_count() {
        let register = instruction.op_register(operand);
        if instruction.op_kind(operand) != OpKind::Register || !is_stack_pointer(register) {
            continue;
        }
        let mnemonic = instruction.mnemonic();
        let is_read = match class {
            Class::Stack => mnemonic == Mnemonic::Push,
            _ if operand == 0 => matches!(mnemonic, Mnemonic::Cmp | Mnemonic::Test),
            _ => {
                operand == 1
                    && matches!(
                        mnemonic,
                        Mnemonic::Mov
                            | Mnemonic::Add
                            | Mnemonic::Sub
                            | Mnemonic::And
                            | Mnemonic::Cmp
                            | Mnemonic::Test
                    )
            }
        };
        let is_cleared = operand == 0
            && register == Register::ESP
            && matches!(
                mnemonic,
                Mnemonic::Mov | Mnemonic::Add | Mnemonic::Sub | Mnemonic::And | Mnemonic::Lea
            );
        if !is_read && !is_cleared {
            return Err((Rule::StackPointer, "it writes the stack pointer"));
        }
    }
    Ok(())
}

/// Whether this is `and register, -32` for all 32 bits of it.
fn is_mask(instruction: &Instruction, register: Register) -> bool {
    let is_and =
        matches!(instruction.code(), Code::And_rm32_imm8 | Code::And_rm32_imm32 | Code::And_EAX_imm32);
    is_and
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == register
        && instruction.immediate(1) as u32 == (BUNDLE_BYTES as u32).wrapping_neg()
}

/// Lemma 6.
fn check_indirect(instruction: &Instruction, before: &[Instruction; 3]) -> Result<(), Fault> {
    if instruction.op0_kind() != OpKind::Register {
        return Err((Rule::Indirect, "its target comes straight from memory"));
    }
    let register = instruction.op0_register();
    if register.is_gpr64() && is_mask(&before[2], register.full_register32()) && !is_stack_pointer(register) {
        return Ok(());
    }
    Err((Rule::Indirect, "no mask of its target stands just before it in its bundle"))
}

#[cfg(test)]
mod tests;
