//! One instruction becomes one or several that do the same, if all its addresses lie in the window.
//!
//! `r11` is free wherever a call, a return or a jump to another function stands: the calling
//! convention leaves it to whoever is called.

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};

use mfaas_inspect::verify::{ABOVE_STACK_POINTER_MAX, BELOW_STACK_POINTER_MAX};

use crate::BUNDLE_BYTES;

/// A relocation of a piece: where in the piece, and which one of the instruction's it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fixup {
    pub(crate) at: usize,
    /// Index among the relocations of the section.
    pub(crate) relocation: usize,
    pub(crate) kind: FixupKind,
}

/// What becomes of a relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FixupKind {
    /// What it was.
    Same,
    /// The symbol itself, called or jumped to.
    Branch,
    /// The entry of the table of addresses for the symbol.
    TableEntry,
}

/// A branch whose length is still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BranchKind {
    Jump,
    Call,
    /// With the condition's four bits.
    Conditional(u8),
}

/// Bytes that stay together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    pub(crate) fixups: Vec<Fixup>,
    /// Instead of bytes: a branch to the instruction that stood at this offset of the section.
    pub(crate) branch: Option<(BranchKind, u64)>,
    /// Stands in one bundle with the next piece.
    pub(crate) is_glued: bool,
    /// Ends with its bundle, since the next instruction is returned to.
    pub(crate) ends_bundle: bool,
    /// Nothing runs from here into the next piece.
    pub(crate) is_last: bool,
}

impl Piece {
    fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), ..Self::default() }
    }

    fn glued(bytes: &[u8]) -> Self {
        Self { is_glued: true, ..Self::of(bytes) }
    }

    fn branch(kind: BranchKind, target: u64) -> Self {
        let (ends_bundle, is_last) = (kind == BranchKind::Call, kind == BranchKind::Jump);
        Self { branch: Some((kind, target)), ends_bundle, is_last, ..Self::default() }
    }

    fn with(mut self, fixup: Fixup) -> Self {
        self.fixups.push(fixup);
        self
    }
}

/// An instruction with what is known of it.
pub(crate) struct Source<'a> {
    pub(crate) instruction: &'a Instruction,
    pub(crate) bytes: &'a [u8],
    /// Relocations within it: their offsets in the instruction, and their indexes in the section.
    pub(crate) relocations: &'a [(usize, usize)],
    /// The first relocation names a symbol that this object does not define.
    pub(crate) is_import: bool,
    /// It is of an entry of the table of addresses, and not of the symbol itself.
    pub(crate) is_table_entry: bool,
}

/// Says why there is no counterpart.
pub(crate) type Refusal = &'static str;

/// What stands for an instruction. Nothing for padding.
pub(crate) fn translate(source: &Source<'_>) -> Result<Vec<Piece>, Refusal> {
    let instruction = source.instruction;
    if matches!(instruction.segment_prefix(), Register::FS | Register::GS) {
        return Err("it uses a segment of the thread's own");
    }
    match instruction.flow_control() {
        FlowControl::Next if instruction.mnemonic() == Mnemonic::Nop => Ok(Vec::new()),
        FlowControl::Next => plain(source),
        FlowControl::Return if instruction.code() == Code::Retnq => Ok(masked_return()),
        FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
            direct(source)
        }
        FlowControl::IndirectCall | FlowControl::IndirectBranch => indirect(source),
        FlowControl::Exception if instruction.mnemonic() == Mnemonic::Ud2 => {
            Ok(vec![Piece { is_last: true, ..Piece::of(source.bytes) }])
        }
        FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int3 => {
            Ok(vec![Piece::of(source.bytes)])
        }
        _ => Err("no such branch can be masked"),
    }
}

const MASK: u8 = (BUNDLE_BYTES as u8).wrapping_neg();

/// `mov r11d, [rsp]`, `and r11d, -32`, `mov [rsp], r11`, `ret`.
fn masked_return() -> Vec<Piece> {
    vec![
        Piece::glued(&[0x44, 0x8b, 0x1c, 0x24]),
        Piece::glued(&[0x41, 0x83, 0xe3, MASK]),
        Piece::glued(&[0x4c, 0x89, 0x1c, 0x24]),
        Piece { is_last: true, ..Piece::of(&[0xc3]) },
    ]
}

/// Number of `r11`.
const R11: u8 = 11;

/// `and r32, -32` and a branch to the register.
fn masked_branch(register: u8, is_call: bool) -> [Piece; 2] {
    let (high, low) = (register >= 8, register & 7);
    let with_rex = |bytes: &[u8]| if high { [&[0x41], bytes].concat() } else { bytes.to_vec() };
    let mask = Piece::glued(&with_rex(&[0x83, 0xe0 | low, MASK]));
    let branch = Piece::of(&with_rex(&[0xff, if is_call { 0xd0 } else { 0xe0 } | low]));
    [mask, Piece { ends_bundle: is_call, is_last: !is_call, ..branch }]
}

/// A branch to a symbol that the worker binds: through the table of addresses, into `r11`.
fn import_branch(relocation: usize, is_call: bool) -> Vec<Piece> {
    let load = Piece::of(&[0x44, 0x8b, 0x1d, 0, 0, 0, 0]);
    let load = load.with(Fixup { at: 3, relocation, kind: FixupKind::TableEntry });
    let [mask, branch] = masked_branch(R11, is_call);
    vec![load, mask, branch]
}

fn direct(source: &Source<'_>) -> Result<Vec<Piece>, Refusal> {
    let instruction = source.instruction;
    if instruction.op0_kind() != OpKind::NearBranch64 {
        return Err("a call that is none of a function");
    }
    let kind = match instruction.flow_control() {
        FlowControl::Call => BranchKind::Call,
        FlowControl::UnconditionalBranch => BranchKind::Jump,
        _ => BranchKind::Conditional(condition_of(source.bytes).ok_or("a branch on a register")?),
    };
    let &[(_, relocation)] = source.relocations else {
        return Ok(vec![Piece::branch(kind, instruction.near_branch_target())]);
    };
    let is_call = kind == BranchKind::Call;
    if !source.is_import {
        let opcode: &[u8] = match kind {
            BranchKind::Call => &[0xe8],
            BranchKind::Jump => &[0xe9],
            BranchKind::Conditional(condition) => &[0x0f, 0x80 | condition],
        };
        let piece = Piece::of(&[opcode, &[0; 4]].concat());
        let fixup = Fixup { at: opcode.len(), relocation, kind: FixupKind::Branch };
        return Ok(vec![Piece {
            ends_bundle: is_call,
            is_last: kind == BranchKind::Jump,
            ..piece.with(fixup)
        }]);
    }
    match kind {
        // No compiler of ours makes one: the other way would have to lead around it.
        BranchKind::Conditional(_) => Err("a conditional branch to a symbol of the host"),
        _ => Ok(import_branch(relocation, is_call)),
    }
}

/// The condition of a conditional branch; none for those that look at `rcx`.
fn condition_of(bytes: &[u8]) -> Option<u8> {
    let opcode = bytes.iter().position(|byte| !matches!(byte, 0x2e | 0x3e | 0x66 | 0xf2))?;
    match bytes[opcode..] {
        [short @ 0x70..=0x7f, ..] => Some(short & 0xf),
        [0x0f, long @ 0x80..=0x8f, ..] => Some(long & 0xf),
        _ => None,
    }
}

fn indirect(source: &Source<'_>) -> Result<Vec<Piece>, Refusal> {
    let instruction = source.instruction;
    let is_call = instruction.flow_control() == FlowControl::IndirectCall;
    if instruction.op0_kind() == OpKind::Register {
        let register = instruction.op0_register();
        if !register.is_gpr64() {
            return Err("a branch to a part of a register");
        }
        return Ok(masked_branch(register.number() as u8, is_call).to_vec());
    }
    if let (true, &[(_, relocation)]) = (source.is_table_entry, source.relocations) {
        if source.is_import {
            return Ok(import_branch(relocation, is_call));
        }
        let opcode = if is_call { 0xe8 } else { 0xe9 };
        let piece = Piece::of(&[opcode, 0, 0, 0, 0]);
        let piece = piece.with(Fixup { at: 1, relocation, kind: FixupKind::Branch });
        return Ok(vec![Piece { ends_bundle: is_call, is_last: !is_call, ..piece }]);
    }
    let mut load = load_of_target(source.bytes)?;
    if let &[(at, relocation)] = source.relocations {
        // The displacement still ends the instruction.
        let at = load.bytes.len() - (source.bytes.len() - at);
        load = load.with(Fixup { at, relocation, kind: FixupKind::Same });
    }
    let load = confined(load, instruction);
    let [mask, branch] = masked_branch(R11, is_call);
    Ok(vec![load, mask, branch])
}

/// `call [m]` or `jmp [m]` as `mov r11d, [m]`.
fn load_of_target(bytes: &[u8]) -> Result<Piece, Refusal> {
    let bytes = without_prefixes(bytes);
    let (rex, rest) = match bytes {
        [rex @ 0x40..=0x4f, rest @ ..] => (*rex, rest),
        _ => (0x40, bytes),
    };
    let [0xff, modrm, tail @ ..] = rest else { return Err("no branch through memory that is known") };
    // REX.R and the field make r11; REX.W is left out, since the mask clears the upper half anyway.
    let mut made = vec![rex & 0x43 | 0x04, 0x8b, modrm & 0xc7 | 0x18];
    made.extend_from_slice(tail);
    Ok(Piece::of(&made))
}

fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65)
}

fn without_prefixes(bytes: &[u8]) -> &[u8] {
    let prefixes = bytes.iter().take_while(|byte| is_prefix(**byte)).count();
    &bytes[prefixes..]
}

/// Everything that goes on to the next instruction.
fn plain(source: &Source<'_>) -> Result<Vec<Piece>, Refusal> {
    let instruction = source.instruction;
    if is_fused_with_four_operands(instruction.mnemonic()) {
        return Ok(vec![Piece { is_last: true, ..Piece::of(&UNDEFINED) }]);
    }
    if instruction.code() == Code::Leaveq {
        // mov esp, ebp; pop rbp
        return Ok(vec![Piece::of(&[0x89, 0xec]), Piece::of(&[0x5d])]);
    }
    let mut piece = Piece::of(source.bytes);
    for (at, relocation) in source.relocations {
        piece.fixups.push(Fixup { at: *at, relocation: *relocation, kind: FixupKind::Same });
    }
    // 66 before the address of a thread-local is padding for a linker that makes something else of it.
    let is_padded = instruction.code() == Code::Lea_r64_m && piece.bytes.first() == Some(&0x66);
    if is_padded {
        remove(&mut piece, 0);
    }
    if writes_stack_pointer(instruction) {
        narrow(&mut piece)?;
    }
    Ok(vec![confined(piece, instruction)])
}

/// `ud2`.
const UNDEFINED: [u8; 2] = [0x0f, 0x0b];

/// Instructions of one maker's processors of 2011 to 2017, which the verifier does not know. std asks before it uses them, and
/// prefers those with three operands, so the function that holds them can stay: only a processor without the latter gets there.
fn is_fused_with_four_operands(mnemonic: Mnemonic) -> bool {
    matches!(mnemonic, Mnemonic::Vfmaddsd | Mnemonic::Vfmaddss)
}

fn remove(piece: &mut Piece, at: usize) {
    piece.bytes.remove(at);
    for fixup in &mut piece.fixups {
        fixup.at -= usize::from(fixup.at > at);
    }
}

/// Whether an instruction computes `rsp`. What the list leaves out is found by the verifier.
fn writes_stack_pointer(instruction: &Instruction) -> bool {
    let is_computed = matches!(
        instruction.mnemonic(),
        Mnemonic::Mov | Mnemonic::Add | Mnemonic::Sub | Mnemonic::And | Mnemonic::Lea
    );
    is_computed && instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RSP
}

/// Makes an operation of 64 bits one of 32, which clears the upper half.
fn narrow(piece: &mut Piece) -> Result<(), Refusal> {
    let at = piece.bytes.iter().take_while(|byte| is_prefix(**byte)).count();
    match piece.bytes.get_mut(at) {
        Some(rex @ 0x48..=0x4f) => {
            *rex &= !0x08;
            if *rex == 0x40 {
                remove(piece, at);
            }
            Ok(())
        }
        _ => Err("it writes the stack pointer in a way that is not known"),
    }
}

/// With prefix 67 if the address has to be truncated.
fn confined(mut piece: Piece, instruction: &Instruction) -> Piece {
    if needs_truncation(instruction) {
        piece.bytes.insert(0, 0x67);
        for fixup in &mut piece.fixups {
            fixup.at += 1;
        }
    }
    piece
}

fn needs_truncation(instruction: &Instruction) -> bool {
    if matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
        return false;
    }
    (0..instruction.op_count()).any(|operand| match instruction.op_kind(operand) {
        OpKind::MemorySegRSI | OpKind::MemoryESRDI | OpKind::MemorySegRDI => true,
        OpKind::Memory => {
            let (base, index) = (instruction.memory_base(), instruction.memory_index());
            let near = -BELOW_STACK_POINTER_MAX..=ABOVE_STACK_POINTER_MAX;
            let is_near = || near.contains(&(instruction.memory_displacement64() as i64));
            let is_stack = base == Register::RSP && index == Register::None && is_near();
            let is_narrow = base.is_gpr32() || index.is_gpr32();
            !(is_stack || is_narrow || instruction.is_ip_rel_memory_operand())
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests;
