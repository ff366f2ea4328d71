//! The change of stacks: into a function, and back from wherever it stands.
//!
//! Every way back is the same: the host's stack pointer is taken from [`crate::state`], never from
//! a register or from the function's stack, both of which the function could have changed.

use std::arch::{asm, naked_asm};

use mfaas_abi::Call;

use crate::keyed;
use crate::state::{self, End, State};

/// Keeps on the host's stack what a callee must keep, notes where (`rcx` says in which cell), and goes
/// to the stack that ends at `rdx`.
macro_rules! leave_host_stack {
    () => {
        "push rbx
         push rbp
         push r12
         push r13
         push r14
         push r15
         sub rsp, 8
         stmxcsr [rsp]
         fnstcw [rsp + 4]
         mov [rcx], rsp
         mov rsp, rdx"
    };
}

/// What the host had in its registers is not the function's. Leaves the argument, `rdi`, and `rax`,
/// which the caller has set.
macro_rules! clear_registers {
    () => {
        "xor ebx, ebx
         xor ecx, ecx
         xor edx, edx
         xor esi, esi
         xor ebp, ebp
         xor r8d, r8d
         xor r9d, r9d
         xor r10d, r10d
         xor r11d, r11d
         xor r12d, r12d
         xor r13d, r13d
         xor r14d, r14d
         xor r15d, r15d"
    };
}

pub(crate) use {clear_registers, leave_host_stack};

/// Runs `entry(call)` on the stack that ends at `stack_end`, and comes back when the call ended;
/// how it ended stands in the state.
///
/// # Safety
/// INV-CAGE-1, 2 and 3: the stack is the grounds' and unused, the entry is an image's, `host_stack`
/// is the state's cell of this thread.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn enter(
    entry: usize,
    call: *mut Call,
    stack_end: usize,
    host_stack: *mut usize,
) {
    naked_asm!(
        leave_host_stack!(),
        "mov rax, rdi",
        "mov rdi, rsi",
        clear_registers!(),
        "call rax",
        "mov edi, eax",
        "call {returned}",
        "ud2",
        returned = sym returned,
    )
}

/// Where every call ends. Expects `rsp` to be the host's; puts back flags, floating-point state
/// and the registers that a callee keeps. The x87 unit's whole reset is slow; where its control word is
/// the host's, in which every exception is masked, nothing can be pending and emptying its stack is
/// enough.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn landing() {
    naked_asm!(
        "push 2",
        "popfq",
        "fnstcw [rsp - 8]",
        "movzx eax, word ptr [rsp - 8]",
        "cmp ax, [rsp + 4]",
        "jne 3f",
        "emms",
        "2:",
        "ldmxcsr [rsp]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        "3:",
        "fninit",
        "fldcw [rsp + 4]",
        "jmp 2b",
    )
}

/// The address at which calls end: with or without a change of rights.
pub(crate) fn landing_of(state: &State) -> usize {
    let landing = if state.keyed.get() { keyed::landing as *const () } else { landing as *const () };
    landing.addr()
}

/// Reached on the function's stack when the entry returned.
pub(crate) extern "C" fn returned(number: u32) -> ! {
    leave(End::Returned(number))
}

/// Leaves the function's stack for good. Only for code that runs on it.
pub(crate) fn leave(end: End) -> ! {
    let (host_stack, landing) = state::with(|state| {
        state.end.set(end);
        (state.host_stack.get(), landing_of(state))
    });
    // SAFETY: INV-CAGE-1. `enter` stored this stack pointer and waits below it; what stands on the
    // function's stack owns nothing (INV-CAGE-4).
    unsafe {
        asm!("mov rsp, {stack}", "jmp {landing}", stack = in(reg) host_stack, landing = in(reg) landing, options(noreturn))
    }
}

/// Drops every instruction that the core has fetched ahead. The return from an interrupt is the one
/// serialising instruction that neither leaves the processor's user mode nor, on a virtual machine,
/// the machine.
pub(crate) fn serialise() {
    // SAFETY: INV-CAGE-8. Returns to the next instruction with the same stack, flags and segments.
    unsafe {
        asm!(
            "mov {stack}, rsp",
            "mov {segment:e}, ss",
            "push {segment}",
            "push {stack}",
            "pushfq",
            "mov {segment:e}, cs",
            "push {segment}",
            "lea {stack}, [rip + 2f]",
            "push {stack}",
            "iretq",
            "2:",
            stack = out(reg) _,
            segment = out(reg) _,
        )
    }
}

/// Zeroes the vector registers, which may still hold what the last function worked on, or what the host
/// read of it when it copied its answer and wiped its memory.
pub(crate) fn clear_vectors() {
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: INV-CAGE-14.
        unsafe {
            asm!("vzeroall",
                "vpxord zmm16, zmm16, zmm16", "vpxord zmm17, zmm17, zmm17", "vpxord zmm18, zmm18, zmm18",
                "vpxord zmm19, zmm19, zmm19", "vpxord zmm20, zmm20, zmm20", "vpxord zmm21, zmm21, zmm21",
                "vpxord zmm22, zmm22, zmm22", "vpxord zmm23, zmm23, zmm23", "vpxord zmm24, zmm24, zmm24",
                "vpxord zmm25, zmm25, zmm25", "vpxord zmm26, zmm26, zmm26", "vpxord zmm27, zmm27, zmm27",
                "vpxord zmm28, zmm28, zmm28", "vpxord zmm29, zmm29, zmm29", "vpxord zmm30, zmm30, zmm30",
                "vpxord zmm31, zmm31, zmm31",
                "kxorw k1, k1, k1", "kxorw k2, k2, k2", "kxorw k3, k3, k3", "kxorw k4, k4, k4",
                "kxorw k5, k5, k5", "kxorw k6, k6, k6", "kxorw k7, k7, k7",
                out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _,
                out("zmm6") _, out("zmm7") _, out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _, out("zmm16") _,
                out("zmm17") _, out("zmm18") _, out("zmm19") _, out("zmm20") _, out("zmm21") _,
                out("zmm22") _, out("zmm23") _, out("zmm24") _, out("zmm25") _, out("zmm26") _,
                out("zmm27") _, out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
                out("k1") _, out("k2") _, out("k3") _, out("k4") _, out("k5") _, out("k6") _, out("k7") _,
                options(nomem, nostack, preserves_flags))
        }
    } else if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: INV-CAGE-14.
        unsafe {
            asm!("vzeroall", out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _,
                out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nomem, nostack, preserves_flags))
        }
    }
}
