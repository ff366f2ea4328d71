//! What the units of one dependency build made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mfaas_ident::Digest;

use super::unit::Unit;
use crate::error::BuilderError;

/// What came of all units.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Every file that a compilation made, by its path in cargo's sandbox.
    pub(super) products: BTreeMap<PathBuf, Digest>,
    /// What each compiler was asked.
    pub(crate) units: Vec<Unit>,
    /// Build scripts, by the directory in which cargo believes that they are.
    pub(super) scripts: BTreeMap<PathBuf, PathBuf>,
    pub(super) rooms: usize,
    pub(super) failed: Option<BuilderError>,
}

impl Made {
    /// The digest of a file as its own compilation left it.
    pub(super) fn digest(&self, inside: &Path) -> Option<Digest> {
        self.products.get(inside).copied()
    }
}
