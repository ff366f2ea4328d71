//! Machine code: what the verifier lets pass is read again with another disassembler, by rules that
//! were written a second time, from what an instruction may reach rather than from a list of what it
//! may be.

use std::collections::BTreeSet;
use std::ops::Range;

use mfaas_inspect::verify::{BUNDLE_BYTES, CodeSegment, verify};
use yaxpeax_arch::LengthedInstruction as _;
use yaxpeax_x86::amd64::{InstDecoder, Instruction, Opcode, Operand, RegSpec, Segment};

/// As much as is read, in bytes.
const BYTES_MAX: usize = 256 << 10;
/// Where the code lies, and what belongs to it.
const CODE: u64 = 0x1000;
const SEGMENTS: [Range<u64>; 2] = [CODE..CODE + (1 << 20), 0x4000_0000..0x4010_0000];

/// The verifier has an answer for any bytes; those that it lets pass hold in the second reading.
pub fn machine_code(input: &[u8]) {
    let whole = input.len() - input.len() % BUNDLE_BYTES as usize;
    let bytes = &input[..whole.min(BYTES_MAX)];
    if verify(CodeSegment { bytes, address: CODE, image: &SEGMENTS }).is_ok()
        && let Err((at, why)) = read_again(bytes)
    {
        let code: Vec<_> = bytes[at..].iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        panic!("the verifier passed {} at {at:#x}: {why}", code.join(" "));
    }
}

/// An instruction, where it begins and where it ends.
type Placed = (Instruction, Range<usize>);

fn read_again(code: &[u8]) -> Result<(), (usize, String)> {
    let decoder = InstDecoder::default();
    let mut placed: Vec<Placed> = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let instruction = decoder.decode_slice(&code[at..]).map_err(|error| (at, error.to_string()))?;
        let end = at + instruction.len().to_const() as usize;
        placed.push((instruction, at..end));
        at = end;
    }
    let mut starts: BTreeSet<usize> = placed.iter().map(|(_, range)| range.start).collect();
    for (index, (instruction, range)) in placed.iter().enumerate() {
        let check = check(instruction, range, &code[range.clone()]);
        check
            .and_then(|()| check_branch(&placed, index, code, &mut starts))
            .map_err(|why| (range.start, why))?;
    }
    for (instruction, range) in &placed {
        if let (true, Operand::ImmediateI32 { imm }) =
            (is_direct(instruction), widened(instruction.operand(0)))
        {
            let target = range.end as i64 + i64::from(imm);
            if !usize::try_from(target).is_ok_and(|target| starts.contains(&target)) {
                return Err((range.start, format!("a branch to {target:#x}")));
            }
        }
    }
    Ok(())
}

fn widened(operand: Operand) -> Operand {
    match operand {
        Operand::ImmediateI8 { imm } => Operand::ImmediateI32 { imm: imm.into() },
        other => other,
    }
}

fn is_direct(instruction: &Instruction) -> bool {
    let is_branch =
        matches!(instruction.opcode(), Opcode::JMP | Opcode::CALL) || instruction.opcode().is_jcc();
    is_branch && !matches!(instruction.operand(0), Operand::Register { .. })
}

/// `int3`, which this disassembler calls `int` as well.
const TRAP: u8 = 0xcc;

fn is_trap(bytes: &[u8]) -> bool {
    let [prefixes @ .., TRAP] = bytes else { return false };
    prefixes.iter().all(|byte| matches!(byte, 0x40..=0x4f | 0x66 | 0x67 | 0xf2 | 0xf3))
}

/// What no code may contain, whatever its operands.
const FORBIDDEN: &[Opcode] = &[
    Opcode::SYSCALL,
    Opcode::SYSENTER,
    Opcode::INT,
    Opcode::IRET,
    Opcode::IRETD,
    Opcode::IRETQ,
    Opcode::RETF,
    Opcode::CALLF,
    Opcode::JMPF,
    Opcode::POPF,
    Opcode::STD,
    Opcode::LEAVE,
    Opcode::ENTER,
    Opcode::WRFSBASE,
    Opcode::WRGSBASE,
    Opcode::SWAPGS,
    Opcode::WRPKRU,
    Opcode::XRSTOR,
    Opcode::XRSTORS,
    Opcode::LDMXCSR,
    Opcode::MASKMOVDQU,
    Opcode::XLAT,
];

fn check(instruction: &Instruction, range: &Range<usize>, bytes: &[u8]) -> Result<(), String> {
    let bundle = BUNDLE_BYTES as usize;
    if range.start / bundle != (range.end - 1) / bundle {
        return Err("crosses a bundle".to_owned());
    }
    if FORBIDDEN.contains(&instruction.opcode()) && !is_trap(bytes) {
        return Err(format!("{:?}", instruction.opcode()));
    }
    for number in 0..instruction.operand_count() {
        if matches!(instruction.segment_override_for_op(number), Some(Segment::FS | Segment::GS)) {
            return Err("a base that is not zero".to_owned());
        }
        let operand = instruction.operand(number);
        let touches = !matches!(instruction.opcode(), Opcode::LEA | Opcode::NOP);
        if operand.is_memory() && touches {
            let mut prefixes =
                bytes.iter().take_while(|byte| matches!(byte, 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3));
            check_memory(instruction, &operand, range, prefixes.any(|byte| *byte == 0x67))?;
        }
    }
    check_stack_pointer(instruction)
}

fn is_wide(register: RegSpec) -> bool {
    register.width() == 8
}

/// An operand reaches the window: its registers are narrow, or it lies near `rsp`, or among what is the
/// image's own.
fn check_memory(
    instruction: &Instruction,
    operand: &Operand,
    range: &Range<usize>,
    has_prefix: bool,
) -> Result<(), String> {
    let (base, index, displacement) = match *operand {
        Operand::AbsoluteU32 { addr } => (None, None, i64::from(addr as i32)),
        Operand::AbsoluteU64 { .. } => return Err("an address of 64 bits".to_owned()),
        Operand::MemDeref { base } => (Some(base), None, 0),
        Operand::Disp { base, disp } => (Some(base), None, i64::from(disp)),
        Operand::MemIndexScale { index, .. } => (None, Some(index), 0),
        Operand::MemIndexScaleDisp { index, disp, .. } => (None, Some(index), i64::from(disp)),
        Operand::MemBaseIndexScale { base, index, .. } => (Some(base), Some(index), 0),
        Operand::MemBaseIndexScaleDisp { base, index, disp, .. } => {
            (Some(base), Some(index), i64::from(disp))
        }
        _ => return Err(format!("an operand that is not known: {operand:?}")),
    };
    let bytes = instruction.mem_size().and_then(|size| size.bytes_size()).unwrap_or(64);
    match (base, index) {
        (None, None) if displacement >= 0 || has_prefix => Ok(()),
        (Some(base), None) if base == RegSpec::rip() => {
            let first = (CODE + range.end as u64).wrapping_add_signed(displacement);
            let end = first.saturating_add(bytes.into());
            let is_own = SEGMENTS.iter().any(|segment| segment.start <= first && end <= segment.end);
            if is_own { Ok(()) } else { Err(format!("{first:#x} is not the image's own")) }
        }
        (Some(base), None) if base == RegSpec::rsp() => {
            let is_near = (-4_096..=1 << 30).contains(&displacement);
            if is_near { Ok(()) } else { Err(format!("{displacement} from the stack pointer")) }
        }
        (base, index) if base.into_iter().chain(index).any(is_wide) => Err("a wide address".to_owned()),
        (None, None) => Err("an address in the upper half".to_owned()),
        _ if has_prefix => Ok(()),
        _ => Err("no prefix truncates the address".to_owned()),
    }
}

/// Nothing but `push`, `pop`, calls and returns changes `rsp` as a whole.
fn check_stack_pointer(instruction: &Instruction) -> Result<(), String> {
    let first = instruction.operand(0);
    let Operand::Register { reg } = first else { return Ok(()) };
    let is_stack_pointer = reg.num() == 4 && matches!(reg.name(), "rsp" | "esp" | "sp" | "spl");
    let only_reads = matches!(instruction.opcode(), Opcode::CMP | Opcode::TEST | Opcode::PUSH | Opcode::NOP);
    if !is_stack_pointer || only_reads {
        return Ok(());
    }
    let clears =
        matches!(instruction.opcode(), Opcode::MOV | Opcode::ADD | Opcode::SUB | Opcode::AND | Opcode::LEA);
    if clears && reg.name() == "esp" {
        Ok(())
    } else {
        Err(format!("{:?} of {}", instruction.opcode(), reg.name()))
    }
}

/// An indirect branch or a return stands right behind its mask, and nothing may jump between: what
/// stands between is taken from where branches may lead.
fn check_branch(
    placed: &[Placed],
    index: usize,
    code: &[u8],
    starts: &mut BTreeSet<usize>,
) -> Result<(), String> {
    let (instruction, range) = &placed[index];
    let bundle = range.start / BUNDLE_BYTES as usize;
    let mut before = |count: usize| {
        let (_, first) = placed.get(index.checked_sub(count)?)?;
        let is_together = first.start / BUNDLE_BYTES as usize == bundle;
        starts.retain(|start| !(is_together && first.start < *start && *start <= range.start));
        is_together.then(|| &code[first.start..range.start])
    };
    match instruction.opcode() {
        Opcode::RETURN => {
            let masked = [0x44, 0x8b, 0x1c, 0x24, 0x41, 0x83, 0xe3, 0xe0, 0x4c, 0x89, 0x1c, 0x24];
            let is_masked = before(3) == Some(&masked);
            if is_masked { Ok(()) } else { Err("a return without its mask".to_owned()) }
        }
        Opcode::JMP | Opcode::CALL if !is_direct(instruction) => {
            let Operand::Register { reg } = instruction.operand(0) else {
                return Err("a target in memory".to_owned());
            };
            before(1).ok_or("an indirect branch begins its bundle")?;
            let (mask, _) = &placed[index - 1];
            let is_mask = mask.opcode() == Opcode::AND
                && matches!(mask.operand(0), Operand::Register { reg: masked }
                    if masked.width() == 4 && masked.num() == reg.num() && reg.width() == 8)
                && matches!(
                    mask.operand(1),
                    Operand::ImmediateI8 { imm: -32 }
                        | Operand::ImmediateI32 { imm: -32 }
                        | Operand::ImmediateU32 { imm: 0xffff_ffe0 }
                );
            if is_mask { Ok(()) } else { Err("an indirect branch without its mask".to_owned()) }
        }
        _ if is_direct(instruction)
            && !matches!(widened(instruction.operand(0)), Operand::ImmediateI32 { .. }) =>
        {
            Err("a branch to what is no distance".to_owned())
        }
        _ => Ok(()),
    }
}
