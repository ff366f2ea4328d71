//! Manifest and tokens: what can be said about a source before any compiler sees it.

use mfaas_attest::Declared;
use mfaas_audit::{lexer, manifest};
use mfaas_ident::{Bindings, Budget, HandlerPath, MemoryLimit};
use mfaas_rules::facts::DependencyRequest;
use mfaas_rules::profiles::manifest_keys::RESERVED_CRATE_NAMES;
use mfaas_rules::{Finding, Layer, codes, judge_manifest, judge_source};
use mfaas_unpack::SourceTree;

use crate::journal::{Stop, refusal};
use crate::layers::Layers;

/// The handler of a manifest that names none.
const HANDLER_DEFAULT: &str = "handle";
/// A source whose manifest and tokens were admitted. Made by [`audit`] alone.
#[derive(Debug)]
pub(crate) struct AuditedSource {
    pub(super) tree: SourceTree,
    pub(super) crate_name: String,
    pub(super) handler: HandlerPath,
    pub(super) budget: Budget,
    pub(super) memory: MemoryLimit,
    pub(super) declared: Declared,
    pub(super) bindings: Bindings,
    pub(super) dependencies: Vec<DependencyRequest>,
}

/// Gathers the facts of manifest and tokens, and judges them. All findings are told at once.
pub(crate) fn audit(tree: SourceTree, layers: &Layers) -> Result<AuditedSource, Stop> {
    let facts = manifest::read(tree.manifest());
    let mut findings = judge_manifest(&facts);
    findings.extend(judge_source(&lexer::scan(&tree)));
    layers.refuse_if_any(&findings)?;
    let handler = match facts.handler {
        Some(handler) => handler,
        None => HandlerPath::parse(HANDLER_DEFAULT).map_err(|error| unnamed(&error.to_string()))?,
    };
    // The rules refuse a manifest without a name; this is for a rule that is lost one day.
    let name = facts.name.ok_or_else(|| unnamed("the package has no usable name"))?;
    Ok(AuditedSource {
        crate_name: crate_name(name.as_str()),
        handler,
        budget: facts.budget.unwrap_or(Budget::DEFAULT),
        memory: facts.memory.unwrap_or(MemoryLimit::DEFAULT),
        declared: Declared {
            idempotent: facts.idempotent.unwrap_or_default(),
            isolation: facts.isolation.unwrap_or_default(),
            class: facts.class.unwrap_or_default(),
            access: facts.access,
        },
        bindings: facts.bindings,
        dependencies: facts.dependencies,
        tree,
    })
}

fn unnamed(message: &str) -> Stop {
    refusal(&Finding::new(codes::MF0207, Layer::Manifest, message))
}

/// The package name as rustc wants it. A package may bear a name that a crate may not.
fn crate_name(package: &str) -> String {
    let name = package.replace('-', "_");
    if RESERVED_CRATE_NAMES.contains(&name.as_str()) { format!("function_{name}") } else { name }
}
