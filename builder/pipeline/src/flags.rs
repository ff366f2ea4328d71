//! The flags that make two compilations compatible, and two builds of one source identical.
//!
//! Dependencies and functions are linked together, so both take their code generation from
//! here. Everything that could carry a path, a time or the machine into an artifact is fixed.

/// The edition of every tenant's crate, whatever its manifest says: earlier ones accept plain
/// `extern` blocks and `#[no_mangle]`.
pub(crate) const EDITION: &str = "--edition=2024";

/// Code generation of functions, SDK and shim. Dependencies get the same through cargo's
/// profile (see [`CARGO_PROFILE`]).
pub(crate) const CODE_GENERATION: &[&str] = &[
    "-Cpanic=abort",
    "-Copt-level=3",
    "-Ccodegen-units=1",
    "-Cembed-bitcode=no",
    "-Cdebuginfo=0",
    // With the crate's name this is all that enters symbol names: no path, no time.
    "-Cmetadata=mfaas",
];

/// The lints that are the first line against power in source. `-F` cannot be undone by an
/// attribute. Never `--cap-lints`: it switches these off.
pub(crate) const FORBIDDEN: &[&str] = &["-Funsafe-code", "-Flong-running-const-eval"];

/// The release profile of the dependency build, as cargo's environment; it outranks whatever
/// the seed's manifest says.
pub(crate) const CARGO_PROFILE: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3"),
    ("CARGO_PROFILE_RELEASE_PANIC", "abort"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_INCREMENTAL", "false"),
    ("CARGO_PROFILE_RELEASE_STRIP", "none"),
];

/// Where sources claim to lie, in panic messages and debug names. Inside a full sandbox that is
/// where they are; a weaker one remaps to it.
pub(crate) const SOURCE_PREFIX: &str = "/src";
/// The same for the sources of dependencies.
pub(crate) const CRATES_PREFIX: &str = "/crates";
/// The same for what build scripts generate.
pub(crate) const GENERATED_PREFIX: &str = "/generated";

/// The same for our own crates.
pub(crate) const OWN_PREFIX: &str = "/mfaas";

/// `--remap-path-prefix` from where something lies in the sandbox to where it claims to lie.
pub(crate) fn remap(inside: &str, claimed: &str) -> String {
    format!("--remap-path-prefix={inside}={claimed}")
}
