//! The shapes that were found, bounded in number.

use mfaas_rules::facts::{SoundnessFact, SoundnessShape};

use crate::expansion::locate::Locator;

/// Facts of one text; benign programs have none.
pub(super) const FACTS_MAX: usize = 1_000;

/// What was found so far.
pub(super) struct Findings<'l, 'a> {
    pub(super) locator: &'l Locator<'a>,
    pub(super) facts: Vec<SoundnessFact>,
}

impl Findings<'_, '_> {
    /// About the item `keyword name`, or the first `name`.
    pub(super) fn add(&mut self, shape: SoundnessShape, keyword: &str, name: &str, detail: String) {
        if self.facts.len() > FACTS_MAX {
            return;
        }
        let span = self.locator.item(keyword, name);
        let subject = mfaas_ident::sanitise_line(name, 80);
        let detail = mfaas_ident::sanitise_line(&detail, 160);
        let fact = SoundnessFact { shape, subject, detail, span };
        if !self.facts.contains(&fact) {
            self.facts.push(fact);
        }
    }
}
