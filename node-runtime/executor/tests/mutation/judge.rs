//! What the end of a run says: it stayed inside, or how it got out.
//!
//! Nothing is taken for good that is not understood. What an address says is enough for most faults; the
//! rest is decided by the instruction at which the processor stopped.

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use crate::base::bundle_of;
use crate::block::{BASES, BLOCK_BYTES, RETURNED, Report, SERVICE, SIGNAL};
use crate::window::{BANK, BUNDLE_BYTES, CODE, END, GUARD_END, LAST_PAGE};
use crate::zygote::Ended;

/// Ends of a run that stayed inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Inside {
    /// Through the gate of returns.
    Returned,
    /// Through a service that ends calls.
    Service,
    /// Its time was up.
    Timer,
    /// A fault, by its signal.
    Fault(&'static str),
}

/// Ways out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Escape {
    Read,
    Write,
    /// Instructions were executed, or looked for, where none was verified.
    Jump,
    SystemCall,
    /// A privileged instruction.
    Privileged,
    /// The stack pointer lies above the window.
    StackPointer,
    /// Flags, control registers, bases or selectors are not what they were.
    State,
    /// The process is gone without a word.
    Unrecorded,
    /// Its timer did not end it.
    Unstoppable,
    /// The processor stopped for no reason that is known here.
    Unexplained,
}

/// Flags that verified code cannot set: trap, direction, nested task, alignment check, identification.
const FLAGS: u64 = 1 << 8 | 1 << 10 | 1 << 14 | 1 << 18 | 1 << 21;
/// Rounding, masks of exceptions, flush to zero and denormals: all of MXCSR but what arithmetic leaves.
const MXCSR_CONTROL: u32 = 0xffc0;
const MXCSR: u32 = 0x1f80;
const X87_CONTROL: u32 = 0x37f;
/// Places in the kernel's frame.
const RIP: usize = 16;
const ERROR: usize = 19;
const TRAP: usize = 20;
const CR2: usize = 22;
/// Bits of a page fault's error code.
const IS_WRITE: u64 = 2;
const IS_FETCH: u64 = 16;
/// Numbers of exceptions.
const STACK_FAULT: u64 = 12;
const PROTECTION: u64 = 13;
const PAGE_FAULT: u64 = 14;
/// The longest operand that reaches over the end of the window.
const OPERAND_BYTES: u64 = 64;

/// A run, with the code that it ran.
pub(crate) struct Judge<'a> {
    report: &'a Report,
    /// All of the bank, as it was.
    code: &'a [u8],
    /// Whether the code verifies; else it may stop in the middle of what was looked at.
    verified: bool,
    block: usize,
}

/// Judges a run.
pub(crate) fn judge(ended: &Ended, code: &[u8], verified: bool, block: usize) -> Result<Inside, Escape> {
    if ended.unstoppable {
        return Err(Escape::Unstoppable);
    }
    if ended.report.status != 0 || ended.report.kind == 0 {
        return Err(Escape::Unrecorded);
    }
    Judge { report: &ended.report, code, verified, block }.end()
}

impl Judge<'_> {
    fn end(&self) -> Result<Inside, Escape> {
        let report = self.report;
        let inside = match report.kind {
            RETURNED => Inside::Returned,
            SERVICE => Inside::Service,
            SIGNAL => self.signal()?,
            // The gates' target was entered by another way than a gate.
            _ => return Err(Escape::Jump),
        };
        self.state()?;
        Ok(inside)
    }

    fn state(&self) -> Result<(), Escape> {
        let report = self.report;
        let bases =
            report.setting.has_bases == 0 || report.fs_base == BASES as u64 && report.gs_base == BASES as u64;
        let is_kept = report.flags & FLAGS == 0
            && report.mxcsr & MXCSR_CONTROL == MXCSR
            && report.x87_control == X87_CONTROL
            && report.selectors == 0
            && bases;
        if !is_kept {
            return Err(Escape::State);
        }
        // In the block it is the host's; a run that never began has none.
        if report.stack_pointer > END && !self.in_block() { Err(Escape::StackPointer) } else { Ok(()) }
    }

    fn rip(&self) -> u64 {
        self.report.registers[RIP]
    }

    fn in_block(&self) -> bool {
        let block = self.block as u64..(self.block + BLOCK_BYTES) as u64;
        self.report.kind == SIGNAL && block.contains(&self.rip())
    }

    fn signal(&self) -> Result<Inside, Escape> {
        let trap = self.report.registers[TRAP];
        match self.report.number as i32 {
            libc::SIGSYS => Err(Escape::SystemCall),
            libc::SIGALRM if self.in_block() => Ok(Inside::Timer),
            libc::SIGALRM => self.stopped(self.rip(), Inside::Timer),
            libc::SIGTRAP => self.trapped(),
            libc::SIGILL => self.stopped(self.rip(), Inside::Fault("SIGILL")),
            libc::SIGFPE => self.stopped(self.rip(), Inside::Fault("SIGFPE")),
            libc::SIGSEGV | libc::SIGBUS => match trap {
                PAGE_FAULT => self.page_fault(),
                PROTECTION => self.protection_fault(),
                // An address beyond all addresses, by the stack pointer.
                STACK_FAULT => Err(Escape::StackPointer),
                _ => Err(Escape::Unexplained),
            },
            _ => Err(Escape::Unexplained),
        }
    }

    /// The processor stood at `at`, which has to be an instruction that was looked at.
    fn stopped(&self, at: u64, inside: Inside) -> Result<Inside, Escape> {
        let is_code = self.place(at).is_some_and(|place| !self.verified || self.starts(place));
        if is_code { Ok(inside) } else { Err(Escape::Jump) }
    }

    /// The processor stands behind a trap, which may have prefixes.
    fn trapped(&self) -> Result<Inside, Escape> {
        let Some(place) = self.place(self.rip().wrapping_sub(1)) else {
            return Err(Escape::Jump);
        };
        let behind = self.rip() - CODE as u64;
        let is_trap = |one: &Instruction| one.mnemonic() == Mnemonic::Int3 && one.next_ip() == behind;
        let is_known = !self.verified || self.bundle(place).any(|one| is_trap(&one));
        if is_known { Ok(Inside::Fault("SIGTRAP")) } else { Err(Escape::Jump) }
    }

    /// Where in the bank of code an address lies.
    fn place(&self, address: u64) -> Option<usize> {
        let place = usize::try_from(address).ok()?.checked_sub(CODE)?;
        (place < BANK).then_some(place)
    }

    /// Whether an instruction begins there when its bundle is read from its start.
    fn starts(&self, place: usize) -> bool {
        self.bundle(place).any(|one| one.ip() == place as u64)
    }

    /// The instructions of the bundle that holds a place.
    fn bundle(&self, place: usize) -> impl Iterator<Item = Instruction> {
        let bundle = bundle_of(place);
        let bytes = &self.code[bundle..bundle + BUNDLE_BYTES];
        Decoder::with_ip(64, bytes, bundle as u64, DecoderOptions::NONE).into_iter()
    }

    fn instruction(&self, address: u64) -> Option<Instruction> {
        let place = self.place(address)?;
        let bytes = &self.code[place..self.code.len().min(place + 15)];
        let instruction = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    fn page_fault(&self) -> Result<Inside, Escape> {
        let (address, error) = (self.report.registers[CR2], self.report.registers[ERROR]);
        if error & IS_FETCH != 0 {
            let is_inside =
                address < END && (!self.verified || self.rip().is_multiple_of(BUNDLE_BYTES as u64));
            return if is_inside { Ok(Inside::Fault("SIGSEGV, fetch")) } else { Err(Escape::Jump) };
        }
        let inside = if error & IS_WRITE == 0 { "SIGSEGV, read" } else { "SIGSEGV, write" };
        let outside = if error & IS_WRITE == 0 { Escape::Read } else { Escape::Write };
        let is_near = address < END + OPERAND_BYTES
            || !(GUARD_END..LAST_PAGE).contains(&address) && self.is_of_the_stack();
        if !is_near {
            return Err(outside);
        }
        // A gate's way back uses the function's stack with the function's stack pointer.
        if self.in_block() {
            return Ok(Inside::Fault("in a gate"));
        }
        self.stopped(self.rip(), Inside::Fault(inside))
    }

    /// Whether the address of what faulted is that of the stack pointer, or relative to it.
    fn is_of_the_stack(&self) -> bool {
        self.in_block()
            || self.instruction(self.rip()).is_some_and(|one| {
                one.memory_base() == Register::RSP && one.memory_index() == Register::None
                    || one.is_stack_instruction()
            })
    }

    /// The processor says nothing but that something is not allowed.
    fn protection_fault(&self) -> Result<Inside, Escape> {
        let Some(instruction) = self.instruction(self.rip()) else {
            return Err(Escape::Jump);
        };
        if instruction.is_privileged() {
            return Err(Escape::Privileged);
        }
        // It was asked for a register that there is not.
        if instruction.mnemonic() == Mnemonic::Xgetbv {
            return self.stopped(self.rip(), Inside::Fault("SIGSEGV, xgetbv"));
        }
        let is_branch = matches!(instruction.mnemonic(), Mnemonic::Ret | Mnemonic::Jmp | Mnemonic::Call);
        let outside = match memory_access(&instruction) {
            None | Some(OpAccess::Read | OpAccess::CondRead) => Escape::Read,
            Some(_) => Escape::Write,
        };
        // Moves of whole vectors, and the exchange of 16 bytes, want multiples of their size.
        let bytes = instruction.memory_size().size() as u64;
        match self.operand(&instruction) {
            Some(address) if (GUARD_END..LAST_PAGE).contains(&address) => Err(outside),
            Some(address) if bytes >= 16 && !address.is_multiple_of(bytes) => {
                self.stopped(self.rip(), Inside::Fault("SIGSEGV, alignment"))
            }
            _ if is_branch => Err(Escape::Jump),
            _ => Err(Escape::Unexplained),
        }
    }

    /// Where an instruction's operand in memory lies.
    fn operand(&self, instruction: &Instruction) -> Option<u64> {
        let in_memory = |operand: &u32| {
            matches!(
                instruction.op_kind(*operand),
                OpKind::Memory | OpKind::MemorySegRSI | OpKind::MemoryESRDI
            )
        };
        let operand = (0..instruction.op_count()).find(in_memory)?;
        instruction.virtual_address(operand, 0, |register, _, _| self.value(register))
    }

    /// A register as it was; segments begin at 0 here.
    fn value(&self, register: Register) -> Option<u64> {
        const ORDER: [Register; 16] = [
            Register::R8,
            Register::R9,
            Register::R10,
            Register::R11,
            Register::R12,
            Register::R13,
            Register::R14,
            Register::R15,
            Register::RDI,
            Register::RSI,
            Register::RBP,
            Register::RBX,
            Register::RDX,
            Register::RAX,
            Register::RCX,
            Register::RSP,
        ];
        if register.is_segment_register() {
            let is_based = matches!(register, Register::FS | Register::GS);
            return Some(if is_based { BASES as u64 } else { 0 });
        }
        let place = ORDER.iter().position(|one| *one == register.full_register())?;
        let value = self.report.registers[place];
        Some(if register.is_gpr32() { value & u64::from(u32::MAX) } else { value })
    }
}

/// How an instruction uses memory; none if it does not.
fn memory_access(instruction: &Instruction) -> Option<OpAccess> {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    info.used_memory().first().map(|memory| memory.access())
}

impl std::fmt::Display for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Returned => f.write_str("returned"),
            Self::Service => f.write_str("ended by a service"),
            Self::Timer => f.write_str("stopped by the timer"),
            Self::Fault(kind) => write!(f, "fault inside ({kind})"),
        }
    }
}

impl std::fmt::Display for Escape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Jump => "jump",
            Self::SystemCall => "system call",
            Self::Privileged => "privileged instruction",
            Self::StackPointer => "stack pointer",
            Self::State => "state",
            Self::Unrecorded => "gone without a word",
            Self::Unstoppable => "cannot be stopped",
            Self::Unexplained => "unexplained",
        })
    }
}
