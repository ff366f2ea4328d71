//! Shapes of the compiler's open soundness holes in a dependency's files.
//!
//! "No unsafe code" says nothing about safe code that the compiler should not take. The lints that read
//! tenants' expanded source read a dependency's files as they are, so a shape that only a macro emits
//! is not seen here; and what could not be read to its end is said.

use mfaas_ident::sanitise_line;
use mfaas_rules::crate_facts::{ShapeHotspot, ShapeReport};
use mfaas_rules::facts::SoundnessFact;
use mfaas_rules::limits::CRATE_FACTS;
use mfaas_rules::profiles::lints;

use crate::soundness::read_unexpanded;

/// Reads every file of a crate that its users compile: path, which must be sanitised, and text.
pub fn shapes<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> ShapeReport {
    let facts = read_unexpanded(files);
    ShapeReport {
        shapes: facts.facts.into_iter().take(CRATE_FACTS.hotspots_max).map(hotspot).collect(),
        unread: facts.unreadable.iter().map(|reason| sanitise_line(reason, 300)).collect(),
    }
}

fn hotspot(fact: SoundnessFact) -> ShapeHotspot {
    let row = lints::row(fact.shape);
    ShapeHotspot {
        lint: row.id.to_owned(),
        text: sanitise_line(&format!("`{}`: {} ({})", fact.subject, row.what, fact.detail), 300),
        span: fact.span,
    }
}
