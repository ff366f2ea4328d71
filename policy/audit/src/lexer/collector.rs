//! The facts of a source, bounded in number.

use std::collections::BTreeMap;

use mfaas_rules::Span;
use mfaas_rules::facts::{SourceFact, SourceFacts};

/// Occurrences of one and the same fact that are kept.
const OCCURRENCES_MAX: usize = 16;
/// Facts kept in all; benign programs have hundreds.
const FACTS_MAX: usize = 50_000;
/// Occurrences of all facts that are looked at.
const PUSHES_MAX: usize = 1_000_000;

/// Collects facts under the two bounds.
#[derive(Default)]
pub(super) struct Collector {
    pub(super) facts: SourceFacts,
    occurrences: BTreeMap<SourceFact, usize>,
    pushes: usize,
    overflow: Option<Span>,
}

impl Collector {
    /// Adds a fact; its place is worked out only if it is kept.
    pub(super) fn push(&mut self, fact: SourceFact, span: impl FnOnce() -> Span) {
        if self.is_full() {
            return;
        }
        self.pushes += 1;
        if self.pushes > PUSHES_MAX {
            self.overflow = Some(span());
            return;
        }
        let seen = self.occurrences.entry(fact.clone()).or_insert(0);
        *seen += 1;
        if *seen > OCCURRENCES_MAX {
            return;
        }
        if self.facts.facts.len() < FACTS_MAX {
            self.facts.facts.push((fact, span()));
        } else {
            self.overflow = Some(span());
        }
    }

    /// A bound was met: the source is refused, and nothing more is taken.
    pub(super) fn is_full(&self) -> bool {
        self.overflow.is_some()
    }

    pub(super) fn finish(mut self) -> SourceFacts {
        if let Some(span) = self.overflow {
            let reason = format!(
                "more than {FACTS_MAX} different paths, macros and attributes, or {PUSHES_MAX} in all"
            );
            self.facts.facts.push((SourceFact::Unreadable(reason), span));
        }
        self.facts.own_macros.sort();
        self.facts.own_macros.dedup();
        self.facts
            .facts
            .sort_by(|(_, a), (_, b)| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        self.facts
    }
}
