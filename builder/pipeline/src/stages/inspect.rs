//! The image as bytes: what it is, what it asks for, what it could do.

use mfaas_ident::Digest;
use mfaas_rules::facts::BinaryFacts;
use mfaas_rules::{Finding, Layer, codes, judge_binary};

use super::expand::AdmittedSource;
use super::link::BuiltArtifact;
use crate::journal::{Stop, refusal};
use crate::layers::Layers;

/// An image whose facts were admitted. Made by [`inspect`] alone.
#[derive(Debug)]
pub(super) struct InspectedArtifact {
    pub(super) admitted: AdmittedSource,
    pub(super) bytes: Vec<u8>,
    pub(super) digest: Digest,
    pub(super) facts: BinaryFacts,
}

/// Gathers the facts of the image and judges them. An image that cannot be read is refused.
pub(super) fn inspect(built: BuiltArtifact, layers: &Layers) -> Result<InspectedArtifact, Stop> {
    let BuiltArtifact { admitted, bytes } = built;
    let facts = mfaas_inspect::inspect(&bytes)
        .map_err(|error| refusal(&Finding::new(codes::MF0501, Layer::Binary, error.to_string())))?;
    layers.refuse_if_any(&judge_binary(&facts))?;
    Ok(InspectedArtifact { admitted, digest: Digest::of(&bytes), bytes, facts })
}
