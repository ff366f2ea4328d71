//! What the rules about crates know, as rows: permitted licences, classes of interfaces, and how far
//! we trust those whose audits are imported.

use crate::crate_facts::ApiClass;

/// A licence that a crate may have to be admitted by itself.
#[derive(Debug, Clone, Copy)]
pub struct LicenceRow {
    /// The SPDX identifier.
    pub id: &'static str,
    /// Why it is permitted.
    pub why: &'static str,
}

macro_rules! licences {
    ($(#[$doc:meta])* $name:ident: $($why:literal: $($id:literal)+;)*) => {
        $(#[$doc])*
        pub const $name: &[LicenceRow] = &[$($(LicenceRow { id: $id, why: $why }),+),*];
    };
}

licences! {
    /// Permitted licences. Those that ask for source, or for a licence of the whole, are a person's
    /// question; so is every licence that is not here.
    LICENCES:
    "permissive, asks for its notice": "MIT" "ISC" "BSD-2-Clause" "BSD-3-Clause" "Zlib" "BSL-1.0" "NCSA";
    "permissive, asks for its notice, grants patents": "Apache-2.0";
    "permissive, asks for nothing": "0BSD" "MIT-0" "Unlicense" "CC0-1.0";
    "permissive, for tables of the Unicode consortium": "Unicode-3.0" "Unicode-DFS-2016";
}

licences! {
    /// Exceptions that may stand behind `WITH`: each only gives more than its licence.
    EXCEPTIONS:
    "lifts a condition on compiled code": "LLVM-exception";
}

/// What touching a class means for an admission without a person.
#[derive(Debug, Clone, Copy)]
pub struct ApiRow {
    /// The class.
    pub class: ApiClass,
    /// A person has to look.
    pub needs_person: bool,
    /// Why, or why not.
    pub why: &'static str,
}

/// Every class once.
pub const API: &[ApiRow] = &[
    ApiRow { class: ApiClass::Fs, needs_person: true, why: "a file is an ambient capability" },
    ApiRow { class: ApiClass::Net, needs_person: true, why: "a socket is an ambient capability" },
    ApiRow { class: ApiClass::Process, needs_person: true, why: "a process is an ambient capability" },
    ApiRow { class: ApiClass::Env, needs_person: true, why: "the environment is an ambient capability" },
    ApiRow { class: ApiClass::Stdio, needs_person: true, why: "it speaks in the name of its caller" },
    ApiRow { class: ApiClass::Thread, needs_person: true, why: "no call may leave a thread behind" },
    ApiRow { class: ApiClass::Time, needs_person: false, why: "the host offers a clock to every function" },
    ApiRow { class: ApiClass::GlobalState, needs_person: false, why: "no state survives a call" },
];

/// What a path below a root of std (`std`, `core`, `alloc`) reaches. The longest row that fits decides;
/// `*` stands for one segment.
#[derive(Debug, Clone, Copy)]
pub struct ApiPathRow {
    /// Segments behind the root.
    pub path: &'static [&'static str],
    /// The class; none for what is pure below a path that is not.
    pub class: Option<ApiClass>,
}

macro_rules! paths {
    ($($class:ident: $($($segment:literal)::+),+;)*) => {
        /// The paths.
        pub const API_PATHS: &[ApiPathRow] =
            &[$($(ApiPathRow { path: &[$($segment),+], class: paths!(@class $class) }),+),*];
    };
    (@class Pure) => { None };
    (@class $class:ident) => { Some(ApiClass::$class) };
}

paths! {
    Fs: "fs", "os"::"*"::"fs", "os"::"*"::"io", "os"::"fd";
    Net: "net", "os"::"*"::"net";
    Pure: "net"::"IpAddr", "net"::"Ipv4Addr", "net"::"Ipv6Addr", "net"::"SocketAddr", "net"::"SocketAddrV4",
        "net"::"SocketAddrV6", "net"::"AddrParseError", "net"::"Ipv6MulticastScope";
    Process: "process", "os"::"*"::"process", "os"::"*";
    Pure: "os"::"raw", "os"::"*"::"ffi", "os"::"*"::"raw";
    Env: "env", "backtrace";
    Pure: "env"::"consts";
    Stdio: "io"::"stdin", "io"::"stdout", "io"::"stderr", "io"::"Stdin", "io"::"StdinLock", "io"::"Stdout",
        "io"::"StdoutLock", "io"::"Stderr", "io"::"StderrLock", "io"::"IsTerminal", "io"::"read_to_string";
    Thread: "thread", "os"::"*"::"thread";
    Time: "time";
    Pure: "time"::"Duration", "time"::"SystemTimeError", "time"::"TryFromFloatSecsError";
    GlobalState: "thread"::"LocalKey", "thread"::"AccessError", "panic"::"set_hook", "panic"::"take_hook",
        "panic"::"update_hook", "alloc"::"set_alloc_error_hook", "alloc"::"take_alloc_error_hook";
}

/// Macros of std that reach a class by their name alone.
pub const API_MACROS: &[(&str, ApiClass)] = &[
    ("print", ApiClass::Stdio),
    ("println", ApiClass::Stdio),
    ("eprint", ApiClass::Stdio),
    ("eprintln", ApiClass::Stdio),
    ("dbg", ApiClass::Stdio),
    ("thread_local", ApiClass::GlobalState),
];

/// Methods of `std::path::Path` that ask the file system; they count where a crate names `std::path`.
pub const PATH_METHODS: &[&str] = &[
    "canonicalize",
    "exists",
    "is_dir",
    "is_file",
    "is_symlink",
    "metadata",
    "read_dir",
    "read_link",
    "symlink_metadata",
    "try_exists",
];

/// Types whose value changes behind a shared reference: a `static` of such a type keeps state.
pub const SHARED_CELLS: &[&str] = &[
    "Cell",
    "LazyCell",
    "LazyLock",
    "Mutex",
    "Once",
    "OnceCell",
    "OnceLock",
    "RefCell",
    "RwLock",
    "UnsafeCell",
];

/// How far we trust a source of audits. No trust is enough to admit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Nobody here has looked at how they work.
    Unknown,
    /// Careful people with another question than ours.
    Careful,
}

/// A source of audits.
#[derive(Debug, Clone, Copy)]
pub struct AuditSourceRow {
    /// Its name in [`crate::crate_facts::ImportedAudit::source`].
    pub source: &'static str,
    /// Our trust.
    pub trust: Trust,
    /// Why.
    pub why: &'static str,
}

/// The sources that we know. All others are [`Trust::Unknown`].
pub const AUDIT_SOURCES: &[AuditSourceRow] = &[
    AuditSourceRow {
        source: "mozilla",
        trust: Trust::Careful,
        why: "asks whether a browser may run it on hostile input, with a benign caller",
    },
    AuditSourceRow {
        source: "google",
        trust: Trust::Careful,
        why: "grades unsafe code (ub-risk), with callers that keep to the documentation",
    },
    AuditSourceRow {
        source: "bytecode-alliance",
        trust: Trust::Careful,
        why: "asks whether a runtime may depend on it, with a benign caller",
    },
    AuditSourceRow {
        source: "bytecodealliance",
        trust: Trust::Careful,
        why: "the same people, as lists of imports spell them",
    },
];
