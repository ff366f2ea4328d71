//! The bind table: the address behind each row of `mfaas_rules::profiles::imports`.
//!
//! It must name every row and nothing else, and pure rows only ever bind to functions without
//! state.

use crate::{keyed, libm, memory_ops, services};

/// What an image's import is bound to under protection keys: a gate for whatever touches memory that
/// is not the function's, and the same as without keys for the others.
pub(crate) fn guarded_address_of(symbol: &str) -> Option<usize> {
    gates(symbol).or_else(|| address_of(symbol))
}

/// What an image's import is bound to; `None` for what is not offered.
pub(crate) fn address_of(symbol: &str) -> Option<usize> {
    own(symbol).or_else(|| memory(symbol)).or_else(|| inert(symbol)).or_else(|| libm::address_of(symbol))
}

/// Services and ends.
fn own(symbol: &str) -> Option<usize> {
    let address: *const () = match symbol {
        "mfaas_host_log" => services::mfaas_host_log as *const (),
        "mfaas_host_now" => services::mfaas_host_now as *const (),
        "mfaas_host_random" => services::mfaas_host_random as *const (),
        "mfaas_host_panic" => services::mfaas_host_panic as *const (),
        "mfaas_host_oom" => services::mfaas_host_oom as *const (),
        "write" => services::write as *const (),
        "writev" => services::writev as *const (),
        "getrandom" => services::getrandom as *const (),
        "clock_gettime" => services::clock_gettime as *const (),
        "__tls_get_addr" => services::tls_get_addr as *const (),
        "__errno_location" => services::errno_location as *const (),
        "abort" | "_Unwind_RaiseException" | "_Unwind_Resume" => services::abort as *const (),
        _ => return None,
    };
    Some(address.addr())
}

/// Gates into the host.
fn gates(symbol: &str) -> Option<usize> {
    let address: *const () = match symbol {
        "mfaas_host_log" => keyed::mfaas_host_log as *const (),
        "mfaas_host_now" => keyed::mfaas_host_now as *const (),
        "mfaas_host_random" => keyed::mfaas_host_random as *const (),
        "mfaas_host_panic" => keyed::mfaas_host_panic as *const (),
        "mfaas_host_oom" => keyed::mfaas_host_oom as *const (),
        "write" => keyed::write as *const (),
        "writev" => keyed::writev as *const (),
        "getrandom" => keyed::getrandom as *const (),
        "clock_gettime" => keyed::clock_gettime as *const (),
        "abort" | "_Unwind_RaiseException" | "_Unwind_Resume" => keyed::abort as *const (),
        "pthread_key_create" => keyed::pthread_key_create as *const (),
        "__xpg_strerror_r" => keyed::strerror_r as *const (),
        "cbrt" => keyed::cbrt as *const (),
        _ => return None,
    };
    Some(address.addr())
}

/// Copies, fills and comparisons.
fn memory(symbol: &str) -> Option<usize> {
    let address: *const () = match symbol {
        "memcpy" | "memmove" => memory_ops::copy as *const (),
        "memset" => memory_ops::fill as *const (),
        "memcmp" | "bcmp" => memory_ops::compare as *const (),
        "strlen" => memory_ops::length as *const (),
        _ => return None,
    };
    Some(address.addr())
}

/// What std links and functions have no use for.
fn inert(symbol: &str) -> Option<usize> {
    let address: *const () = match symbol {
        "open64" | "read" | "close" | "poll" | "syscall" => services::unavailable as *const (),
        "malloc" | "calloc" | "realloc" => services::null as *const (),
        "posix_memalign" => services::no_memory as *const (),
        "pthread_key_create" => services::pthread_key_create as *const (),
        "__xpg_strerror_r" => services::strerror_r as *const (),
        "free"
        | "__cxa_thread_atexit_impl"
        | "__cxa_finalize"
        | "pthread_key_delete"
        | "pthread_setspecific"
        | "sched_yield" => services::nothing as *const (),
        _ => return None,
    };
    Some(address.addr())
}
