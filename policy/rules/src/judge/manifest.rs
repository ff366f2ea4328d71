//! Cargo.toml: keys by allowlist, values by type, sources by the registry alone.

use std::fmt::Display;

use crate::{
    Finding, Layer, Span, codes,
    facts::{ManifestFact, ManifestFacts},
    limits,
    profiles::manifest_keys::{BUILD_SCRIPT_KEYS, RESERVED_FUNCTION_NAME, ROWS},
};

/// Refusals of Cargo.toml; empty = nothing to say against it. Dependencies are judged apart.
pub fn judge_manifest(manifest: &ManifestFacts) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        manifest.facts.iter().filter_map(|(fact, span)| judge_fact(fact, manifest, span.clone())).collect();
    if let Some(name) = manifest.name.as_ref().filter(|name| is_reserved(name.as_str())) {
        let message = format!("`package.name`: `{name}` is reserved: crates of the platform are called so");
        findings.push(Finding::new(codes::MF0207, Layer::Manifest, message));
    }
    if let Some(first) = manifest.dependencies.get(limits::MANIFEST.dependencies_max) {
        let finding = Finding::new(
            codes::MF0202,
            Layer::Manifest,
            format!(
                "{} dependencies are named; at most {} may be",
                manifest.dependencies.len(),
                limits::MANIFEST.dependencies_max
            ),
        );
        findings.push(finding.at_opt(first.span.clone()));
    }
    findings
}

fn judge_fact(fact: &ManifestFact, manifest: &ManifestFacts, span: Option<Span>) -> Option<Finding> {
    let class = manifest.class.unwrap_or_default();
    let limits = limits::calls(class);
    let exceeds = |key: &str, asked: &dyn Display, most: &dyn Display| {
        let message =
            format!("`package.metadata.mfaas.{key}`: {asked} is more than the {most} of class `{class}`");
        (codes::MF0211, message)
    };
    let (code, message) = match fact {
        ManifestFact::Budget(budget) if *budget <= limits.budget_max => return None,
        ManifestFact::Budget(budget) => exceeds("budget", budget, &limits.budget_max),
        ManifestFact::Memory(memory) if *memory <= limits.memory_max => return None,
        ManifestFact::Memory(memory) => exceeds("memory", memory, &limits.memory_max),
        ManifestFact::Key(path) if is_allowed(path) => return None,
        ManifestFact::Key(path) if is_build_script(path) => {
            (codes::MF0109, format!("`{}` would run a program on the build machine", path.join(".")))
        }
        ManifestFact::Key(path) => {
            (codes::MF0202, format!("`{}` is not allowed in Cargo.toml", path.join(".")))
        }
        ManifestFact::ForeignDependency { name, source } => {
            (codes::MF0203, format!("dependency `{name}` comes from `{source}`, not from the registry"))
        }
        ManifestFact::BadValue { key, reason } => (codes::MF0207, format!("`{key}`: {reason}")),
        ManifestFact::Unreadable(reason) => (codes::MF0201, format!("Cargo.toml cannot be read: {reason}")),
        ManifestFact::Missing(key) => (codes::MF0201, format!("`{key}` is missing")),
        ManifestFact::ObeyedFile(path) => (codes::MF0109, format!("`{path}` would steer the build")),
    };
    Some(Finding::new(code, Layer::Manifest, message).at_opt(span))
}

fn is_allowed(path: &[String]) -> bool {
    ROWS.iter().any(|row| {
        row.path.len() == path.len()
            && row.path.iter().zip(path).all(|(allowed, written)| *allowed == "*" || allowed == written)
    })
}

fn is_reserved(name: &str) -> bool {
    name.strip_prefix(RESERVED_FUNCTION_NAME).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn is_build_script(path: &[String]) -> bool {
    BUILD_SCRIPT_KEYS
        .iter()
        .any(|key| path.len() >= key.len() && key.iter().zip(path).all(|(wanted, written)| wanted == written))
}
