//! The keys of Cargo.toml that a tenant may write. Everything else is refused, known to cargo or not.

/// A key path that may appear. A segment `*` stands for any one segment.
#[derive(Debug, Clone, Copy)]
pub struct KeyRow {
    /// The path, segment by segment.
    pub path: &'static [&'static str],
    /// Why it is harmless.
    pub why: &'static str,
}

macro_rules! rows {
    ($($why:literal: $([$($segment:literal),+])+;)*) => {
        /// The allowed keys.
        pub const ROWS: &[KeyRow] = &[$($(KeyRow { path: &[$($segment),+], why: $why }),+),*];
    };
}

rows! {
    "the table itself": ["package"] ["package", "metadata"] ["package", "metadata", "mfaas"] ["dependencies"] ["features"] ["lib"];
    "names the function": ["package", "name"];
    "description for people; the server writes its own manifest": ["package", "version"] ["package", "authors"]
        ["package", "description"] ["package", "license"] ["package", "repository"] ["package", "homepage"]
        ["package", "documentation"] ["package", "readme"] ["package", "keywords"] ["package", "categories"]
        ["package", "publish"] ["package", "exclude"] ["package", "include"] ["package", "rust-version"];
    "overwritten: the server compiles edition 2024": ["package", "edition"];
    "a library is what a function is; its path is fixed": ["lib", "name"] ["lib", "doctest"] ["lib", "test"] ["lib", "bench"] ["lib", "doc"];
    "a list of names, which nobody switches on": ["features", "*"];
    "how the function runs": ["package", "metadata", "mfaas", "handler"] ["package", "metadata", "mfaas", "budget"]
        ["package", "metadata", "mfaas", "memory"];
    "a promise about its calls, kept by nobody but their owner: it allows a node to run a lost one again": ["package", "metadata", "mfaas", "idempotent"];
    "which kind of calls it has, and so which bounds its budget and memory have": ["package", "metadata", "mfaas", "class"];
    "asks for more isolation than others have, never for less": ["package", "metadata", "mfaas", "isolation"];
    "who may call the function, of which its owner alone decides": ["package", "metadata", "mfaas", "access"] ["package", "metadata", "mfaas", "callers"];
    "what the function may reach: data that the site has to grant, and functions, those of other tenants if they let its tenant in": ["package", "metadata", "mfaas", "bindings"]
        ["package", "metadata", "mfaas", "bindings", "*"] ["package", "metadata", "mfaas", "bindings", "*", "kind"]
        ["package", "metadata", "mfaas", "bindings", "*", "resource"] ["package", "metadata", "mfaas", "bindings", "*", "access"]
        ["package", "metadata", "mfaas", "bindings", "*", "function"];
    "a dependency from the registry": ["dependencies", "*"] ["dependencies", "*", "version"] ["dependencies", "*", "features"]
        ["dependencies", "*", "default-features"] ["dependencies", "*", "package"];
}

/// Crate names that the compiler, the judgement of paths and the generated entry give a meaning.
pub const RESERVED_CRATE_NAMES: &[&str] = &[
    "std",
    "core",
    "alloc",
    "proc_macro",
    "test",
    "function",
    "mfaas",
    "mfaas_abi",
    "mfaas_entry",
    "mfaas_shim",
];

/// Functions named so, or with this before a `-`, would pass for crates of ours: in a list, a log, a URL.
pub const RESERVED_FUNCTION_NAME: &str = "mfaas";

/// Keys with a code of their own, so that the answer says more than "not allowed".
pub const BUILD_SCRIPT_KEYS: &[&[&str]] =
    &[&["package", "build"], &["package", "links"], &["build-dependencies"]];
