//! What became of a crate when it was compiled as it would be offered, before anybody voted.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::profiles::std_items::Capability;

/// The end of a trial build of one crate version with the features of its review. A trial is about the site of
/// that moment: what was granted to the crates that it needs decides with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TrialBuild {
    /// It compiles against the facade of std.
    Compiles {
        /// With these grants. Empty when no grant is needed beyond what the site gives a crate of that name
        /// already; otherwise all of them, because a reviewer's grants take the place of what ships.
        needs: BTreeSet<Capability>,
    },
    /// It does not, whatever is granted.
    Fails {
        /// The compiler's first words, sanitised.
        reason: String,
    },
    /// Nobody knows.
    NotRun {
        /// Why, sanitised.
        reason: String,
    },
}

impl TrialBuild {
    /// In a sentence, for whoever decides.
    pub fn sentence(&self) -> String {
        match self {
            Self::Compiles { needs } if needs.is_empty() => "it compiles here without a grant".to_owned(),
            Self::Compiles { needs } => format!("it compiles here when it is granted {}", words(needs)),
            Self::Fails { reason } => format!("it does not compile here, whatever is granted: {reason}"),
            Self::NotRun { reason } => format!("nobody knows whether it compiles here: {reason}"),
        }
    }

    /// Why nobody can say yes on terms with these grants; the site could not build it.
    pub fn objection(&self, granted: &BTreeSet<Capability>) -> Option<String> {
        let missing = self.missing(granted);
        match self {
            Self::Compiles { .. } if missing.is_empty() => None,
            Self::Compiles { .. } => {
                Some(format!("it does not compile here unless it is granted {}", words(&missing)))
            }
            Self::Fails { .. } => Some(self.sentence()),
            // What nobody knows is found out by the build, which takes a wrong yes back.
            Self::NotRun { .. } => None,
        }
    }

    /// What is missing for it to compile when this much is granted. Nothing, where nobody knows better.
    pub fn missing(&self, granted: &BTreeSet<Capability>) -> BTreeSet<Capability> {
        match self {
            // The library as it is holds everything that could be granted one by one.
            Self::Compiles { .. } if granted.contains(&Capability::Real) => BTreeSet::new(),
            Self::Compiles { needs } => needs.difference(granted).copied().collect(),
            Self::Fails { .. } | Self::NotRun { .. } => BTreeSet::new(),
        }
    }
}

fn words(capabilities: &BTreeSet<Capability>) -> String {
    let words: Vec<String> = capabilities.iter().map(|one| one.name().replace('_', "-")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests;
