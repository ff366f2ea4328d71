//! The changes of rights: into a function, back out of it, into a service and back, and into a
//! handler. All of it lies in one section of the program, the only place in which the worker's text
//! may hold the instruction WRPKRU once [`crate::text`] has looked.
//!
//! Functions run with [`FUNCTION`], the host with [`HOST`]. A function could jump to any of these
//! instructions with any register it likes, so each WRPKRU is followed by a comparison with the value
//! that belongs there, before any use of memory: whoever comes with another value meets `ud2`. What
//! stands behind the comparison is then as good as if the gate had been entered at its beginning:
//!
//! - in front of a service, that the stack is the function's and the base of FS is the host's, where its
//!   C library keeps what belongs to a thread, is checked with the host's rights, and the direction flag
//!   is cleared;
//! - the landing takes its stack from the state, never from a register;
//! - a handler is entered on the handlers' stack alone.
//!
//! It must never touch memory between WRPKRU and its comparison, and never return to an address that
//! a function could have written while the host's rights are in force.

use std::arch::naked_asm;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;

use mfaas_abi::Call;

use crate::state::{STATE, State};
use crate::{gate, libm, services, signals};

/// Key of the window and of what the worker only reads.
pub(crate) const KEY: u32 = 1;
/// PKRU of the host: keys 0 and [`KEY`] are open, the others denied.
pub(crate) const HOST: u32 = 0x5555_5550;
/// PKRU of functions: [`KEY`] is open, all others denied.
pub(crate) const FUNCTION: u32 = 0x5555_5551;

/// Runs `entry(call)` as [`gate::enter`] does, with the function's rights.
///
/// # Safety
/// INV-EXECUTOR-1, 2, 3 and 11: as `gate::enter`; everything that a function reads bears its key.
#[unsafe(naked)]
#[unsafe(link_section = "mfaas_gates")]
pub(crate) unsafe extern "C" fn enter(
    entry: usize,
    call: *mut Call,
    stack_end: usize,
    host_stack: *mut usize,
) {
    naked_asm!(
        gate::leave_host_stack!(),
        "mov r12, rdi",
        "mov rdi, rsi",
        "mov eax, {function}",
        "xor ecx, ecx",
        "xor edx, edx",
        "wrpkru",
        "cmp eax, {function}",
        "jne 2f",
        "mov rax, r12",
        gate::clear_registers!(),
        "call rax",
        "mov edi, eax",
        "mov eax, {host}",
        "xor ecx, ecx",
        "xor edx, edx",
        "wrpkru",
        "cmp eax, {host}",
        "jne 2f",
        "cmp rsp, [rip + {state} + {stack_start}]",
        "jb 2f",
        "cmp rsp, [rip + {state} + {stack_end}]",
        "ja 2f",
        "cld",
        "call {returned}",
        "2:",
        "ud2",
        function = const FUNCTION,
        host = const HOST,
        state = sym STATE,
        stack_start = const offset_of!(State, stack.start),
        stack_end = const offset_of!(State, stack.end),
        returned = sym gate::returned,
    )
}

/// Where every call ends, with whatever rights and on whatever stack it comes.
#[unsafe(naked)]
#[unsafe(link_section = "mfaas_gates")]
pub(crate) unsafe extern "C" fn landing() {
    naked_asm!(
        "mov eax, {host}",
        "xor ecx, ecx",
        "xor edx, edx",
        "wrpkru",
        "cmp eax, {host}",
        "jne 2f",
        "mov rsp, [rip + {state} + {host_stack}]",
        "jmp {landing}",
        "2:",
        "ud2",
        host = const HOST,
        state = sym STATE,
        host_stack = const offset_of!(State, host_stack),
        landing = sym gate::landing,
    )
}

/// A gate in front of something that needs the host's rights. It takes at most three arguments, in
/// registers, or numbers in vector registers; no register of the host's shows in what comes back.
macro_rules! gates {
    ($($name:ident => $inner:path;)+) => {
        $(
            #[doc = concat!("The gate in front of `", stringify!($inner), "`.")]
            ///
            /// # Safety
            /// INV-EXECUTOR-4 and 11: as what stands behind it.
            #[unsafe(naked)]
            #[unsafe(link_section = "mfaas_gates")]
            pub(crate) unsafe extern "C" fn $name() {
                naked_asm!(
                    "mov r8, rdx",
                    "mov eax, {host}",
                    "xor ecx, ecx",
                    "xor edx, edx",
                    "wrpkru",
                    "cmp eax, {host}",
                    "jne 2f",
                    "cmp rsp, [rip + {state} + {stack_start}]",
                    "jb 2f",
                    "cmp rsp, [rip + {state} + {stack_end}]",
                    "ja 2f",
                    "mov [rip + {state} + {gate_stack}], rsp",
                    "cld",
                    "cmp byte ptr [rip + {state} + {has_bases}], 0",
                    "je 3f",
                    "rdfsbase rax",
                    "cmp rax, [rip + {state} + {fs_base}]",
                    "jne 2f",
                    "3:",
                    "mov rdx, r8",
                    "sub rsp, 8",
                    "call {inner}",
                    "add rsp, 8",
                    "mov r8, rax",
                    "mov eax, {function}",
                    "xor ecx, ecx",
                    "xor edx, edx",
                    "wrpkru",
                    "cmp eax, {function}",
                    "jne 2f",
                    "mov rax, r8",
                    "xor esi, esi",
                    "xor edi, edi",
                    "xor r8d, r8d",
                    "xor r9d, r9d",
                    "xor r10d, r10d",
                    "xor r11d, r11d",
                    "ret",
                    "2:",
                    "ud2",
                    host = const HOST,
                    function = const FUNCTION,
                    state = sym STATE,
                    stack_start = const offset_of!(State, stack.start),
                    stack_end = const offset_of!(State, stack.end),
                    gate_stack = const offset_of!(State, keys.gate_stack),
                    has_bases = const offset_of!(State, bases.movable),
                    fs_base = const offset_of!(State, bases.fs),
                    inner = sym $inner,
                )
            }
        )+
    };
}

gates! {
    mfaas_host_log => services::mfaas_host_log;
    mfaas_host_now => services::mfaas_host_now;
    mfaas_host_random => services::mfaas_host_random;
    mfaas_host_panic => services::mfaas_host_panic;
    mfaas_host_oom => services::mfaas_host_oom;
    write => services::write;
    writev => services::writev;
    getrandom => services::getrandom;
    clock_gettime => services::clock_gettime;
    abort => services::abort;
    pthread_key_create => services::pthread_key_create;
    strerror_r => services::strerror_r;
    cbrt => libm::cbrt;
}

/// A handler's beginning: the host's rights, if the kernel put it on the handlers' stack.
macro_rules! handlers {
    ($($name:ident)+) => {
        $(
            #[doc = concat!("Takes the host's rights for `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// INV-EXECUTOR-7: for the kernel alone.
            #[unsafe(naked)]
            #[unsafe(link_section = "mfaas_gates")]
            pub(crate) unsafe extern "C" fn $name(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
                naked_asm!(
                    "mov r8, rdx",
                    "mov eax, {host}",
                    "xor ecx, ecx",
                    "xor edx, edx",
                    "wrpkru",
                    "cmp eax, {host}",
                    "jne 2f",
                    "cmp rsp, [rip + {state} + {start}]",
                    "jb 2f",
                    "cmp rsp, [rip + {state} + {end}]",
                    "ja 2f",
                    "mov rdx, r8",
                    "cld",
                    "jmp {handler}",
                    "2:",
                    "ud2",
                    host = const HOST,
                    state = sym STATE,
                    start = const offset_of!(State, handler_stack.start),
                    end = const offset_of!(State, handler_stack.end),
                    handler = sym signals::$name,
                )
            }
        )+
    };
}

handlers! { on_tick on_fault }

unsafe extern "C" {
    /// First byte of the section, by the linker.
    static __start_mfaas_gates: u8;
    /// One past its last byte.
    static __stop_mfaas_gates: u8;
}

/// Addresses of the section.
pub(crate) fn section() -> std::ops::Range<usize> {
    (&raw const __start_mfaas_gates).addr()..(&raw const __stop_mfaas_gates).addr()
}
