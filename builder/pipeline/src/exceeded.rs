//! The names of limits, as a refusal tells them: which one, how much, and of what.
//!
//! Limits of the sandbox are `mfaas_rules::limits::COMPILE`'s. The compiler has limits of its own,
//! which its messages do not always name; here they get their names, and the messages stay as
//! they are. Nothing here decides that a limit was exceeded.

use mfaas_audit::rustc_json;
use mfaas_delivery::Diagnostic;
use mfaas_rules::limits::{COMPILER_STACK_BYTES_MAX, CompileLimits};
use mfaas_rules::{Finding, Layer, codes};

/// `cpu_seconds_max`, as a sentence.
pub(crate) fn cpu(limits: &CompileLimits) -> String {
    let seconds = limits.cpu_seconds_max;
    format!("the compiler used more CPU time than `cpu_seconds_max` ({seconds} s) allows")
}

/// `wall_seconds_max`.
pub(crate) fn wall(limits: &CompileLimits) -> String {
    let seconds = limits.wall_seconds_max;
    format!("the compiler ran for longer than `wall_seconds_max` ({seconds} s) allows")
}

/// `memory_bytes_max`.
pub(crate) fn memory(limits: &CompileLimits) -> String {
    let most = bytes(limits.memory_bytes_max);
    format!("the compiler needed more memory than `memory_bytes_max` ({most}) allows")
}

/// `processes_max`.
pub(crate) fn processes(limits: &CompileLimits) -> String {
    let most = limits.processes_max;
    format!("the compiler started more processes than `processes_max` ({most}) allows")
}

/// `output_bytes_max`.
pub(crate) fn output(limits: &CompileLimits) -> String {
    let most = bytes(limits.output_bytes_max);
    format!("the compiler printed more than `output_bytes_max` ({most}) allows")
}

/// `file_bytes_max`.
pub(crate) fn file(limits: &CompileLimits) -> String {
    let most = bytes(limits.file_bytes_max);
    format!("the compiler wrote more than `file_bytes_max` ({most}) allows")
}

/// What the compiler says when its stack was too small. Seen with rustc 1.95.
const STACK_PHRASE: &str = "rustc unexpectedly overflowed its stack";

/// `stack_bytes_max`, where the compiler says in its last words that this is why it died.
pub(crate) fn stack(stderr: &str) -> Option<String> {
    let most = bytes(COMPILER_STACK_BYTES_MAX);
    let text = format!("the compiler's recursion needed more stack than `stack_bytes_max` ({most}) allows");
    stderr.contains(STACK_PHRASE).then_some(text)
}

/// A size in the largest unit that divides it.
fn bytes(size: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| size >= *unit && size.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{size} bytes"), |(unit, name)| format!("{} {name}", size / unit))
}

/// A limit of the compiler itself.
#[derive(Debug, PartialEq, Eq)]
struct CompilerLimit {
    /// As rustc spells it.
    name: &'static str,
    /// How much, with its unit.
    value: &'static str,
    /// Words of rustc's messages about it. All were seen with rustc 1.95.
    phrases: &'static [&'static str],
    /// What to do.
    hint: &'static str,
}

const COMPILER_LIMITS: &[CompilerLimit] = &[
    CompilerLimit {
        name: "recursion_limit",
        value: "128 levels",
        phrases: &[
            "recursion limit reached while",
            "reached the recursion limit",
            "overflow evaluating",
            "overflow assigning",
            "queries overflow the depth limit",
            "reached the configured maximum number of stack frames",
        ],
        hint: "Make the macro, type or constant function shallower; the attribute that raises the limit is not \
               offered.",
    },
    CompilerLimit {
        name: "type_length_limit",
        value: "16,777,216 types",
        phrases: &["reached the type-length limit"],
        hint: "Put a `Box<dyn …>` between the layers of the type.",
    },
    CompilerLimit {
        name: "pattern_complexity_limit",
        value: "10,000,000 steps",
        phrases: &["reached pattern complexity limit"],
        hint: "Split the `match` into several with fewer columns.",
    },
    CompilerLimit {
        name: "long_running_const_eval",
        value: "2,000,000 steps",
        phrases: &["constant evaluation is taking a long time"],
        hint: "Compute it in the handler, or write the result into the source.",
    },
    CompilerLimit {
        name: "obj_size_bound",
        value: "2^61 bytes",
        phrases: &["are too big for the target architecture"],
        hint: "Make the type smaller; the image's own limits are far lower.",
    },
];

/// What the compiler says when a constant does not fit into its memory.
const MEMORY_PHRASE: &str = "tried to allocate more memory than available to compiler";

/// The memory limit, where the compiler itself says that a constant does not fit into it.
pub(crate) fn constant_memory(
    errors: &[rustc_json::Diagnostic],
    limits: &CompileLimits,
) -> Option<Diagnostic> {
    let is_reported = errors.iter().any(|error| contains_phrase(error, MEMORY_PHRASE));
    is_reported.then(|| Diagnostic::from(&Finding::new(codes::MF0404, Layer::Sandbox, memory(limits))))
}

/// A finding for each limit of its own at which the compiler stopped, for the end of the list: its
/// own words come first.
pub(crate) fn compiler_limits(errors: &[rustc_json::Diagnostic]) -> Vec<Diagnostic> {
    let is_reported = |phrase: &&str| errors.iter().any(|error| contains_phrase(error, phrase));
    let reached = COMPILER_LIMITS.iter().filter(|limit| limit.phrases.iter().any(is_reported));
    let finding = |limit: &CompilerLimit| {
        let text = format!("the compiler stopped at its own limit `{}` ({})", limit.name, limit.value);
        Diagnostic::from(&Finding::new(codes::MF0401, Layer::Compiler, text).hint(limit.hint))
    };
    reached.map(finding).collect()
}

/// In its headline, or in a note below it. A tenant can put the words there too; then a finding
/// too many stands beside an error that is there anyway.
fn contains_phrase(error: &rustc_json::Diagnostic, phrase: &str) -> bool {
    error.message.contains(phrase) || error.rendered.contains(phrase)
}

#[cfg(test)]
mod tests;
