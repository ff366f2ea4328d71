//! Shapes of the compiler's open soundness holes.

use crate::{
    Finding, Layer, codes,
    facts::{SoundnessFact, SoundnessFacts},
    profiles::lints,
};

/// Refusals; empty = no shape of a known hole.
pub fn judge_soundness(soundness: &SoundnessFacts) -> Vec<Finding> {
    if let Some(reason) = &soundness.unreadable {
        return vec![Finding::new(
            codes::MF0312,
            Layer::Soundness,
            format!("the expanded source was not understood: {reason}"),
        )];
    }
    soundness.facts.iter().map(judge_fact).collect()
}

fn judge_fact(fact: &SoundnessFact) -> Finding {
    let row = lints::row(fact.shape);
    let message = format!("{}: `{}`: {} ({})", row.id, fact.subject, row.what, fact.detail);
    Finding::new(codes::MF0314, Layer::Soundness, message).at_opt(fact.span.clone()).hint(row.instead)
}
