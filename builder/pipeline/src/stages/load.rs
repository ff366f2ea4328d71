//! The throw-away load: a worker loads the image once, locked down as in production, and ends.
//!
//! Nothing of the image runs: no constructor, no call. What it shows is that the production loader
//! maps, binds and relocates the image, here and in the sandbox, before any node has to.

use std::path::Path;

use mfaas_attest::BuildClaim;
use mfaas_ident::Digest;
use mfaas_rules::limits::COMPILE;
use mfaas_rules::profiles::lints;
use mfaas_rules::{Finding, Layer, POLICY_REVISION, codes};

use super::context::BuildContext;
use super::inspect::InspectedArtifact;
use crate::error::BuilderError;
use crate::journal::{Meter, Stop, refusal};
use crate::sandbox::{Filter, Job, Ran};
use crate::toolchain::host_libraries;

/// The end of the pipeline: bytes that may be stored, and the claim about them. Made by [`load`]
/// alone.
#[derive(Debug)]
pub(crate) struct ProvenArtifact {
    bytes: Vec<u8>,
    claim: BuildClaim,
}

impl ProvenArtifact {
    /// The shared object.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What is claimed about it.
    pub(crate) fn claim(&self) -> &BuildClaim {
        &self.claim
    }

    /// Its name.
    pub(crate) fn digest(&self) -> Digest {
        self.claim.artifact
    }
}

/// Loads the image in a throw-away worker.
pub(super) fn load(
    inspected: InspectedArtifact,
    context: &BuildContext,
    meter: &Meter,
) -> Result<ProvenArtifact, Stop> {
    if !context.layers.has(Layer::ThrowawayLoad) {
        return Ok(prove(inspected, context));
    }
    let root = inspected.admitted.directory.root();
    let image = root.join("image");
    std::fs::create_dir(&image).map_err(BuilderError::io(&image))?;
    let file = image.join("function.so");
    std::fs::write(&file, &inspected.bytes).map_err(BuilderError::io(&file))?;
    let scratch = root.join("probe");
    std::fs::create_dir(&scratch).map_err(BuilderError::io(&scratch))?;
    let ran = probe(context, &image, &scratch)?;
    meter.add(ran.cpu);
    if !ran.exit.success() {
        let text = String::from_utf8_lossy(&ran.stderr);
        let text = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        let message = format!("the worker ended with {:?} and printed: {text}", ran.exit);
        return Err(refusal(&Finding::new(codes::MF0510, Layer::ThrowawayLoad, message)));
    }
    Ok(prove(inspected, context))
}

fn probe(context: &BuildContext, image: &Path, scratch: &Path) -> Result<Ran, BuilderError> {
    let sandbox = &context.sandbox;
    let worker = sandbox.execute(&context.programs.worker, "/mfaas-worker");
    let image = sandbox.load(image, "/image");
    let scratch = sandbox.write(scratch, "/out");
    let mut views = host_libraries(sandbox);
    views.extend([worker.clone(), image.clone(), scratch.clone()]);
    sandbox.run(Job {
        program: worker.inside,
        arguments: vec!["--probe".to_owned(), image.path("function.so")],
        environment: Vec::new(),
        directory: scratch.inside,
        views,
        limits: COMPILE,
        filter: Filter::ThrowawayLoad,
    })
}

/// The claim about what was built.
fn prove(inspected: InspectedArtifact, context: &BuildContext) -> ProvenArtifact {
    let InspectedArtifact { admitted, bytes, digest, facts } = inspected;
    let resolved = admitted.resolved;
    let claim = BuildClaim {
        artifact: digest,
        artifact_bytes: facts.file_bytes,
        source_tree: resolved.source.tree.tree_digest(),
        handler: resolved.source.handler,
        budget_us: resolved.source.budget,
        memory_bytes: resolved.source.memory,
        declared: resolved.source.declared,
        bindings: resolved.source.bindings.clone(),
        toolchain: context.toolchain.id(),
        abi_version: context.deps.abi_version(),
        lints: lints::required().map(str::to_owned).collect(),
        policy_revision: POLICY_REVISION.to_owned(),
        policy_version: resolved.policy_version,
        decisions: resolved.decisions,
        sandbox_level: context.sandbox.level(),
        checks: BuildClaim::CHECKS.map(str::to_owned).into(),
    };
    ProvenArtifact { bytes, claim }
}
