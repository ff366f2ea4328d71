//! The macro-expanded source, and the list of what the compiler read.

use crate::{
    Finding, Layer, codes,
    facts::{DepInfoFacts, ExpansionFact, ExpansionFacts, MacroOrigin, PrivilegedKind},
    judge::source::std_path_finding,
    profiles::macros::AUDITED,
};

/// Refusals of the expansion; empty = nothing to say against it.
pub fn judge_expansion(expansion: &ExpansionFacts) -> Vec<Finding> {
    if let Some(reason) = &expansion.unreadable {
        return vec![Finding::new(
            codes::MF0312,
            Layer::Expansion,
            format!("the expanded source was not understood: {reason}"),
        )];
    }
    expansion.facts.iter().filter_map(judge_fact).collect()
}

fn judge_fact(fact: &ExpansionFact) -> Option<Finding> {
    match fact {
        ExpansionFact::TenantStdPath { path, span } => std_path_finding(path, Layer::Expansion, span.clone()),
        ExpansionFact::Privileged { kind, chain, by_std, tenant_tokens, type_tokens: _, span } => {
            let message = judge_privileged(*kind, chain, *by_std, tenant_tokens)?;
            Some(Finding::new(codes::MF0308, Layer::Expansion, message).at_opt(span.clone()))
        }
    }
}

fn judge_privileged(
    kind: PrivilegedKind,
    chain: &[MacroOrigin],
    by_std: bool,
    tenant_tokens: &[String],
) -> Option<String> {
    let Some(outermost) = chain.iter().find(|origin| !origin.own) else {
        // Nothing in the region but the tenant's own tokens: some macro put them there, since the
        // lexer has seen every word that the tenant wrote.
        return Some(format!(
            "a macro puts your code inside {}: {}",
            describe(kind),
            tenant_tokens.join(" ")
        ));
    };
    let unaudited =
        |origin: &&MacroOrigin| !origin.own && !origin.name.starts_with("$crate::") && !has_row(origin);
    let emitter = chain.iter().find(unaudited).unwrap_or(outermost);
    if !(by_std && (is_audited(chain) || is_emitted_by_derive(kind, chain))) {
        // Even without a token of the tenant inside: `unsafe { zeroed() }` in an impl for the
        // tenant's type holds none, and gives the tenant's type what it may not have.
        return Some(format!(
            "macro `{}` emits {} into your crate and is not audited for hostile callers",
            emitter.name,
            describe(kind)
        ));
    }
    match kind {
        // The types that an audited macro is told about may stand inside, expressions may not.
        PrivilegedKind::Block | PrivilegedKind::Impl | PrivilegedKind::Fn | PrivilegedKind::Trait => {
            (!tenant_tokens.is_empty()).then(|| {
                format!(
                    "macro `{}` puts your code inside {}: {}",
                    emitter.name,
                    describe(kind),
                    tenant_tokens.join(" ")
                )
            })
        }
        PrivilegedKind::ExternBlock
        | PrivilegedKind::Attribute
        | PrivilegedKind::Assembly
        | PrivilegedKind::StaticMut => {
            Some(format!("macro `{}` emits {} into your crate", emitter.name, describe(kind)))
        }
    }
}

/// Whether std's authors answer for the whole chain. The tenant's own macros may stand anywhere
/// in it (they cannot contain the word `unsafe`, the lexer saw to that); every other step must be
/// audited, or be called by an audited one through `$crate`.
fn is_audited(chain: &[MacroOrigin]) -> bool {
    let mut foreign = chain.iter().filter(|origin| !origin.own);
    foreign.next().is_some_and(has_row)
        && foreign.all(|origin| origin.name.starts_with("$crate::") || has_row(origin))
}

/// Whether one of std's derives emitted the region for a type that a macro of a dependency emitted.
/// A derive's output is items of its own behind the type, which nothing is wrapped around; so where
/// every identifier of the region but the type's is the derive's, the `unsafe` is too, whoever
/// wrote `#[derive(Clone)]`. A path through `$crate` would lead into the dependency.
fn is_emitted_by_derive(kind: PrivilegedKind, chain: &[MacroOrigin]) -> bool {
    matches!(kind, PrivilegedKind::Impl | PrivilegedKind::Block)
        && chain.last().is_some_and(|origin| {
            origin.kind == "Derive" && !origin.own && !origin.name.contains('$') && has_row(origin)
        })
}

fn has_row(origin: &MacroOrigin) -> bool {
    let last = origin.name.rsplit("::").next().unwrap_or(&origin.name);
    !origin.borrowed && AUDITED.iter().any(|row| row.name == last && row.kind == origin.kind)
}

fn describe(kind: PrivilegedKind) -> &'static str {
    match kind {
        PrivilegedKind::Block => "an `unsafe` block",
        PrivilegedKind::Fn => "an `unsafe fn`",
        PrivilegedKind::Impl => "an `unsafe impl`",
        PrivilegedKind::Trait => "an `unsafe trait`",
        PrivilegedKind::ExternBlock => "an `extern` block",
        PrivilegedKind::Attribute => "an attribute with power over symbols and code",
        PrivilegedKind::Assembly => "machine code",
        PrivilegedKind::StaticMut => "a `static mut`",
    }
}

/// Refusals of what the compiler read: every file must be an `.rs` file under `source_root`, since
/// the lexer saw no others, or lie under one of the `library_roots`; and no variable may have been
/// read.
pub fn judge_dep_info(facts: &DepInfoFacts, source_root: &str, library_roots: &[&str]) -> Vec<Finding> {
    if let Some(reason) = &facts.unreadable {
        return vec![Finding::new(
            codes::MF0311,
            Layer::DepInfo,
            format!("the compiler's list of files was not understood: {reason}"),
        )];
    }
    let within = |file: &str, root: &str| {
        file.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
            && !file.split('/').any(|component| component == "..")
    };
    let files =
        facts.files.iter().filter(|file| !library_roots.iter().any(|root| within(file, root))).filter_map(
            |file| {
                if !within(file, source_root) {
                    Some(format!("the compiler read `{file}`, which is not in the upload"))
                } else if !file.ends_with(".rs") {
                    Some(format!(
                        "the compiler read `{file}`, which is not among the `.rs` files that are checked"
                    ))
                } else {
                    None
                }
            },
        );
    let variables =
        facts.variables.iter().map(|name| format!("the compiler read the build variable `{name}`"));
    files.chain(variables).map(|message| Finding::new(codes::MF0311, Layer::DepInfo, message)).collect()
}
