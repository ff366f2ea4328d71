//! Which of several decisions about one crate version counts.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::CrateStatus;

/// What a decision weighs against others about the same version: a revocation outweighs all others, and what was
/// decided for the tenant outweighs what was decided for the whole site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    is_revocation: bool,
    is_for_tenant: bool,
}

impl Precedence {
    /// Of a decision with that outcome.
    pub fn new(status: CrateStatus, is_for_tenant: bool) -> Self {
        Self { is_revocation: status == CrateStatus::Revoked, is_for_tenant }
    }
}

/// The decision that counts about each subject, in the order of subjects. Those that were made for another tenant or
/// toolchain, or have ended, must not be among `decisions`.
pub fn deciding<K: Ord, T>(
    decisions: impl IntoIterator<Item = T>,
    about: impl Fn(&T) -> (K, Precedence),
) -> Vec<T> {
    let mut found: BTreeMap<K, (Precedence, T)> = BTreeMap::new();
    for decision in decisions {
        let (subject, precedence) = about(&decision);
        match found.entry(subject) {
            Entry::Vacant(free) => {
                free.insert((precedence, decision));
            }
            Entry::Occupied(mut taken) if precedence > taken.get().0 => {
                taken.insert((precedence, decision));
            }
            Entry::Occupied(_) => {}
        }
    }
    found.into_values().map(|(_, decision)| decision).collect()
}

#[cfg(test)]
mod tests;
