//! The one door through which a finding becomes a refusal, and which layers may use it.
//!
//! A program has every layer: [`Layers::all`] is the only way to make them, and nothing in an
//! environment, a file or an argument can take one off. Under the feature `ablation`, which no
//! program is built with, a test takes named layers off and shows that an attack gets as far as
//! the next one.

use mfaas_delivery::Diagnostic;
use mfaas_rules::{Finding, Layer};

use crate::journal::Stop;
use crate::sandbox::View;

/// The layers of one build.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers {
    #[cfg(feature = "ablation")]
    off: std::collections::BTreeSet<Layer>,
    #[cfg(feature = "ablation")]
    decoys: Vec<View>,
}

impl Layers {
    /// Every layer.
    pub(crate) fn all() -> Self {
        Self::default()
    }

    /// Whether this layer does its work.
    #[cfg(not(feature = "ablation"))]
    #[allow(clippy::unused_self, reason = "the same shape as with the feature")]
    pub(crate) fn has(&self, _layer: Layer) -> bool {
        true
    }

    /// What a sandbox shows beside what the command needs.
    #[cfg(not(feature = "ablation"))]
    #[allow(clippy::unused_self, reason = "the same shape as with the feature")]
    pub(crate) fn decoys(&self) -> &[View] {
        &[]
    }

    /// A refusal unless there are no findings.
    pub(crate) fn refuse_if_any(&self, findings: &[Finding]) -> Result<(), Stop> {
        let counted: Vec<Diagnostic> =
            findings.iter().filter(|finding| self.has(finding.layer)).map(Diagnostic::from).collect();
        if counted.is_empty() { Ok(()) } else { Err(Stop::Refused(counted)) }
    }
}

#[cfg(feature = "ablation")]
impl Layers {
    /// All but these. The build sandbox stays: in its place, `decoys` stand where an attack looks for
    /// files of the host.
    pub(crate) fn without(off: impl IntoIterator<Item = Layer>, decoys: Vec<View>) -> Self {
        Self { off: off.into_iter().collect(), decoys }
    }

    pub(crate) fn has(&self, layer: Layer) -> bool {
        !self.off.contains(&layer)
    }

    pub(crate) fn decoys(&self) -> &[View] {
        &self.decoys
    }
}
