//! All that is mapped above 6 GiB in a process that runs mutants: a page of instructions, a page that is
//! shared with the program, and the stack of the handlers. It lies where nobody can guess it.
//!
//! The instructions use nothing but themselves: no library, no thread, no stack of the program is there
//! any more when they run. They must never return to what a mutant wrote without the mask of a gate.

use std::arch::global_asm;
use std::mem::offset_of;

use crate::window::{BUNDLE_BYTES, GATES, RETURN_GATE, RETURN_NUMBER};

pub(crate) const PAGE_BYTES: usize = 4096;
/// Of the stack for handlers: room for a signal frame with every vector register.
pub(crate) const STACK_BYTES: usize = 64 << 10;
/// All of the block.
pub(crate) const BLOCK_BYTES: usize = 2 * PAGE_BYTES + STACK_BYTES;

/// How a run ended, as the block's instructions note it.
pub(crate) const RETURNED: u32 = 1;
pub(crate) const SERVICE: u32 = 2;
pub(crate) const SIGNAL: u32 = 3;
pub(crate) const STRAY: u32 = 4;

/// `FS` and `GS` of a run begin here, where nothing is.
pub(crate) const BASES: usize = 0x2222_0000_0000;

/// The shared page: what a run begins with, and what is noted of its end.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    /// Zero until the run has ended.
    pub(crate) kind: u32,
    /// What was returned, the service's number or the signal.
    pub(crate) number: u32,
    /// The signal's code and address.
    pub(crate) code: u64,
    pub(crate) address: u64,
    /// Services that ran and returned.
    pub(crate) services: u64,
    pub(crate) flags: u64,
    pub(crate) mxcsr: u32,
    pub(crate) x87_control: u32,
    pub(crate) fs_base: u64,
    pub(crate) gs_base: u64,
    /// DS, ES, FS and GS, all of them zero on x86-64 Linux.
    pub(crate) selectors: u64,
    pub(crate) stack_pointer: u64,
    /// As in the kernel's signal frame.
    pub(crate) registers: [u64; 23],
    pub(crate) start: Start,
    pub(crate) process: u32,
    /// As `wait4` gives it.
    pub(crate) status: u32,
    pub(crate) setting: Setting,
}

/// What a run begins with.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP, R8 to R15.
    pub(crate) registers: [u64; 16],
    pub(crate) entry: u64,
    /// An `itimerval`.
    pub(crate) timer: [u64; 4],
}

/// What does not change from run to run.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Whether code can read the bases of FS and GS.
    pub(crate) has_bases: u32,
    pub(crate) commands: u32,
    pub(crate) answers: u32,
    pub(crate) bases: u64,
    /// Address and length of what is unmapped, below and above the block.
    pub(crate) below: [u64; 2],
    pub(crate) above: [u64; 2],
    /// One for each service that ends the call.
    pub(crate) ends: [u8; 256],
}

const _: () = assert!(size_of::<Report>() <= PAGE_BYTES && GATES <= 256);

unsafe extern "C" {
    static mutation_block: u8;
    static mutation_zygote: u8;
    static mutation_landing: u8;
    static mutation_handler: u8;
    static mutation_report: u8;
}

/// The page of instructions, and where in it the three entries lie.
pub(crate) struct Block {
    pub(crate) code: &'static [u8],
    pub(crate) zygote: usize,
    pub(crate) landing: usize,
    pub(crate) handler: usize,
}

pub(crate) fn block() -> Block {
    let start = &raw const mutation_block;
    let offset = |label: *const u8| label.addr() - start.addr();
    assert_eq!(offset(&raw const mutation_report), PAGE_BYTES);
    // SAFETY: the bytes between two labels of one section, which nobody writes.
    let code = unsafe { std::slice::from_raw_parts(start, PAGE_BYTES) };
    Block {
        code,
        zygote: offset(&raw const mutation_zygote),
        landing: offset(&raw const mutation_landing),
        handler: offset(&raw const mutation_handler),
    }
}

global_asm!(
    ".pushsection .text.mutation_block,\"ax\",@progbits
    .p2align 12
    .globl mutation_block, mutation_zygote, mutation_landing, mutation_handler, mutation_report
    .hidden mutation_block, mutation_zygote, mutation_landing, mutation_handler, mutation_report
    mutation_block:",
    // Unmaps everything but the window and this block, and takes the bases of FS and GS away.
    "mutation_zygote:
    mov eax, {munmap}
    mov rdi, [rip + mutation_report + {below}]
    mov rsi, [rip + mutation_report + {below} + 8]
    syscall
    mov eax, {munmap}
    mov rdi, [rip + mutation_report + {above}]
    mov rsi, [rip + mutation_report + {above} + 8]
    syscall
    mov eax, {arch_prctl}
    mov edi, {arch_set_fs}
    mov rsi, [rip + mutation_report + {bases}]
    syscall
    mov eax, {arch_prctl}
    mov edi, {arch_set_gs}
    mov rsi, [rip + mutation_report + {bases}]
    syscall",
    // One byte for each run: then a process of its own, and its end.
    "2:
    mov eax, {read}
    mov edi, [rip + mutation_report + {commands}]
    lea rsi, [rip + mutation_report + {status}]
    mov edx, 1
    syscall
    cmp rax, 1
    jne 9f
    mov eax, {fork}
    syscall
    test rax, rax
    js 9f
    je 4f
    mov [rip + mutation_report + {process}], eax
    3:
    mov eax, {wait4}
    mov edi, [rip + mutation_report + {process}]
    lea rsi, [rip + mutation_report + {status}]
    xor edx, edx
    xor r10d, r10d
    syscall
    cmp rax, {interrupted}
    je 3b
    mov eax, {write}
    mov edi, [rip + mutation_report + {answers}]
    lea rsi, [rip + mutation_report + {status}]
    mov edx, 1
    syscall
    jmp 2b
    9:
    mov eax, {exit_group}
    mov edi, 1
    syscall",
    // The process of one run: the timer first, then the registers, the stack as a worker leaves it.
    "4:
    mov eax, {setitimer}
    xor edi, edi
    lea rsi, [rip + mutation_report + {timer}]
    xor edx, edx
    syscall
    mov rsp, [rip + mutation_report + {start} + 56]
    push {return_gate}
    mov rax, [rip + mutation_report + {start}]
    mov rbx, [rip + mutation_report + {start} + 8]
    mov rcx, [rip + mutation_report + {start} + 16]
    mov rdx, [rip + mutation_report + {start} + 24]
    mov rsi, [rip + mutation_report + {start} + 32]
    mov rdi, [rip + mutation_report + {start} + 40]
    mov rbp, [rip + mutation_report + {start} + 48]
    mov r8, [rip + mutation_report + {start} + 64]
    mov r9, [rip + mutation_report + {start} + 72]
    mov r10, [rip + mutation_report + {start} + 80]
    mov r11, [rip + mutation_report + {start} + 88]
    mov r12, [rip + mutation_report + {start} + 96]
    mov r13, [rip + mutation_report + {start} + 104]
    mov r14, [rip + mutation_report + {start} + 112]
    mov r15, [rip + mutation_report + {start} + 120]
    jmp [rip + mutation_report + {entry}]",
    // Behind every gate. A service does nothing and answers 0; the way back is that of `gate::pass`.
    "mutation_landing:
    mov [rip + mutation_report + {stack_pointer}], rsp
    cmp r10, {return_number}
    je 5f
    cmp r10, {gates}
    jae 7f
    lea r11, [rip + mutation_report + {ends}]
    cmp byte ptr [r11 + r10], 0
    jne 6f
    inc qword ptr [rip + mutation_report + {services}]
    mov r11d, {return_mask}
    and r11d, [rsp]
    mov [rsp], r11
    xor eax, eax
    xor ecx, ecx
    xor edx, edx
    xor esi, esi
    xor edi, edi
    xor r8d, r8d
    xor r9d, r9d
    xor r10d, r10d
    xor r11d, r11d
    ret
    5:
    mov dword ptr [rip + mutation_report + {kind}], {returned}
    mov [rip + mutation_report + {number}], edi
    jmp 8f
    6:
    mov dword ptr [rip + mutation_report + {kind}], {service}
    mov [rip + mutation_report + {number}], r10d
    jmp 8f
    7:
    mov dword ptr [rip + mutation_report + {kind}], {stray}
    8:
    lea rsp, [rip + mutation_report + {stack_end}]
    pushfq
    pop rax
    mov [rip + mutation_report + {flags}], rax
    stmxcsr [rip + mutation_report + {mxcsr}]
    fnstcw [rip + mutation_report + {x87_control}]
    jmp 11f",
    // Every signal: what the kernel's frame says, and the end of the process.
    "mutation_handler:
    mov dword ptr [rip + mutation_report + {kind}], {signal}
    mov [rip + mutation_report + {number}], edi
    movsxd rax, dword ptr [rsi + 8]
    mov [rip + mutation_report + {code}], rax
    mov rax, [rsi + 16]
    mov [rip + mutation_report + {address}], rax
    mov rax, [rdx + {frame_registers} + 15 * 8]
    mov [rip + mutation_report + {stack_pointer}], rax
    mov rax, [rdx + {frame_registers} + 17 * 8]
    mov [rip + mutation_report + {flags}], rax
    mov r9, [rdx + {frame_registers} + 23 * 8]
    movzx eax, word ptr [r9]
    mov [rip + mutation_report + {x87_control}], eax
    mov eax, [r9 + 24]
    mov [rip + mutation_report + {mxcsr}], eax
    lea rsi, [rdx + {frame_registers}]
    lea rdi, [rip + mutation_report + {registers}]
    mov ecx, 23
    rep movsq
    11:
    cmp dword ptr [rip + mutation_report + {has_bases}], 0
    je 12f
    rdfsbase rax
    mov [rip + mutation_report + {fs_base}], rax
    rdgsbase rax
    mov [rip + mutation_report + {gs_base}], rax
    12:
    xor eax, eax
    mov eax, ds
    mov ecx, es
    or eax, ecx
    mov ecx, fs
    or eax, ecx
    mov ecx, gs
    or eax, ecx
    mov [rip + mutation_report + {selectors}], rax
    mov eax, {exit_group}
    xor edi, edi
    syscall
    ud2
    .p2align 12, 0xcc
    mutation_report:
    .popsection",
    munmap = const libc::SYS_munmap,
    arch_prctl = const libc::SYS_arch_prctl,
    arch_set_fs = const 0x1002,
    arch_set_gs = const 0x1001,
    read = const libc::SYS_read,
    write = const libc::SYS_write,
    fork = const libc::SYS_fork,
    wait4 = const libc::SYS_wait4,
    setitimer = const libc::SYS_setitimer,
    exit_group = const libc::SYS_exit_group,
    interrupted = const -libc::EINTR,
    return_gate = const RETURN_GATE,
    return_number = const RETURN_NUMBER,
    return_mask = const (BUNDLE_BYTES as u32).wrapping_neg(),
    gates = const GATES,
    returned = const RETURNED,
    service = const SERVICE,
    signal = const SIGNAL,
    stray = const STRAY,
    frame_registers = const 40,
    stack_end = const PAGE_BYTES + STACK_BYTES,
    kind = const offset_of!(Report, kind),
    number = const offset_of!(Report, number),
    code = const offset_of!(Report, code),
    address = const offset_of!(Report, address),
    services = const offset_of!(Report, services),
    flags = const offset_of!(Report, flags),
    mxcsr = const offset_of!(Report, mxcsr),
    x87_control = const offset_of!(Report, x87_control),
    fs_base = const offset_of!(Report, fs_base),
    gs_base = const offset_of!(Report, gs_base),
    selectors = const offset_of!(Report, selectors),
    stack_pointer = const offset_of!(Report, stack_pointer),
    registers = const offset_of!(Report, registers),
    start = const offset_of!(Report, start.registers),
    entry = const offset_of!(Report, start.entry),
    timer = const offset_of!(Report, start.timer),
    process = const offset_of!(Report, process),
    status = const offset_of!(Report, status),
    has_bases = const offset_of!(Report, setting.has_bases),
    commands = const offset_of!(Report, setting.commands),
    answers = const offset_of!(Report, setting.answers),
    bases = const offset_of!(Report, setting.bases),
    below = const offset_of!(Report, setting.below),
    above = const offset_of!(Report, setting.above),
    ends = const offset_of!(Report, setting.ends),
);
