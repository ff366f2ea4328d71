//! Attributes that a tenant may write: an allowlist, since new ones appear with every compiler.

/// An attribute that may appear.
#[derive(Debug, Clone, Copy)]
pub struct AttributeRow {
    /// Its path as written, without spaces. A last `*` stands for any continuation.
    pub path: &'static str,
    /// Why it is harmless.
    pub why: &'static str,
}

macro_rules! rows {
    ($($why:literal: $($path:literal)+;)*) => {
        /// The allowed attributes.
        pub const ROWS: &[AttributeRow] = &[$($(AttributeRow { path: $path, why: $why }),+),*];
    };
}

rows! {
    "text for people": "doc" "deprecated" "must_use" "diagnostic::on_unimplemented" "diagnostic::do_not_recommend";
    "lint levels; `-F` on the command line cannot be lowered": "allow" "warn" "deny" "forbid" "expect";
    "conditional compilation; what cfg_attr carries is checked as if it stood alone": "cfg" "cfg_attr";
    "generated code is checked in the expansion": "derive" "automatically_derived";
    "helper attributes of derives that the allowlist offers": "default" "serde" "error" "from" "source" "backtrace";
    "hints to the optimiser": "inline" "cold" "track_caller";
    "layout of the tenant's own types": "repr" "non_exhaustive";
    "the tenant's own macros; `macro_export` has no effect on others": "macro_use" "macro_export";
    "test code, which is not compiled": "test" "should_panic" "ignore" "bench";
    "tools that do not run here": "rustfmt::*" "clippy::*";
    "limits of the type checker may not be raised, see recursion_limit; these only lint": "no_implicit_prelude";
}

/// Attributes that hand power to the linker or the compiler: refused with MF0303 or MF0302
/// instead of the general code. The second value says which.
pub const MACHINE_CODE: &[&str] = &["naked", "target_feature", "instruction_set"];

/// Attributes about symbols, sections and libraries.
pub const LINKAGE: &[&str] = &[
    "no_mangle",
    "export_name",
    "link_section",
    "link",
    "link_name",
    "link_ordinal",
    "used",
    "ffi_const",
    "ffi_pure",
    "linkage",
];
