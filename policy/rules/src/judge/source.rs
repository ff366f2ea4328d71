//! The tenant's source, token by token.

use crate::{
    Code, Finding, Layer, Span, codes,
    facts::{SourceFact, SourceFacts},
    limits,
    profiles::{
        attributes,
        macros::{self, MacroRule},
        std_items::{self, ItemRow, Treatment},
    },
};

/// Refusals of the tenant's source; empty = nothing to say against it.
pub fn judge_source(source: &SourceFacts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = source
        .facts
        .iter()
        .filter_map(|(fact, span)| {
            let (code, message) = judge_fact(fact, &source.own_macros)?;
            Some(Finding::new(code, Layer::Lexer, message).at(span.clone()))
        })
        .collect();
    findings.extend(judge_totals(source));
    findings
}

fn judge_totals(source: &SourceFacts) -> Option<Finding> {
    let limits = limits::LEXER;
    let message = if source.bytes > limits.total_bytes_max {
        format!(
            "the source has {} bytes; `total_bytes_max` ({}) allows no more",
            source.bytes, limits.total_bytes_max
        )
    } else if source.tokens > limits.tokens_max {
        format!(
            "the source has {} tokens; `tokens_max` ({}) allows no more",
            source.tokens, limits.tokens_max
        )
    } else {
        return None;
    };
    Some(Finding::new(codes::MF0309, Layer::Lexer, message))
}

fn judge_fact(fact: &SourceFact, own_macros: &[String]) -> Option<(Code, String)> {
    Some(match fact {
        SourceFact::Unsafe => (codes::MF0301, "`unsafe` is not allowed".to_owned()),
        SourceFact::StaticMut => (codes::MF0301, "`static mut` can only be used with `unsafe`".to_owned()),
        SourceFact::ExternBlock => (codes::MF0302, "an `extern` block names foreign functions".to_owned()),
        SourceFact::ExternFn => (codes::MF0302, "`extern fn` makes or names a foreign function".to_owned()),
        SourceFact::ExternCrate { name, alias } => return judge_extern_crate(name, alias.as_deref()),
        SourceFact::Attribute { path, in_unsafe, inner, tokens } => {
            return judge_attribute(path, *in_unsafe, *inner, tokens);
        }
        SourceFact::MacroCall(path) => return judge_macro(path, own_macros),
        SourceFact::Derive(_) => return None,
        SourceFact::MacroItem(name) => (codes::MF0306, format!("`macro {name}` is not stable Rust")),
        SourceFact::StdPath(path) => return judge_std_path(path),
        SourceFact::Measure { what, value } => return judge_measure(what, *value),
        SourceFact::Unreadable(reason) => (codes::MF0310, format!("not readable as Rust: {reason}")),
    })
}

fn judge_extern_crate(name: &str, alias: Option<&str>) -> Option<(Code, String)> {
    // What a macro's fragments become is not known here, and no benign program needs them here.
    if name.is_empty() || alias == Some("") {
        return Some((codes::MF0313, "`extern crate` must spell out the crate and its name".to_owned()));
    }
    match (name, alias) {
        ("alloc" | "core" | "std", None) => None,
        ("alloc" | "core" | "std", Some(alias)) if alias == name || alias == "_" => None,
        ("alloc" | "core" | "std", Some(alias)) => {
            Some((codes::MF0313, format!("`{name}` is renamed to `{alias}`")))
        }
        ("proc_macro" | "test", _) => {
            Some((codes::MF0307, format!("crate `{name}` belongs to the compiler and is not offered")))
        }
        (_, Some(root @ ("alloc" | "core" | "std"))) => {
            Some((codes::MF0313, format!("crate `{name}` is renamed to `{root}`")))
        }
        // Any other crate is a dependency, or does not exist: rustc says so.
        _ => None,
    }
}

fn judge_attribute(path: &str, in_unsafe: bool, inner: bool, tokens: &str) -> Option<(Code, String)> {
    // `#[$meta]` in a macro of the tenant: what it becomes is judged in the expansion.
    if path.starts_with('$') {
        return None;
    }
    let last = path.rsplit("::").next().unwrap_or(path);
    if attributes::MACHINE_CODE.contains(&last) {
        return Some((codes::MF0303, format!("attribute `{path}` makes machine code of a function's text")));
    }
    if attributes::LINKAGE.contains(&last) {
        return Some((codes::MF0302, format!("attribute `{path}` gives power over symbols and sections")));
    }
    if in_unsafe {
        return Some((codes::MF0301, format!("attribute `{path}` is written inside `unsafe(…)`")));
    }
    // `#![allow(unsafe_code)]` would be an error of rustc (E0453 under -F); say it in our words.
    if matches!(path, "allow" | "warn" | "expect") && tokens.contains("unsafe_code") {
        return Some((codes::MF0301, format!("`{path}(unsafe_code)` is not allowed")));
    }
    if inner && path == "cfg" {
        return None;
    }
    let allowed = attributes::ROWS
        .iter()
        .any(|row| row.path.strip_suffix('*').map_or(row.path == path, |start| path.starts_with(start)));
    (!allowed).then(|| (codes::MF0305, format!("attribute `{path}` is not on the allowlist")))
}

fn judge_macro(path: &str, own_macros: &[String]) -> Option<(Code, String)> {
    let name = path.rsplit("::").next().unwrap_or(path);
    // A tenant's own `include!` would shadow std's in its own crate, but a judgement by name
    // must not depend on how scopes resolve: the refused names are refused whoever defines them.
    let row = macros::ROWS.iter().find(|row| row.name == name);
    match row.map(|row| row.rule) {
        Some(MacroRule::Allow) => None,
        Some(MacroRule::BuildInput) => {
            Some((codes::MF0304, format!("`{path}!` takes in files or variables of the build machine")))
        }
        Some(MacroRule::MachineCode) => Some((codes::MF0303, format!("`{path}!` is machine code"))),
        Some(MacroRule::Refuse) => Some((codes::MF0306, format!("`{path}!` belongs to the compiler"))),
        // The tenant's own, or one of a dependency: its expansion is checked.
        None if own_macros.iter().any(|own| own == name) => None,
        None => None,
    }
}

/// The judgement of a path below `std`, `core` or `alloc`, the root included.
pub(super) fn judge_std_path(path: &[String]) -> Option<(Code, String)> {
    let (root, below) = path.split_first()?;
    let shown = path.join("::");
    if below.is_empty() || below == ["*"] || below == ["self"] {
        return Some((
            codes::MF0313,
            format!("`{shown}`: name what you use of `{root}` instead of its root"),
        ));
    }
    if let [.., last] = below
        && let Some(row) = macros::ROWS.iter().find(|row| row.name == last.as_str())
    {
        // `use std::include_str as x;` gives a refused macro another name.
        match row.rule {
            MacroRule::Allow => {}
            MacroRule::BuildInput => {
                return Some((codes::MF0304, format!("`{shown}` takes in files of the build machine")));
            }
            MacroRule::MachineCode => return Some((codes::MF0303, format!("`{shown}` is machine code"))),
            MacroRule::Refuse if below.len() == 1 => {
                return Some((codes::MF0306, format!("`{shown}` belongs to the compiler")));
            }
            MacroRule::Refuse => {}
        }
    }
    let row = deciding_row(below)?;
    // A module that is mostly refused is refused as a whole, and so is what the table does not name.
    match row.treatment {
        Treatment::Refuse | Treatment::Close | Treatment::Internal | Treatment::Attribute => {
            Some((codes::MF0307, format!("`{shown}`: {}", row.why)))
        }
        Treatment::MachineCode => Some((codes::MF0303, format!("`{shown}`: {}", row.why))),
        Treatment::Offer | Treatment::Own | Treatment::Trim | Treatment::Emitted => {
            refused_by_glob(below, &shown)
        }
    }
}

/// The row that decides: of a refused module, its own, whatever it holds for others; else that of
/// the longest beginning of `below` that has one. Names without any are left to the compiler: no
/// stable std has them.
fn deciding_row(below: &[String]) -> Option<&'static ItemRow> {
    let rows = || (1..=below.len()).filter_map(|length| std_items::row_of(&below[..length]));
    rows().find(|row| row.refuses(&[])).or_else(|| rows().next_back())
}

/// `use std::io::*` brings in `stdin` without naming it.
fn refused_by_glob(below: &[String], shown: &str) -> Option<(Code, String)> {
    let [module @ .., last] = below else { return None };
    if last != "*" {
        return None;
    }
    let module = module.join("::");
    let hidden = std_items::ROWS.iter().find(|row| row.module == module && row.refuses(&[]))?;
    let name = hidden.names.first()?;
    Some((codes::MF0307, format!("`{shown}` would bring in `{module}::{name}`: name what you use")))
}

fn judge_measure(what: &str, value: usize) -> Option<(Code, String)> {
    let limits = limits::LEXER;
    let max = match what {
        "file_bytes_max" => limits.file_bytes_max,
        "total_bytes_max" => limits.total_bytes_max,
        "tokens_max" => limits.tokens_max,
        "nesting_max" => limits.nesting_max,
        "operator_chain_max" => limits.operator_chain_max,
        "expression_depth_max" => limits.expression_depth_max,
        "literal_bytes_max" => limits.literal_bytes_max,
        "identifier_bytes_max" => limits.identifier_bytes_max,
        // A measure without a limit is a mistake of ours; refusing shows it.
        _ => 0,
    };
    (value > max).then(|| (codes::MF0309, format!("{what}: {value} where at most {max} is compiled")))
}

/// Turns a path fact of the expansion into a finding of its layer.
pub(super) fn std_path_finding(path: &[String], layer: Layer, span: Option<Span>) -> Option<Finding> {
    let (code, message) = judge_std_path(path)?;
    Some(Finding::new(code, layer, message).at_opt(span))
}
