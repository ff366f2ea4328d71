//! Reasons and their places, bounded, sanitised and in an order of their own.

use serde::{Deserialize, Serialize};

use super::RiskClass;
use crate::Span;
use crate::limits::CRATE_RULES;

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// What kind of risk.
    pub risk: RiskClass,
    /// What was found, one sentence, sanitised.
    pub text: String,
    /// Where, the first places.
    #[serde(rename = "spots")]
    pub hotspots: Vec<Place>,
}

/// A place to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Where.
    pub span: Span,
    /// What stands there, sanitised.
    pub what: String,
}

/// Collects reasons.
#[derive(Debug, Default)]
pub(super) struct Reasons(Vec<Reason>);

impl Reasons {
    /// Adds a reason without a place.
    pub(super) fn add(&mut self, risk: RiskClass, text: impl AsRef<str>) {
        self.at(risk, text, std::iter::empty());
    }

    /// Adds a reason with its places.
    pub(super) fn at(
        &mut self,
        risk: RiskClass,
        text: impl AsRef<str>,
        hotspots: impl Iterator<Item = Place>,
    ) {
        let text = mfaas_ident::sanitise_line(text.as_ref(), CRATE_RULES.text_bytes_max);
        self.0.push(Reason { risk, text, hotspots: hotspots.take(CRATE_RULES.hotspots_max).collect() });
    }

    /// Whether one of them is of such a class.
    pub(super) fn any(&self, wanted: fn(RiskClass) -> bool) -> bool {
        self.0.iter().any(|reason| wanted(reason.risk))
    }

    /// The most severe first, then by class and text: the order of the facts changes nothing. Past the
    /// bound the lightest are dropped, which cannot change the most severe.
    pub(super) fn finish(mut self) -> Vec<Reason> {
        self.0.sort_by(|a, b| {
            let key = |reason: &Reason| (std::cmp::Reverse(reason.risk.effect()), reason.risk);
            key(a).cmp(&key(b)).then_with(|| (&a.text, &a.hotspots).cmp(&(&b.text, &b.hotspots)))
        });
        self.0.dedup();
        self.0.truncate(CRATE_RULES.reasons_max);
        self.0
    }
}
