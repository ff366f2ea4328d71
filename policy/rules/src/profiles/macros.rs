//! Macros that a tenant may call by name. Its own macros and those of allowed crates pass here
//! and are checked in the expansion.

use super::std_items::{Capability, Roots};

/// A macro of std with a special judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MacroRule {
    /// Nothing to say against it.
    Allow,
    /// Takes in files or variables of the build machine (MF0304).
    BuildInput,
    /// Machine code (MF0303).
    MachineCode,
    /// Not offered for another reason (MF0306).
    Refuse,
}

/// One macro of std.
#[derive(Debug, Clone, Copy)]
pub struct MacroRow {
    /// The last segment of its path.
    pub name: &'static str,
    /// Which crates have it at their root, if stable ones do.
    pub roots: Roots,
    /// The judgement.
    pub rule: MacroRule,
    /// Why.
    pub why: &'static str,
}

macro_rules! rows {
    ($($rule:ident $why:literal: $($roots:ident: $($name:ident)+),+;)*) => {
        /// Every macro of std 1.95, stable or not, with its judgement.
        pub const ROWS: &[MacroRow] = &[$($($(
            MacroRow { name: rows!(@name $name), roots: Roots::$roots, rule: MacroRule::$rule, why: $why }
        ),+),+),*];
    };
    (@name r#try) => { "try" };
    (@name $name:ident) => { stringify!($name) };
}

rows! {
    Allow "checks and ends the invocation":
        CS: assert assert_eq assert_ne debug_assert debug_assert_eq debug_assert_ne panic todo unimplemented unreachable,
        No: assert_matches debug_assert_matches;
    Allow "formats text": AS: format, CS: format_args write writeln concat stringify;
    Allow "becomes a log line": S: print println eprint eprintln dbg;
    Allow "builds values": AS: vec, CS: matches cfg cfg_select, S: thread_local, No: ready pin join;
    Allow "positions in the tenant's own source, remapped": CS: line column file module_path;
    Allow "ends the compilation": CS: compile_error;
    BuildInput "reads files of the build machine": CS: include include_str include_bytes;
    BuildInput "reads variables of the build machine": CS: env option_env;
    MachineCode "machine code": S: is_x86_feature_detected, No: asm global_asm naked_asm llvm_asm;
    Refuse "internals of the compiler":
        No: concat_bytes concat_idents log_syntax trace_macros format_args_nl const_format_args unsafe_binder
            unwrap_unsafe_binder wrap_unsafe_binder;
    Allow "layout of the tenant's own types": No: offset_of addr_of;
    Allow "the tenant's own macros": No: macro_rules;
    Allow "old spelling of the question mark": CS: r#try;
}

impl MacroRow {
    /// What lifts a refusal for a dependency.
    pub fn capability(&self) -> Option<Capability> {
        match self.rule {
            MacroRule::BuildInput => Some(Capability::BuildInput),
            MacroRule::MachineCode => Some(Capability::MachineCode),
            MacroRule::Allow | MacroRule::Refuse => None,
        }
    }
}

/// A macro of std whose expansion contains `unsafe` that std's authors have audited: tokens of
/// the caller inside do not gain power.
#[derive(Debug, Clone, Copy)]
pub struct AuditedRow {
    /// The macro's name as rustc prints it in an expansion chain; the last segment decides.
    pub name: &'static str,
    /// `Bang`, `Attr` or `Derive`.
    pub kind: &'static str,
    /// Why the caller's tokens inside are harmless.
    pub why: &'static str,
}

/// Macros of std that may emit `unsafe`.
pub const AUDITED: &[AuditedRow] = &[
    AuditedRow {
        name: "thread_local",
        kind: "Bang",
        why: "the caller's type is in type position; its initialiser is in a safe function outside",
    },
    AuditedRow {
        name: "derive",
        kind: "Attr",
        why: "only calls the derives, which are judged by their own rows",
    },
    AuditedRow {
        name: "Clone",
        kind: "Derive",
        why: "`unsafe impl TrivialClone` with the caller's type in type position",
    },
    AuditedRow {
        name: "Copy",
        kind: "Derive",
        why: "`unsafe impl TrivialClone` with the caller's type in type position",
    },
    AuditedRow {
        name: "PartialEq",
        kind: "Derive",
        why: "an arm that cannot be reached, between variants that were found equal; no token of the caller inside",
    },
    AuditedRow { name: "PartialOrd", kind: "Derive", why: "an arm that cannot be reached, as in PartialEq" },
    AuditedRow { name: "Ord", kind: "Derive", why: "an arm that cannot be reached, as in PartialEq" },
    AuditedRow {
        name: "pin",
        kind: "Bang",
        why: "the caller's expression is bound by `super let` outside the block",
    },
];
