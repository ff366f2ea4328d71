//! The parts of std, core and alloc that a function does not have.
//!
//! Paths are matched from the root on, by the longest row. A module that is not listed is
//! offered; what a module hides behind methods is caught by the link, the inspection and the
//! worker. `core::arch` is absent because its intrinsics are machine code by name.

/// How a path is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathRule {
    /// Offered.
    Offer,
    /// Not offered (MF0307).
    Refuse,
    /// Machine code by name (MF0303).
    MachineCode,
}

/// One row: a path below the root (`std`, `core` or `alloc` are equal here).
#[derive(Debug, Clone, Copy)]
pub struct PathRow {
    /// Segments below the root, joined by `::`.
    pub path: &'static str,
    /// The judgement of it and of everything below without a longer row.
    pub rule: PathRule,
    /// Why; shown to the tenant for refusals.
    pub why: &'static str,
}

macro_rules! rows {
    ($($rule:ident $why:literal: $($path:literal)+;)*) => {
        /// The rows. The longest matching one decides.
        pub const ROWS: &[PathRow] =
            &[$($(PathRow { path: $path, rule: PathRule::$rule, why: $why }),+),*];
    };
}

rows! {
    Refuse "a function has no files: use its request": "fs" "os" "path::absolute";
    Refuse "a function has no environment, command line or directories: put configuration into the request": "env";
    Offer "constants": "env::consts";
    Refuse "a function has no network: addresses can be parsed, not connected to": "net";
    Offer "addresses as values": "net::AddrParseError" "net::IpAddr" "net::Ipv4Addr" "net::Ipv6Addr" "net::SocketAddr"
        "net::SocketAddrV4" "net::SocketAddrV6";
    Refuse "a function has no stdin, terminal or pipes: its input is the request": "io::stdin" "io::Stdin" "io::StdinLock"
        "io::IsTerminal" "io::pipe" "io::PipeReader" "io::PipeWriter";
    Refuse "a function cannot start programs, and ends by returning or by panic": "process";
    Offer "the result of main, as a value": "process::ExitCode" "process::Termination";
    Refuse "a function runs on one thread: do the work in a loop": "thread";
    Offer "thread-locals of the one thread": "thread::LocalKey" "thread::AccessError" "thread::panicking" "thread::Result"
        "thread::ThreadId" "thread::current" "thread::Thread" "thread::yield_now" "thread::available_parallelism" "thread::local_impl";
    Refuse "a panic ends the invocation and cannot be caught: return a Result": "panic::catch_unwind" "panic::set_hook"
        "panic::take_hook" "panic::update_hook" "panic::PanicHookInfo" "panic::PanicInfo" "panic::always_abort"
        "panic::set_backtrace_style" "panic::resume_unwind" "panicking::catch_unwind" "panicking::panic_count";
    Refuse "memory comes from the function's arena: the allocator cannot be replaced": "alloc::System" "alloc::GlobalAlloc"
        "alloc::set_alloc_error_hook" "alloc::take_alloc_error_hook" "alloc::Allocator" "alloc::Global";
    Refuse "a function has no backtraces: they show addresses": "backtrace";
    MachineCode "machine instructions by name are not offered": "arch" "simd" "intrinsics";
    Refuse "internals of the compiler and of std": "prelude::*" "rt" "sys" "sys_common" "os_str_internal";
    Offer "the prelude by its edition": "prelude::v1" "prelude::rust_2015" "prelude::rust_2018" "prelude::rust_2021" "prelude::rust_2024";
}
