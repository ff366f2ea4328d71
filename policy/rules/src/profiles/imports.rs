//! Symbols that an image may import, and what each is bound to in a worker.
//!
//! The stub that images are linked against defines exactly these, so a use of anything else ends
//! the link with the symbol's name. They are the symbols that std 1.95 leaves in every shared
//! object, those behind what functions may use, and the host's own.

/// What a worker binds a symbol to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// A pure function of its arguments: memory, strings, mathematics.
    Pure,
    /// A host service of its own: log lines, clock, random bytes, the end of the call.
    Service,
    /// Does nothing and reports that it could not: std links it, functions have no use for it.
    Inert,
    /// Ends the invocation (MF0814 or MF0806).
    Ends,
}

/// One importable symbol.
#[derive(Debug, Clone, Copy)]
pub struct ImportRow {
    /// The symbol.
    pub symbol: &'static str,
    /// What it is bound to.
    pub binding: Binding,
    /// Why it is offered.
    pub why: &'static str,
}

macro_rules! rows {
    ($($binding:ident $why:literal: $($symbol:ident)+;)*) => {
        /// The importable symbols.
        pub const ROWS: &[ImportRow] =
            &[$($(ImportRow { symbol: stringify!($symbol), binding: Binding::$binding, why: $why }),+),*];
    };
}

rows! {
    Pure "the compiler emits calls to it": memcpy memmove memset memcmp bcmp strlen;
    Pure "mathematics of f32 and f64": acos acosf acosh acoshf asin asinf asinh asinhf atan atan2 atan2f atanf atanh atanhf
        cbrt cbrtf ceil ceilf copysign copysignf cos cosf cosh coshf erf erff erfc erfcf exp exp2 exp2f expf expm1 expm1f fabs fabsf fdim fdimf floor floorf
        fma fmaf fmax fmaxf fmin fminf fmod fmodf hypot hypotf ldexp ldexpf lgamma_r lgammaf_r log log10 log10f log1p log1pf log2 log2f logf pow powf rint rintf
        round roundeven roundevenf roundf sin sincos sincosf sinf sinh sinhf sqrt sqrtf tan tanf tanh tanhf tgamma tgammaf trunc truncf;
    Service "log lines, and what std says when it aborts": write writev;
    Service "HashMap's keys": getrandom;
    Service "Instant and SystemTime": clock_gettime;
    Service "thread-locals of the one thread": __tls_get_addr;
    Service "errno of the one thread": __errno_location;
    Service "what the crate mfaas offers, and how the shim ends a call": mfaas_host_log mfaas_host_now mfaas_host_random
        mfaas_host_panic mfaas_host_oom;
    Ends "std ends the process by it": abort;
    Inert "std frees what these would have given": free;
    Inert "std's own allocator, which the shim replaces, stays linked": malloc calloc realloc posix_memalign;
    Ends "unwinding is never entered: panics end the call": _Unwind_RaiseException _Unwind_Resume;
    Inert "std looks for random bytes in a file where getrandom is missing: there is none": open64 read close poll;
    Inert "futexes and other system calls by number: there are none": syscall;
    Inert "error texts of the operating system": __xpg_strerror_r;
    Inert "destructors of thread-locals do not run: state is wiped after each call": __cxa_thread_atexit_impl __cxa_finalize
        pthread_key_create pthread_key_delete pthread_setspecific;
    Inert "std asks for the CPU while it yields": sched_yield;
}

/// A symbol that is not offered and the part of std behind it, for the message of a refused link.
#[derive(Debug, Clone, Copy)]
pub struct RefusedSymbol {
    /// The symbol, or its beginning when it ends with `*`.
    pub symbol: &'static str,
    /// The API that a tenant would have written.
    pub api: &'static str,
}

/// What a refused link says about a symbol.
pub const REFUSED: &[RefusedSymbol] = &[
    RefusedSymbol { symbol: "execvp", api: "std::process::Command" },
    RefusedSymbol { symbol: "posix_spawn*", api: "std::process::Command" },
    RefusedSymbol { symbol: "fork", api: "std::process::Command" },
    RefusedSymbol { symbol: "waitpid", api: "std::process::Child" },
    RefusedSymbol { symbol: "kill", api: "std::process::Child" },
    RefusedSymbol { symbol: "exit", api: "std::process::exit" },
    RefusedSymbol { symbol: "_exit", api: "std::process::exit" },
    RefusedSymbol { symbol: "getpid", api: "std::process::id" },
    RefusedSymbol { symbol: "socket*", api: "std::net" },
    RefusedSymbol { symbol: "connect", api: "std::net::TcpStream" },
    RefusedSymbol { symbol: "bind", api: "std::net" },
    RefusedSymbol { symbol: "listen", api: "std::net::TcpListener" },
    RefusedSymbol { symbol: "accept4", api: "std::net::TcpListener" },
    RefusedSymbol { symbol: "send*", api: "std::net" },
    RefusedSymbol { symbol: "recv*", api: "std::net" },
    RefusedSymbol { symbol: "setsockopt", api: "std::net" },
    RefusedSymbol { symbol: "getsockopt", api: "std::net" },
    RefusedSymbol { symbol: "getaddrinfo", api: "std::net::ToSocketAddrs" },
    RefusedSymbol { symbol: "freeaddrinfo", api: "std::net::ToSocketAddrs" },
    RefusedSymbol { symbol: "pthread_create", api: "std::thread::spawn" },
    RefusedSymbol { symbol: "pthread_join", api: "std::thread::JoinHandle" },
    RefusedSymbol { symbol: "pthread_attr_*", api: "std::thread::Builder" },
    RefusedSymbol { symbol: "clock_nanosleep", api: "std::thread::sleep" },
    RefusedSymbol { symbol: "nanosleep", api: "std::thread::sleep" },
    RefusedSymbol { symbol: "dlsym", api: "std::thread" },
    RefusedSymbol { symbol: "sched_getaffinity", api: "std::thread::available_parallelism" },
    RefusedSymbol { symbol: "dl_iterate_phdr", api: "std::backtrace" },
    RefusedSymbol { symbol: "_Unwind_Backtrace", api: "std::backtrace" },
    RefusedSymbol { symbol: "opendir", api: "std::fs::read_dir" },
    RefusedSymbol { symbol: "readdir64", api: "std::fs::read_dir" },
    RefusedSymbol { symbol: "openat64", api: "std::fs::remove_dir_all" },
    RefusedSymbol { symbol: "unlink*", api: "std::fs::remove_file" },
    RefusedSymbol { symbol: "rename", api: "std::fs::rename" },
    RefusedSymbol { symbol: "mkdir", api: "std::fs::create_dir" },
    RefusedSymbol { symbol: "rmdir", api: "std::fs::remove_dir" },
    RefusedSymbol { symbol: "fstat64", api: "std::fs" },
    RefusedSymbol { symbol: "stat64", api: "std::fs" },
    RefusedSymbol { symbol: "lseek64", api: "std::fs" },
    RefusedSymbol { symbol: "readlink", api: "std::fs::read_link" },
    RefusedSymbol { symbol: "realpath", api: "std::fs::canonicalize" },
    RefusedSymbol { symbol: "getcwd", api: "std::env::current_dir" },
    RefusedSymbol { symbol: "getenv", api: "std::env::var" },
    RefusedSymbol { symbol: "setenv", api: "std::env::set_var" },
    RefusedSymbol { symbol: "unsetenv", api: "std::env::remove_var" },
    RefusedSymbol { symbol: "environ", api: "std::env::vars" },
    RefusedSymbol { symbol: "chdir", api: "std::env::set_current_dir" },
    RefusedSymbol { symbol: "signal", api: "signals" },
    RefusedSymbol { symbol: "sigaction", api: "signals" },
    RefusedSymbol { symbol: "dlopen", api: "dynamic libraries" },
];

/// The part of std behind a refused symbol.
pub fn api_of(symbol: &str) -> Option<&'static str> {
    let name = symbol.split('@').next().unwrap_or(symbol);
    REFUSED
        .iter()
        .find(|row| row.symbol.strip_suffix('*').map_or(row.symbol == name, |start| name.starts_with(start)))
        .map(|row| row.api)
}
