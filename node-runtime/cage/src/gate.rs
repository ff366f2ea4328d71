//! The change of stacks: into a function, and back from wherever it stands.
//!
//! Every way back is the same: the host's stack pointer is taken from [`crate::state`], never from
//! a register or from the function's stack, both of which the function could have changed.

use std::arch::{asm, naked_asm};

use mfaas_abi::Call;

use crate::state::{self, End};

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
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rcx], rsp",
        "mov rsp, rdx",
        "mov rax, rdi",
        "mov rdi, rsi",
        // What the host had in its registers is not the function's.
        "xor ebx, ebx",
        "xor ecx, ecx",
        "xor edx, edx",
        "xor esi, esi",
        "xor ebp, ebp",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "xor r11d, r11d",
        "xor r12d, r12d",
        "xor r13d, r13d",
        "xor r14d, r14d",
        "xor r15d, r15d",
        "call rax",
        "mov edi, eax",
        "call {returned}",
        "ud2",
        returned = sym returned,
    )
}

/// Where every call ends. Expects `rsp` to be the host's; puts back flags, floating-point state
/// and the registers that a callee keeps.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn landing() {
    naked_asm!(
        "push 2",
        "popfq",
        "fninit",
        "fldcw [rsp + 4]",
        "ldmxcsr [rsp]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// Reached on the function's stack when the entry returned.
extern "C" fn returned(number: u32) -> ! {
    leave(End::Returned(number))
}

/// Leaves the function's stack for good. Only for code that runs on it.
pub(crate) fn leave(end: End) -> ! {
    let host_stack = state::with(|state| {
        state.end.set(end);
        state.host_stack.get()
    });
    // SAFETY: INV-CAGE-1. `enter` stored this stack pointer and waits below it; what stands on the
    // function's stack owns nothing (INV-CAGE-4).
    unsafe {
        asm!("mov rsp, {stack}", "jmp {landing}", stack = in(reg) host_stack, landing = sym landing, options(noreturn))
    }
}

/// Zeroes the vector registers, which may still hold what the last function worked on.
pub(crate) fn clear_vectors() {
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: INV-CAGE-7. The processor has AVX; every register it changes is named.
        unsafe {
            asm!("vzeroall", out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _,
                out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nomem, nostack, preserves_flags))
        }
    }
}
