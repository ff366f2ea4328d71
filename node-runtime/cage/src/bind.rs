//! The bind table: the address behind each row of `mfaas_rules::profiles::imports`.
//!
//! It must name every row and nothing else, and pure rows only ever bind to functions without
//! state.

use crate::services;

/// What an image's import is bound to; `None` for what is not offered.
pub(crate) fn address_of(symbol: &str) -> Option<usize> {
    own(symbol).or_else(|| memory(symbol)).or_else(|| inert(symbol)).or_else(|| mathematics(symbol))
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

/// Copies, fills and comparisons: the worker's own, which choose by processor when it starts.
fn memory(symbol: &str) -> Option<usize> {
    unsafe extern "C" {
        fn bcmp();
    }
    let address: *const () = match symbol {
        "memcpy" => libc::memcpy as *const (),
        "memmove" => libc::memmove as *const (),
        "memset" => libc::memset as *const (),
        "memcmp" => libc::memcmp as *const (),
        "bcmp" => bcmp as *const (),
        "strlen" => libc::strlen as *const (),
        _ => return None,
    };
    Some(address.addr())
}

/// What std links and functions have no use for.
fn inert(symbol: &str) -> Option<usize> {
    let address: *const () = match symbol {
        "open64" | "read" | "close" | "fstat64" | "stat64" | "statx" | "lseek64" | "readlink" | "mmap64"
        | "munmap" | "syscall" | "poll" | "sched_getaffinity" | "sysconf" => {
            services::unavailable as *const ()
        }
        "realpath" | "getcwd" | "getenv" | "malloc" | "calloc" | "realloc" | "pthread_getspecific" => {
            services::null as *const ()
        }
        // Any number but 0 says that there is no memory.
        "posix_memalign" => services::gettid as *const (),
        "gettid" => services::gettid as *const (),
        "pthread_key_create" => services::pthread_key_create as *const (),
        "__xpg_strerror_r" => services::strerror_r as *const (),
        "free"
        | "dl_iterate_phdr"
        | "__cxa_thread_atexit_impl"
        | "__cxa_finalize"
        | "pthread_key_delete"
        | "pthread_setspecific"
        | "sched_yield" => services::nothing as *const (),
        "_Unwind_Backtrace"
        | "_Unwind_DeleteException"
        | "_Unwind_GetCFA"
        | "_Unwind_GetDataRelBase"
        | "_Unwind_GetIP"
        | "_Unwind_GetIPInfo"
        | "_Unwind_GetLanguageSpecificData"
        | "_Unwind_GetRegionStart"
        | "_Unwind_GetTextRelBase"
        | "_Unwind_SetGR"
        | "_Unwind_SetIP" => services::nothing as *const (),
        _ => return None,
    };
    Some(address.addr())
}

/// Declares functions of libm for their addresses alone, and looks one up by name.
macro_rules! mathematics {
    ($($name:ident)+) => {
        /// Functions of numbers, from the worker's own libm.
        fn mathematics(symbol: &str) -> Option<usize> {
            #[link(name = "m")]
            unsafe extern "C" {
                $(fn $name();)+
            }
            let address: *const () = match symbol {
                $(stringify!($name) => $name as *const (),)+
                _ => return None,
            };
            Some(address.addr())
        }
    };
}

mathematics! {
    acos acosf acosh acoshf asin asinf asinh asinhf atan atan2 atan2f atanf atanh atanhf cbrt cbrtf ceil ceilf
    copysign copysignf cos cosf cosh coshf erf erff erfc erfcf exp exp2 exp2f expf expm1 expm1f fabs fabsf fdim
    fdimf floor floorf fma fmaf fmax fmaxf fmin fminf fmod fmodf hypot hypotf ldexp ldexpf lgamma_r lgammaf_r log
    log10 log10f log1p log1pf log2 log2f logf pow powf rint rintf round roundeven roundevenf roundf sin sincos
    sincosf sinf sinh sinhf sqrt sqrtf tan tanf tanh tanhf tgamma tgammaf trunc truncf
}
