//! The changes of rights: into a function, back out of it, into a service and back, and into a
//! handler. All of it lies in one section of the program, the only place in which the worker's text
//! may hold the instruction WRPKRU once [`crate::text`] has looked.
//!
//! Functions run with [`FUNCTION`], the host with [`HOST`]. A function could jump to any of these
//! instructions with any register it likes, so each WRPKRU is followed by a comparison with the value
//! that belongs there, before any use of memory: whoever comes with another value meets `ud2`. What
//! stands behind the comparison is then as good as if the gate had been entered at its beginning:
//!
//! - in front of a service the stack comes from the state, that the base of FS is the host's, where its
//!   C library keeps what belongs to a thread, is checked with the host's rights, and the direction flag
//!   is cleared;
//! - the landing takes its stack from the state too, never from a register;
//! - a handler is entered on the handlers' stack alone.
//!
//! It must never touch memory between WRPKRU and its comparison, and never return to an address that
//! a function could have written while the host's rights are in force.

use std::arch::naked_asm;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;

use mfaas_abi::Call;

use crate::state::{STATE, State};
use crate::window::RETURN_GATE;
use crate::{gate, signals};

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
        "jmp rax",
        "2:",
        "ud2",
        function = const FUNCTION,
        return_gate = const RETURN_GATE,
    )
}

/// Behind every gate: [`gate::pass`] with the host's rights.
///
/// # Safety
/// INV-EXECUTOR-4 and 11: as `gate::pass`.
#[unsafe(naked)]
#[unsafe(link_section = "mfaas_gates")]
pub(crate) unsafe extern "C" fn pass() {
    gate::pass_gate!(
        "mov r8, rdx
         mov eax, {host}
         xor ecx, ecx
         xor edx, edx
         wrpkru
         cmp eax, {host}
         jne 9f
         mov rdx, r8",
        "mov r8, rax
         mov eax, {function}
         xor ecx, ecx
         xor edx, edx
         wrpkru
         cmp eax, {function}
         jne 9f
         mov rax, r8",
        host = const HOST,
        function = const FUNCTION,
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
    let section = (&raw const __start_mfaas_gates).addr()..(&raw const __stop_mfaas_gates).addr();
    assert!(section.contains(&(landing as *const ()).addr()), "the linker put the gates elsewhere");
    section
}
