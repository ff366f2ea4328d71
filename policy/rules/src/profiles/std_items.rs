//! What a function, or a dependency with granted capabilities, sees of std, core and alloc.
//!
//! One table with two readers: the lexer's rules answer early from it, and the builder generates
//! from it the crates that stand in for the standard library, in which what is not offered cannot
//! be named. A test of the builder compares it with what the pinned std has: every stable item is
//! offered or refused here, with a reason. Macros at a crate's root are in `macros`.

use serde::{Deserialize, Serialize};

/// Which crates have an item. Letters of std, core and alloc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Roots {
    /// std alone.
    S,
    /// core alone.
    C,
    /// core and std.
    CS,
    /// alloc and std.
    AS,
    /// All three.
    CAS,
    /// No stable one: macros and paths that only rules about names know.
    No,
}

/// One of the crates that are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// std.
    Std,
    /// core.
    Core,
    /// alloc.
    Alloc,
}

impl Root {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Std, Self::Core, Self::Alloc];

    /// The name in source.
    pub fn name(self) -> &'static str {
        match self {
            Self::Std => "std",
            Self::Core => "core",
            Self::Alloc => "alloc",
        }
    }
}

impl Roots {
    /// Whether `root` has the item.
    pub fn has(self, root: Root) -> bool {
        match root {
            Root::Std => matches!(self, Self::S | Self::CS | Self::AS | Self::CAS),
            Root::Core => matches!(self, Self::C | Self::CS | Self::CAS),
            Root::Alloc => matches!(self, Self::AS | Self::CAS),
        }
    }
}

/// How an item is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Offered as it is; a module with everything below.
    Offer,
    /// Offered as a type of our own of that name, without the authority.
    Own,
    /// A module that is mostly offered: what it offers has rows of its own.
    Trim,
    /// A module that is mostly refused. The lexer refuses the module and what has no row.
    Close,
    /// Not offered (MF0307).
    Refuse,
    /// Machine code by name: not offered (MF0303).
    MachineCode,
    /// An attribute that the prelude of std brings in, and ours does not.
    Attribute,
    /// No stable part of std, and refused by name all the same.
    Internal,
    /// No stable part of std; std's own macros name it in the caller's crate.
    Emitted,
}

/// What a dependency may be granted beyond what a function has. A function has none of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// To end the process instead of the call (`process::abort`).
    Abort,
    /// To replace or forward the allocator.
    Allocator,
    /// Type and function of backtraces; they stay empty.
    Backtrace,
    /// Files and variables of its own package at build time (`include!`, `env!`).
    BuildInput,
    /// Machine instructions by name.
    MachineCode,
    /// Threads.
    Threads,
    /// To stop a panic, or to look at it.
    Unwind,
    /// The library as it is, without a facade.
    Real,
}

impl Capability {
    /// The name, as a part of an identifier.
    pub fn name(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Allocator => "allocator",
            Self::Backtrace => "backtrace",
            Self::BuildInput => "build_input",
            Self::MachineCode => "machine_code",
            Self::Threads => "threads",
            Self::Unwind => "unwind",
            Self::Real => "real",
        }
    }
}

/// One row: items of one module that are treated alike.
#[derive(Debug, Clone, Copy)]
pub struct ItemRow {
    /// The module below the root, joined by `::`; empty for the root.
    pub module: &'static str,
    /// Which crates have it.
    pub roots: Roots,
    /// The treatment.
    pub treatment: Treatment,
    /// What lifts a refusal, if anything does.
    pub capability: Option<Capability>,
    /// Why; shown to the tenant for refusals.
    pub why: &'static str,
    /// The names.
    pub names: &'static [&'static str],
}

impl ItemRow {
    /// Whether it is a refusal for somebody with these capabilities.
    pub fn refuses(&self, granted: &[Capability]) -> bool {
        matches!(self.treatment, Treatment::Refuse | Treatment::MachineCode)
            && !self.capability.is_some_and(|needed| granted.contains(&needed))
    }
}

/// The row of exactly this item: its path below the root.
pub fn row_of(path: &[String]) -> Option<&'static ItemRow> {
    let (name, module) = path.split_last()?;
    let module = module.join("::");
    ROWS.iter().find(|row| row.module == module && row.names.contains(&name.as_str()))
}

macro_rules! rows {
    ($($module:literal $roots:ident $treatment:ident $([$capability:ident])? $why:literal: $($name:ident)+;)*) => {
        /// The rows. The longest path that has one decides about everything below it.
        pub const ROWS: &[ItemRow] = &[$(ItemRow {
            module: $module,
            roots: Roots::$roots,
            treatment: Treatment::$treatment,
            capability: rows!(@capability $($capability)?),
            why: $why,
            names: &[$(stringify!($name)),+],
        }),*];
    };
    (@capability) => { None };
    (@capability $capability:ident) => { Some(Capability::$capability) };
}

rows! {
    "" CAS Offer "values in memory": borrow fmt slice str sync task;
    "" CS Offer "values in memory": any array ascii cell char clone cmp convert default error future hash hint iter marker mem num ops
        option pin primitive ptr range result;
    "" CS Offer "numbers": f32 f64 i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize;
    "" AS Offer "values on the heap": boxed collections rc string vec;
    "" CAS Trim "memory, without a choice of allocator": alloc;
    "" CAS Trim "text and numbers of C, without functions": ffi;
    "" S Trim "readers and writers over memory, and log lines": io;
    "" CS Trim "panics end the call and carry a message": panic;
    "" S Trim "paths as text": path;
    "" CS Trim "spans of time and a clock": time;
    "" CS Trim "what needs no import, by its edition": prelude;
    "" S Close "a function has no environment, command line or directories: put configuration into the request": env;
    "" CS Close "a function has no network: addresses can be parsed, not connected to": net;
    "" S Close "a function cannot start programs, and ends by returning or by panic": process;
    "" S Close "a function runs on one thread: do the work in a loop": thread;
    "" S Refuse "a function has no files: use its request": fs;
    "" S Close "a function has no operating system of its own: use its request": os;
    "" S Refuse[Backtrace] "a function has no backtraces: they show addresses": backtrace;
    "" CS MachineCode[MachineCode] "machine instructions by name are not offered": arch;
    "" No MachineCode "machine instructions by name are not offered": simd intrinsics;
    "" No Internal "internals of the compiler and of std": rt sys sys_common os_str_internal;

    "alloc" AS Offer "only `unsafe` code can call them": alloc alloc_zeroed dealloc realloc;
    "alloc" AS Offer "ends the call": handle_alloc_error;
    "alloc" CAS Offer "sizes and alignments": Layout LayoutError LayoutErr;
    "alloc" S Refuse[Allocator] "memory comes from the function's arena: the allocator cannot be replaced": System;
    "alloc" CAS Refuse[Allocator] "memory comes from the function's arena: the allocator cannot be replaced": GlobalAlloc;
    "alloc" No Internal "memory comes from the function's arena: the allocator cannot be replaced": set_alloc_error_hook
        take_alloc_error_hook Allocator Global;

    "backtrace" S Own "a backtrace that is always disabled": Backtrace BacktraceStatus;

    "env" S Offer "constants": consts;
    "env" S Refuse "a function has no environment: put configuration into the request": var vars var_os vars_os set_var remove_var Vars
        VarsOs VarError join_paths split_paths JoinPathsError SplitPaths;
    "env" S Refuse "a function has no command line and no directories: put configuration into the request": args args_os Args ArgsOs
        current_dir set_current_dir current_exe home_dir temp_dir;

    "ffi" CS Offer "numbers of C": c_char c_double c_float c_int c_long c_longlong c_schar c_short c_uchar c_uint c_ulong c_ulonglong
        c_ushort c_void;
    "ffi" CAS Offer "text of C": c_str;
    "ffi" CS Offer "text of C": CStr FromBytesUntilNulError FromBytesWithNulError;
    "ffi" AS Offer "text of C": CString FromVecWithNulError IntoStringError NulError;
    "ffi" S Offer "text as the operating system has it, as a value": OsStr OsString os_str;

    "io" S Offer "over memory": copy empty read_to_string repeat sink BufRead BufReader BufWriter Bytes Chain Cursor Empty Error ErrorKind
        IntoInnerError IoSlice IoSliceMut LineWriter Lines Read Repeat Result Seek SeekFrom Sink Split Take Write WriterPanicked prelude;
    "io" S Offer "becomes log lines; what makes a descriptor of them cannot be named": stdout stderr Stdout Stderr StdoutLock StderrLock;
    "io" S Refuse "a function has no stdin: its input is the request": stdin Stdin StdinLock;
    "io" S Refuse "a function has no terminal": IsTerminal;
    "io" S Refuse "a function has no pipes": pipe PipeReader PipeWriter;

    "net" CS Offer "addresses as values": AddrParseError IpAddr Ipv4Addr Ipv6Addr SocketAddr SocketAddrV4 SocketAddrV6;
    "net" S Refuse "a function has no network: addresses can be parsed, not connected to": TcpStream TcpListener UdpSocket Incoming
        Shutdown ToSocketAddrs;

    "os" S Offer "numbers of C": raw;
    "os" S Close "a function has no operating system of its own: use its request": unix;
    "os" S Refuse "a function has no operating system of its own: use its request": fd linux;
    "os::unix" S Offer "text of the operating system as bytes": ffi;
    "os::unix" S Refuse "a function has no operating system of its own: use its request": fs io net prelude process raw thread;

    "panic" CS Offer "values; nothing is caught": AssertUnwindSafe Location RefUnwindSafe UnwindSafe;
    "panic" S Offer "ends the call": panic_any;
    "panic" S Refuse[Unwind] "a panic ends the invocation and cannot be caught: return a Result": catch_unwind resume_unwind;
    "panic" S Refuse[Unwind] "a panic ends the invocation; its message goes to the log by itself": set_hook take_hook PanicHookInfo;
    "panic" CS Refuse[Unwind] "a panic ends the invocation; its message goes to the log by itself": PanicInfo;
    "panic" C Refuse[Unwind] "a panic ends the invocation; its message goes to the log by itself": PanicMessage;
    "panic" No Internal "a panic ends the invocation; its message goes to the log by itself": update_hook always_abort
        set_backtrace_style;
    "panicking" No Internal "a panic ends the invocation and cannot be caught: return a Result": catch_unwind panic_count;

    "path" S Own "paths as text: there are no files to ask about": Ancestors Component Components Display Iter Path PathBuf
        StripPrefixError;
    "path" S Offer "constants and questions about a character": MAIN_SEPARATOR MAIN_SEPARATOR_STR is_separator;
    "path" S Offer "parts of paths of another system; never made here": Prefix PrefixComponent;
    "path" S Refuse "a function has no files and no current directory: use its request": absolute;

    "prelude" CS Offer "the prelude by its edition": rust_2015 rust_2018 rust_2021 rust_2024 v1;
    "prelude::v1" CS Offer "names that need no path": align_of align_of_val derive drop size_of size_of_val test AsMut AsRef AsyncFn
        AsyncFnMut AsyncFnOnce Clone Copy Debug Default DoubleEndedIterator Drop Eq Err ExactSizeIterator Extend Fn FnMut FnOnce From
        Hash Into IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd Result Send Sized Some Sync Unpin;
    "prelude::v1" S Offer "names that need no path": Box String ToOwned ToString Vec;
    "prelude::v1" CS Attribute "memory comes from the function's arena: the allocator cannot be replaced": global_allocator;
    "prelude::rust_2021" CS Offer "names that need no path": FromIterator TryFrom TryInto;
    "prelude::rust_2024" CS Offer "names that need no path": Future IntoFuture;

    "process" S Offer "the result of main, as a value": ExitCode Termination;
    "process" S Refuse[Abort] "a function ends by returning or by panic": abort;
    "process" S Refuse "a function ends by returning or by panic": exit;
    "process" S Refuse "a function cannot start programs": Command CommandArgs CommandEnvs Child ChildStdin ChildStdout ChildStderr
        Output Stdio ExitStatus;
    "process" S Refuse "a function has no process of its own": id;

    "thread" S Offer "thread-locals of the one thread": AccessError LocalKey panicking;
    "thread" S Offer "the result of a thread, as a type": Result;
    "thread" S Own "the one thread there is": Thread ThreadId available_parallelism current yield_now;
    "thread" No Emitted "thread_local! names it": local_impl;
    "thread" S Refuse[Threads] "a function runs on one thread: do the work in a loop": spawn scope Builder JoinHandle Scope
        ScopedJoinHandle;
    "thread" S Refuse[Threads] "a function cannot wait: its budget is run time": sleep sleep_ms park park_timeout park_timeout_ms;

    "time" CS Offer "spans of time": Duration TryFromFloatSecsError;
    "time" S Offer "the clock of the host": Instant SystemTime SystemTimeError UNIX_EPOCH;
}

/// Crates of the compiler that a manifest cannot name and a source could: what is in them, so that
/// the refusal can be told at the tenant's line.
pub const COMPILER_CRATES: &[(&str, &[&str])] = &[
    (
        "proc_macro",
        &[
            "Delimiter",
            "Group",
            "Ident",
            "LexError",
            "Literal",
            "Punct",
            "Spacing",
            "Span",
            "TokenStream",
            "TokenTree",
        ],
    ),
    ("test", &["Bencher", "black_box"]),
];

/// Why they are not offered.
pub const COMPILER_CRATES_WHY: &str = "a crate of the compiler: functions are not part of it";
