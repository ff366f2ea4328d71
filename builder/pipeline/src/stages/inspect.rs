//! The image as bytes: what it is, what it asks for, what it could do.

use mfaas_ident::Digest;
use mfaas_inspect::verify::{VerifyError, verify_image};
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
    let BuiltArtifact { admitted, bytes, map } = built;
    let facts = mfaas_inspect::inspect(&bytes)
        .map_err(|error| refusal(&Finding::new(codes::MF0501, Layer::Binary, error.to_string())))?;
    layers.refuse_if_any(&judge_binary(&facts))?;
    layers.refuse_if_any(&verified(&bytes, &map))?;
    Ok(InspectedArtifact { admitted, digest: Digest::of(&bytes), bytes, facts })
}

/// A finding if the machine code could leave its window, with the name of the function that could.
fn verified(bytes: &[u8], map: &str) -> Vec<Finding> {
    let Err(error) = verify_image(bytes) else { return Vec::new() };
    let named = match &error {
        VerifyError::Violation(violation) => section_at(map, violation.at),
        VerifyError::Unreadable(_) => None,
    };
    let message = named.map_or_else(|| error.to_string(), |section| format!("`{section}`: {error}"));
    vec![Finding::new(codes::MF0511, Layer::MachineCode, message)]
}

/// The section that the linker put at an address. Its map has a line for each: address, another
/// address, size, alignment, and `file:(section)`.
fn section_at(map: &str, at: u64) -> Option<&str> {
    map.lines().find_map(|line| {
        let (numbers, section) = line.split_once(":(")?;
        let mut numbers = numbers.split_ascii_whitespace();
        let start = u64::from_str_radix(numbers.next()?, 16).ok()?;
        let bytes = u64::from_str_radix(numbers.nth(1)?, 16).ok()?;
        (start..start.checked_add(bytes)?).contains(&at).then(|| section.trim_end_matches(')'))
    })
}
