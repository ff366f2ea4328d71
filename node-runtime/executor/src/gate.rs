//! The change of stacks: into a function, and back from wherever it stands.
//!
//! Every way back is the same: the host's stack pointer is taken from [`crate::state`], never from
//! a register or from the function's stack, both of which the function could have changed.

use std::arch::{asm, naked_asm};
use std::mem::offset_of;
use std::sync::atomic::Ordering;

use mfaas_abi::Call;

use crate::state::{self, End, STATE, State};
use crate::window::RETURN_GATE;

/// Keeps on the host's stack what a callee must keep, notes where (`rcx` says in which cell), goes to the
/// stack that ends at `rdx`, and leaves there where the entry returns to: a gate, in reach of verified code.
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
         mov rsp, rdx
         push {return_gate}"
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
/// INV-EXECUTOR-1, 2 and 3: the stack is the call memory's and unused, the entry is an image's, `host_stack`
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
        "jmp rax",
        return_gate = const RETURN_GATE,
    )
}

/// What stands behind every gate: from the function's stack to the host's, to the service whose number is
/// in `r10`, and back. A service takes at most three arguments in registers, or numbers in vector
/// registers; no general register of the host's shows in what comes back.
///
/// The function's return address is masked after the service has run, which may have written where
/// the function's stack stands. A register that still holds the host's value is not the function's to see.
macro_rules! pass_gate {
    ($take_rights:expr, $give_rights:expr, $($operand:tt)*) => {
        naked_asm!(
            $take_rights,
            "cmp r10d, {gates}",
            "jae 9f",
            "mov r11, rsp",
            "mov rsp, [rip + {state} + {host_stack}]",
            "push r11",
            "sub rsp, 8",
            "cld",
            "cmp byte ptr [rip + {state} + {has_bases}], 0",
            "je 3f",
            "rdfsbase rax",
            "cmp rax, [rip + {state} + {fs_base}]",
            "jne 7f",
            "3:",
            "mov byte ptr [rip + {state} + {running}], 1",
            "lea r11, [rip + {state} + {table}]",
            "call [r11 + r10 * 8]",
            "mov byte ptr [rip + {state} + {running}], 0",
            "cmp byte ptr [rip + {state} + {ticked}], 0",
            "jne 8f",
            "4:",
            "mov r11d, [rip + {state} + {return_mask}]",
            "add rsp, 8",
            "pop rsp",
            // Its stack pointer is the function's word: used with its own rights.
            $give_rights,
            "and r11d, [rsp]",
            "mov [rsp], r11",
            "xor ecx, ecx",
            "xor edx, edx",
            "xor esi, esi",
            "xor edi, edi",
            "xor r8d, r8d",
            "xor r9d, r9d",
            "xor r10d, r10d",
            "xor r11d, r11d",
            "ret",
            "7:",
            "call {stray}",
            "8:",
            "mov [rsp], rax",
            "sub rsp, 16",
            "movups [rsp], xmm0",
            "call {look}",
            "movups xmm0, [rsp]",
            "add rsp, 16",
            "mov rax, [rsp]",
            "jmp 4b",
            "9:",
            "ud2",
            gates = const $crate::window::GATES,
            state = sym $crate::state::STATE,
            host_stack = const offset_of!($crate::state::State, host_stack),
            has_bases = const offset_of!($crate::state::State, bases.movable),
            fs_base = const offset_of!($crate::state::State, bases.fs),
            running = const offset_of!($crate::state::State, services.running),
            table = const offset_of!($crate::state::State, services.table),
            ticked = const offset_of!($crate::state::State, services.ticked),
            return_mask = const offset_of!($crate::state::State, services.return_mask),
            stray = sym $crate::gate::stray,
            look = sym $crate::gate::look_at_budget,
            $($operand)*
        )
    };
}

pub(crate) use pass_gate;

/// Behind every gate where there are no protection keys.
///
/// # Safety
/// INV-EXECUTOR-4: for functions, with the number of a gate in `r10`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn pass() {
    pass_gate!("", "",)
}

/// What a load of zero reads, so that the x87 unit's last address says nothing about a function.
static ZERO: f32 = 0.0;

/// Where every call ends. Expects `rsp` to be the host's, and puts back what code in user mode can
/// change and the host, or the next function, would meet (INV-EXECUTOR-15): flags, segments and the bases of
/// FS and GS, the x87 unit with the MMX registers that are its own, MXCSR, and the registers that a
/// callee keeps.
///
/// - Writing a base or a selector is slow, reading it is not. Without the instructions for bases a
///   function can only have made FS's useless, and the worker ends: what it could do against that is a system
///   call that it may not make.
/// - Resetting the x87 unit (FNINIT) is slow and leaves its registers as they are; eight zeros and
///   EMMS cost next to nothing and leave its status as it is. So the zeros are for every call, and the
///   reset where a look at control and status word shows that it is needed. Where the control word is the
///   host's, in which every exception is masked, none can be pending that the zeros would raise. After a
///   reset the zeros come again, so that where the unit was last says nothing either.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn landing() {
    naked_asm!(
        "push 2",
        "popfq",
        "mov eax, ds",
        "mov ecx, es",
        "or eax, ecx",
        "mov ecx, fs",
        "or eax, ecx",
        "mov ecx, gs",
        "or eax, ecx",
        "jne 60f",
        "20:",
        "cmp byte ptr [rip + {state} + {has_bases}], 0",
        "je 70f",
        "rdfsbase rax",
        "cmp rax, [rip + {state} + {fs_base}]",
        "jne 80f",
        "30:",
        "rdgsbase rax",
        "cmp rax, [rip + {state} + {gs_base}]",
        "jne 90f",
        "40:",
        "fnstcw [rsp - 8]",
        "movzx eax, word ptr [rsp - 8]",
        "cmp ax, [rsp + 4]",
        "jne 50f",
        "45:",
        "emms",
        "fldz",
        "fldz",
        "fldz",
        "fldz",
        "fldz",
        "fldz",
        "fldz",
        "fld dword ptr [rip + {zero}]",
        "emms",
        "fnstsw ax",
        "test ax, ax",
        "jne 50f",
        "ldmxcsr [rsp]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        "50:",
        "fninit",
        "fldcw [rsp + 4]",
        "jmp 45b",
        "60:",
        "xor eax, eax",
        "mov ds, eax",
        "mov es, eax",
        "mov fs, eax",
        "mov gs, eax",
        "jmp 20b",
        "70:",
        "mov rax, fs:[0]",
        "cmp rax, [rip + {state} + {fs_base}]",
        "je 40b",
        "ud2",
        "80:",
        "mov rax, [rip + {state} + {fs_base}]",
        "wrfsbase rax",
        "jmp 30b",
        "90:",
        "mov rax, [rip + {state} + {gs_base}]",
        "wrgsbase rax",
        "jmp 40b",
        state = sym STATE,
        has_bases = const offset_of!(State, bases.movable),
        fs_base = const offset_of!(State, bases.fs),
        gs_base = const offset_of!(State, bases.gs),
        zero = sym ZERO,
    )
}

/// Notes where FS and GS stand for this thread, and whether code in user mode can move them.
pub(crate) fn note_bases(state: &State) {
    /// `HWCAP2_FSGSBASE` of the kernel's headers: processor and kernel have the instructions.
    const FSGSBASE: libc::c_ulong = 2;
    // SAFETY: INV-EXECUTOR-7. Takes a number; answers 0 for what it does not know.
    let has_bases = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE != 0;
    let (fs_base, gs_base): (usize, usize);
    if has_bases {
        // SAFETY: INV-EXECUTOR-14.
        unsafe {
            asm!("rdfsbase {}", "rdgsbase {}", out(reg) fs_base, out(reg) gs_base, options(nomem, nostack, preserves_flags))
        }
    } else {
        gs_base = 0;
        // SAFETY: INV-EXECUTOR-7. The first word of the thread's control block is its own address.
        unsafe { asm!("mov {}, fs:0", out(reg) fs_base, options(nostack, readonly, preserves_flags)) }
    }
    state.bases.fs.set(fs_base);
    state.bases.gs.set(gs_base);
    state.bases.movable.set(has_bases);
}

/// The address at which calls end: with or without a change of rights.
pub(crate) fn landing_of(state: &State) -> usize {
    match state.keys.landing.get() {
        0 => (landing as *const ()).addr(),
        keyed => keyed,
    }
}

/// The service behind the gate through which an entry returns.
pub(crate) extern "C" fn returned(number: u32) -> ! {
    leave(End::Returned(number))
}

/// A function came to a gate with a base of FS that is not the host's.
pub(crate) extern "C" fn stray() -> ! {
    leave(End::Fault(libc::SIGSEGV))
}

/// In a service whose work grows with what the function asks for, now and then, and at the end of each: ends
/// the call if a tick came and its CPU time is used up.
pub(crate) extern "C" fn look_at_budget() {
    let over = state::with(|state| {
        // Written only where it was set: a tick that comes between must not be lost.
        let ticked = state.services.ticked.load(Ordering::Relaxed);
        if ticked {
            state.services.ticked.store(false, Ordering::Relaxed);
        }
        ticked && state.budget.is_used_up(true)
    });
    if over {
        leave(End::OverBudget);
    }
}

/// Ends the call. Only for services.
pub(crate) fn leave(end: End) -> ! {
    let (host_stack, landing) = state::with(|state| {
        state.end.set(end);
        state.services.running.set(false);
        (state.host_stack.get(), landing_of(state))
    });
    // SAFETY: INV-EXECUTOR-1. `enter` stored this stack pointer and waits there; the services that stand
    // below it own nothing (INV-EXECUTOR-4).
    unsafe {
        asm!("mov rsp, {stack}", "jmp {landing}", stack = in(reg) host_stack, landing = in(reg) landing, options(noreturn))
    }
}

/// Drops every instruction that the core has fetched ahead. The return from an interrupt is the one
/// serialising instruction that neither leaves the processor's user mode nor, on a virtual machine,
/// the machine.
pub(crate) fn serialise() {
    // SAFETY: INV-EXECUTOR-8. Returns to the next instruction with the same stack, flags and segments.
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

/// Zeroes the vector and mask registers, which may still hold what the last function worked on, or what
/// the host read of it when it copied its answer and wiped its memory. Functions of their own, whose
/// callers expect nothing of these registers: `k0` is none that inline assembly can name.
pub(crate) fn clear_vectors() {
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: INV-EXECUTOR-14.
        unsafe { clear_512() }
    } else if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: INV-EXECUTOR-14.
        unsafe { clear_256() }
    } else {
        // SAFETY: INV-EXECUTOR-14. Every x86-64 processor has these.
        unsafe { clear_128() }
    }
}

/// # Safety
/// INV-EXECUTOR-14: for processors with AVX-512.
#[unsafe(naked)]
unsafe extern "C" fn clear_512() {
    naked_asm!(
        "vzeroall",
        "vpxord zmm16, zmm16, zmm16",
        "vpxord zmm17, zmm17, zmm17",
        "vpxord zmm18, zmm18, zmm18",
        "vpxord zmm19, zmm19, zmm19",
        "vpxord zmm20, zmm20, zmm20",
        "vpxord zmm21, zmm21, zmm21",
        "vpxord zmm22, zmm22, zmm22",
        "vpxord zmm23, zmm23, zmm23",
        "vpxord zmm24, zmm24, zmm24",
        "vpxord zmm25, zmm25, zmm25",
        "vpxord zmm26, zmm26, zmm26",
        "vpxord zmm27, zmm27, zmm27",
        "vpxord zmm28, zmm28, zmm28",
        "vpxord zmm29, zmm29, zmm29",
        "vpxord zmm30, zmm30, zmm30",
        "vpxord zmm31, zmm31, zmm31",
        "kxorw k0, k0, k0",
        "kxorw k1, k1, k1",
        "kxorw k2, k2, k2",
        "kxorw k3, k3, k3",
        "kxorw k4, k4, k4",
        "kxorw k5, k5, k5",
        "kxorw k6, k6, k6",
        "kxorw k7, k7, k7",
        "ret",
    )
}

/// # Safety
/// INV-EXECUTOR-14: for processors with AVX.
#[unsafe(naked)]
unsafe extern "C" fn clear_256() {
    naked_asm!("vzeroall", "ret")
}

/// # Safety
/// INV-EXECUTOR-14: for any processor.
#[unsafe(naked)]
unsafe extern "C" fn clear_128() {
    naked_asm!(
        "xorps xmm0, xmm0",
        "xorps xmm1, xmm1",
        "xorps xmm2, xmm2",
        "xorps xmm3, xmm3",
        "xorps xmm4, xmm4",
        "xorps xmm5, xmm5",
        "xorps xmm6, xmm6",
        "xorps xmm7, xmm7",
        "xorps xmm8, xmm8",
        "xorps xmm9, xmm9",
        "xorps xmm10, xmm10",
        "xorps xmm11, xmm11",
        "xorps xmm12, xmm12",
        "xorps xmm13, xmm13",
        "xorps xmm14, xmm14",
        "xorps xmm15, xmm15",
        "ret",
    )
}
