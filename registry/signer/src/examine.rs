//! The repetition: everything about a build that follows from bytes alone is computed again
//! here and compared with what the builder claims.
//!
//! Pure: bytes, the claim and the allowlist of this moment go in; what may be signed, or a refusal,
//! comes out. Must never believe a field of the claim that can be computed.

use std::collections::BTreeSet;

use mfaas_attest::{BuildClaim, DecisionUsed, Declared, SandboxLevel};
use mfaas_delivery::DeploymentState;
use mfaas_ident::{
    Assets, Binding, BindingName, Bindings, Budget, CalleeName, Callers, Class, Digest, HandlerPath,
    MemoryLimit, ResourceBinding, ResourceKind, asset_bytes,
};
use mfaas_inspect::verify::{RULES_REVISION, verify_image};
use mfaas_rules::facts::ManifestFacts;
use mfaas_rules::profiles::lints;
use mfaas_rules::{
    AllowlistSnapshot, Code, CrateStatus, DependencyVerdict, Finding, Granted, Layer, LinkedCrate,
    POLICY_REVISION, codes, judge_binary, judge_dependencies, judge_manifest, judge_source,
};
use mfaas_unpack::{SourceTree, Upload};

use crate::closure::{CachedCrate, closures, difference};
use crate::ledger::resources::GrantedResources;

/// ABI versions that nodes of this release load.
pub(crate) const ABI_VERSIONS: &[u32] = &[2];
/// Where the handler is when the manifest does not say.
const HANDLER_DEFAULT: &str = "handle";

/// What lies on the table.
pub(crate) struct Case<'a> {
    /// The upload, read by the digest that the server recorded.
    pub(crate) upload: Vec<u8>,
    /// The artifact, read by the digest that the builder claims.
    pub(crate) artifact: &'a [u8],
    /// What the builder says.
    pub(crate) claim: &'a BuildClaim,
    /// What reviewers have decided up to now.
    pub(crate) allowlist: &'a AllowlistSnapshot,
    /// What the site's caches hold of the crates that the claim names.
    pub(crate) caches: &'a [CachedCrate],
    /// What the tenant may bind at this moment.
    pub(crate) granted: &'a GrantedResources,
    /// Functions of other tenants that what the builder claims that it binds calls, and that do not let this tenant in.
    pub(crate) closed: &'a [CalleeName],
    /// The functions of a cycle of calls, if what the builder claims that it binds closes one.
    pub(crate) cycle: Option<&'a [CalleeName]>,
    /// The weakest sandbox that a build may have had.
    pub(crate) sandbox_minimum: SandboxLevel,
}

/// What was computed and may be signed.
#[derive(Debug)]
pub(crate) struct Examined {
    pub(crate) handler: HandlerPath,
    pub(crate) budget: Budget,
    pub(crate) memory: MemoryLimit,
    /// Without the site's default for who may call: builders do not know it.
    pub(crate) declared: Declared,
    pub(crate) callers: Callers,
    pub(crate) bindings: Bindings,
    pub(crate) assets: Assets,
    pub(crate) source_tree: Digest,
    pub(crate) elf_facts: Digest,
    pub(crate) decisions: Vec<DecisionUsed>,
}

/// Why nothing is signed.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// `Refused` when policy says no to the source, `Failed` when something of ours is wrong.
    pub(crate) state: DeploymentState,
    /// The reasons; at least one.
    pub(crate) findings: Vec<Finding>,
}

impl Refusal {
    /// Something of ours is wrong.
    pub(crate) fn failed(code: Code, message: impl AsRef<str>) -> Self {
        Self { state: DeploymentState::Failed, findings: vec![Finding::new(code, Layer::Signer, message)] }
    }

    /// Policy says no.
    fn refused(findings: Vec<Finding>) -> Self {
        Self { state: DeploymentState::Refused, findings }
    }
}

/// Why there is nothing to sign.
#[derive(Debug)]
pub(crate) enum Objection {
    /// The deployment ends.
    Refusal(Refusal),
    /// Something of ours is not there yet, and the deployment waits for it.
    Later(String),
}

impl From<Refusal> for Objection {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

/// The check that the machine code stays in its window, with the revision of the verifier's rules.
const MACHINE_CODE: &str = "machine_code_1";
const _: () = assert!(RULES_REVISION == 1, "the check's name says the revision");

/// Names of the checks made here, as the statement lists them.
pub(crate) const CHECKS: &[&str] =
    &["unpack", "manifest", "lexer", "dependencies", "elf", MACHINE_CODE, "digests"];

/// Examines a build.
pub(crate) fn examine(case: Case<'_>) -> Result<Examined, Objection> {
    check_claim(&case)?;
    let tree = unpack(case.upload)?;
    let manifest = mfaas_audit::manifest::read(tree.manifest());
    accept(judge_manifest(&manifest))?;
    accept(judge_source(&mfaas_audit::lexer::scan(&tree)))?;
    if manifest.bindings != case.claim.bindings {
        return Err(
            Refusal::failed(codes::MF0603, "the bindings are not those that the builder claims").into()
        );
    }
    accept(judge_bindings(&manifest.bindings, case.granted))?;
    accept(case.closed.iter().map(judge_closed).collect())?;
    accept(case.cycle.map(judge_cycle).into_iter().collect())?;
    let class = manifest.class.unwrap_or_default();
    let assets = assets(&manifest.bindings, case.granted)?;
    accept(judge_assets(&assets, class).into_iter().collect())?;
    let decisions = examine_dependencies(&manifest, case.claim, case.allowlist, case.caches)?;
    let elf_facts = examine_artifact(case.artifact)?;
    let examined = Examined {
        handler: handler(&manifest)?,
        budget: manifest.budget.unwrap_or(Budget::DEFAULT),
        memory: manifest.memory.unwrap_or(MemoryLimit::DEFAULT),
        declared: Declared {
            idempotent: manifest.idempotent.unwrap_or_default(),
            isolation: manifest.isolation.unwrap_or_default(),
            access: manifest.access,
            class,
        },
        callers: manifest.callers,
        bindings: manifest.bindings,
        assets,
        source_tree: tree.tree_digest(),
        elf_facts,
        decisions,
    };
    compare(&examined, case.artifact, case.claim)?;
    Ok(examined)
}

/// What only the builder knows still has to be something that we accept.
fn check_claim(case: &Case<'_>) -> Result<(), Refusal> {
    let claim = case.claim;
    if claim.policy_revision != POLICY_REVISION {
        let message =
            format!("the builder decided by rules {}, today's are {POLICY_REVISION}", claim.policy_revision);
        return Err(Refusal::failed(codes::MF0604, message));
    }
    check_names("lint", &claim.lints, lints::required())?;
    check_names("check", &claim.checks, BuildClaim::CHECKS.into_iter())?;
    if claim.sandbox_level < case.sandbox_minimum {
        let message = format!(
            "the build had a sandbox of level {:?}, this site signs none below {:?}",
            claim.sandbox_level, case.sandbox_minimum
        );
        return Err(Refusal::failed(codes::MF0409, message));
    }
    let (claimed, newest) = (claim.policy_version, case.allowlist.policy_version);
    if claimed > newest {
        let message = format!("the build claims version {claimed} of the allowlist, the newest is {newest}");
        return Err(Refusal::failed(codes::MF0603, message));
    }
    if !ABI_VERSIONS.contains(&claim.abi_version) {
        return Err(Refusal::failed(
            codes::MF0603,
            format!("the build claims ABI version {}", claim.abi_version),
        ));
    }
    Ok(())
}

/// Exactly these names, each once.
fn check_names(
    what: &str,
    claimed: &[String],
    wanted: impl Iterator<Item = &'static str>,
) -> Result<(), Refusal> {
    let mut more: Vec<&str> = claimed.iter().map(String::as_str).collect();
    for name in wanted {
        let Some(place) = more.iter().position(|claimed| *claimed == name) else {
            return Err(Refusal::failed(
                codes::MF0603,
                format!("the build does not claim the {what} `{name}`"),
            ));
        };
        more.swap_remove(place);
    }
    match more.first() {
        None => Ok(()),
        Some(name) => {
            let message =
                format!("the build claims the {what} `{name}`, which there is not or is named twice");
            Err(Refusal::failed(codes::MF0603, message))
        }
    }
}

fn unpack(upload: Vec<u8>) -> Result<SourceTree, Refusal> {
    Upload::new(upload).and_then(|upload| upload.unpack()).map_err(|error| match error.finding() {
        Some(finding) => Refusal::refused(vec![finding]),
        None => Refusal::failed(codes::MF0909, error.to_string()),
    })
}

/// The decisions of this moment for everything that was linked in, which is what the caches say, and what the build claims.
fn examine_dependencies(
    manifest: &ManifestFacts,
    claim: &BuildClaim,
    allowlist: &AllowlistSnapshot,
    caches: &[CachedCrate],
) -> Result<Vec<DecisionUsed>, Objection> {
    let granted = match judge_dependencies(&manifest.dependencies, allowlist) {
        DependencyVerdict::Admit(granted) => granted,
        DependencyVerdict::Reject(findings) => return Err(Refusal::refused(findings).into()),
        // The builder would have let it wait; a crate was revoked since.
        DependencyVerdict::NeedsReview(findings) => {
            let what = findings.first().map_or("a dependency is not allowed", |f| f.message.as_str());
            return Err(Refusal::failed(codes::MF0604, what).into());
        }
    };
    let claimed = claimed_crates(claim, &granted)?;
    let linked = closures(&granted, caches);
    match linked.iter().find_map(|expected| difference(&claimed, expected)) {
        _ if linked.contains(&claimed) => {}
        Some((part, is_missing)) => {
            let how = if is_missing { "does not claim" } else { "claims" };
            let why = if is_missing { "comes along with" } else { "does not belong to" };
            let message =
                format!("the build {how} {} {}, which {why} its dependencies", part.name, part.version);
            return Err(Refusal::failed(codes::MF0603, message).into());
        }
        None => {
            let names: Vec<_> = granted.iter().map(|g| format!("{} {}", g.name, g.version)).collect();
            return Err(Objection::Later(format!(
                "no dependency cache with {} is recorded for toolchain {}: import the `allowlist.json` of the cache that the \
                 builder uses",
                names.join(", "),
                claim.toolchain.0.short()
            )));
        }
    }
    Ok(claimed.iter().map(|part| decision_of_today(part, allowlist)).collect::<Result<_, _>>()?)
}

/// What the build says was linked in: each crate once, and everything among it that the manifest names.
fn claimed_crates(claim: &BuildClaim, granted: &[Granted]) -> Result<BTreeSet<LinkedCrate>, Refusal> {
    let mut claimed = BTreeSet::new();
    for used in &claim.decisions {
        let version = semver::Version::parse(&used.version).map_err(|error| {
            Refusal::failed(codes::MF0603, format!("the build claims a version of {}: {error}", used.name))
        })?;
        let part = LinkedCrate { name: used.name.clone(), version, checksum: used.checksum.clone() };
        if !claimed.insert(part) {
            let message = format!("the build claims {} {} twice", used.name, used.version);
            return Err(Refusal::failed(codes::MF0603, message));
        }
    }
    let is_claimed = |grant: &Granted| {
        let is_it = |part: &LinkedCrate| {
            (&part.name, &part.version, &part.checksum) == (&grant.name, &grant.version, &grant.checksum)
        };
        claimed.iter().any(is_it)
    };
    match granted.iter().find(|grant| !is_claimed(grant)) {
        None => Ok(claimed),
        Some(grant) => {
            let message = format!("the build does not claim the dependency {} {}", grant.name, grant.version);
            Err(Refusal::failed(codes::MF0603, message))
        }
    }
}

fn decision_of_today(part: &LinkedCrate, allowlist: &AllowlistSnapshot) -> Result<DecisionUsed, Refusal> {
    let about = || format!("{} {}", part.name, part.version);
    let row = allowlist
        .crates
        .iter()
        .find(|row| row.name == part.name && row.version == part.version)
        .ok_or_else(|| Refusal::failed(codes::MF0603, format!("{} was never decided about", about())))?;
    if row.checksum != part.checksum {
        return Err(Refusal::failed(
            codes::MF0603,
            format!("{} has another checksum than was decided about", about()),
        ));
    }
    match row.status {
        CrateStatus::Allowed => Ok(DecisionUsed {
            name: part.name.clone(),
            version: part.version.to_string(),
            checksum: part.checksum.clone(),
            decided_by: row.decided_by.clone(),
        }),
        CrateStatus::Denied | CrateStatus::Revoked => {
            let message = format!("{} is no longer allowed: {}", about(), row.reason);
            Err(Refusal::refused(vec![Finding::new(codes::MF0209, Layer::Signer, message)]))
        }
    }
}

/// What is bound and not granted. Whether a resource is there that was not granted is nobody's business.
fn judge_bindings(bindings: &Bindings, granted: &GrantedResources) -> Vec<Finding> {
    let finding = |(name, binding): (&BindingName, &Binding)| {
        let ResourceBinding { kind, resource, access } = binding.resource()?;
        let message = match granted.get(resource) {
            None => format!("the binding `{name}` asks for `{resource}`, which this tenant was not granted"),
            Some(granted) if granted.kind != *kind => {
                format!("the binding `{name}` takes `{resource}` for {kind}, and it is {}", granted.kind)
            }
            Some(granted) if granted.access < *access => format!(
                "the binding `{name}` asks to {access} `{resource}`, of which this tenant was granted to {}",
                granted.access
            ),
            Some(_) => return None,
        };
        Some(Finding::new(codes::MF1201, Layer::Signer, message))
    };
    bindings.iter().filter_map(finding).collect()
}

/// The bytes of the assets that are bound, which were granted.
fn assets(bindings: &Bindings, granted: &GrantedResources) -> Result<Assets, Refusal> {
    let mut assets = Assets::new();
    for (name, binding) in bindings {
        let Some(bound) = binding.resource().filter(|bound| bound.kind == ResourceKind::Asset) else {
            continue;
        };
        let content = granted.get(&bound.resource).and_then(|granted| granted.content);
        let content = content.ok_or_else(|| {
            Refusal::failed(codes::MF0603, format!("the asset `{}` has no bytes", bound.resource))
        })?;
        assets.insert(name.clone(), content);
    }
    Ok(assets)
}

/// More bytes of assets than a function of this class may have.
fn judge_assets(assets: &Assets, class: Class) -> Option<Finding> {
    let (bytes, most) = (asset_bytes(assets), class.asset_bytes_max());
    let message = || {
        format!(
            "the assets that it binds have {bytes} bytes, and a function of class {class} may have {most}"
        )
    };
    (bytes > most).then(|| Finding::new(codes::MF1220, Layer::Signer, message()))
}

/// A function of another tenant that does not let this one in. Whether it is there is nobody's business.
fn judge_closed(callee: &CalleeName) -> Finding {
    let message = format!("`{callee}` lets no function of this tenant call it");
    Finding::new(codes::MF1219, Layer::Signer, message)
}

/// Functions that would wait for each other for ever.
fn judge_cycle(functions: &[CalleeName]) -> Finding {
    let functions: Vec<String> = functions.iter().map(CalleeName::to_string).collect();
    let message = format!("the function would call itself: {}", functions.join(" calls "));
    Finding::new(codes::MF1209, Layer::Signer, message)
}

/// Judges the image; returns the digest of the facts in their JSON form.
fn examine_artifact(artifact: &[u8]) -> Result<Digest, Refusal> {
    let facts = mfaas_inspect::inspect(artifact)
        .map_err(|e| Refusal::refused(vec![Finding::new(codes::MF0501, Layer::Signer, e.to_string())]))?;
    accept(judge_binary(&facts))?;
    verify_image(artifact)
        .map_err(|e| Refusal::refused(vec![Finding::new(codes::MF0511, Layer::Signer, e.to_string())]))?;
    let json = serde_json::to_vec(&facts).map_err(|e| Refusal::failed(codes::MF0909, e.to_string()))?;
    Ok(Digest::of(&json))
}

fn handler(manifest: &ManifestFacts) -> Result<HandlerPath, Refusal> {
    match &manifest.handler {
        Some(handler) => Ok(handler.clone()),
        None => {
            HandlerPath::parse(HANDLER_DEFAULT).map_err(|e| Refusal::failed(codes::MF0909, e.to_string()))
        }
    }
}

fn compare(examined: &Examined, artifact: &[u8], claim: &BuildClaim) -> Result<(), Refusal> {
    let same = [
        ("artifact digest", Digest::of(artifact) == claim.artifact),
        ("artifact size", artifact.len() as u64 == claim.artifact_bytes),
        ("source tree", examined.source_tree == claim.source_tree),
        ("handler", examined.handler == claim.handler),
        ("budget", examined.budget == claim.budget_us),
        ("memory", examined.memory == claim.memory_bytes),
        ("declaration", examined.declared == claim.declared),
    ];
    match same.iter().find(|(_, same)| !same) {
        None => Ok(()),
        Some((what, _)) => {
            Err(Refusal::failed(codes::MF0603, format!("the {what} is not what the builder claims")))
        }
    }
}

fn accept(findings: Vec<Finding>) -> Result<(), Refusal> {
    if findings.is_empty() { Ok(()) } else { Err(Refusal::refused(findings)) }
}
