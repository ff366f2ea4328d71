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
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_is_not_missing_and_real_is_everything() {
        let needs = BTreeSet::from([Capability::Abort, Capability::Threads]);
        let trial = TrialBuild::Compiles { needs: needs.clone() };
        assert_eq!(trial.missing(&BTreeSet::new()), needs);
        assert_eq!(
            trial.missing(&BTreeSet::from([Capability::Abort])),
            BTreeSet::from([Capability::Threads])
        );
        assert!(trial.missing(&needs).is_empty());
        assert!(trial.missing(&BTreeSet::from([Capability::Real])).is_empty());
        let real = TrialBuild::Compiles { needs: BTreeSet::from([Capability::Real]) };
        assert_eq!(real.missing(&needs), BTreeSet::from([Capability::Real]));
        let fails = TrialBuild::Fails { reason: "E0432".to_owned() };
        assert!(fails.missing(&BTreeSet::new()).is_empty());
        assert!(fails.objection(&needs).is_some_and(|text| text.contains("E0432")));
        let said = trial.objection(&BTreeSet::from([Capability::Abort]));
        assert!(said.is_some_and(|text| text.ends_with("granted threads")));
        assert_eq!(trial.objection(&needs), None);
        assert_eq!(TrialBuild::NotRun { reason: String::new() }.objection(&BTreeSet::new()), None);
    }
}
