//! What each dependency was granted of the standard library beyond what a function has.
//!
//! Data beside the seed (`capabilities.toml`), each row with its reason. A crate without a row has
//! nothing more than a function.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_ident::CrateName;
use mfaas_rules::profiles::std_items::Capability;
use serde::Deserialize;

/// File name within the seed.
pub(crate) const GRANTS_FILE: &str = "capabilities.toml";

/// The grants of one seed.
#[derive(Debug, Default)]
pub(crate) struct Grants(BTreeMap<CrateName, Vec<Capability>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    grant: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(rename = "crate")]
    name: String,
    capabilities: BTreeSet<Capability>,
    reason: String,
}

impl Grants {
    /// Reads the file. Each row must be about another crate of the resolution, and say why.
    pub(crate) fn parse(text: &str, is_known: impl Fn(&CrateName) -> bool) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut all = BTreeMap::new();
        for row in file.grant {
            let name = CrateName::parse(&row.name).map_err(|error| error.to_string())?;
            if !is_known(&name) {
                return Err(format!("{name} is granted something and not in Cargo.lock"));
            }
            if row.reason.trim().is_empty() || row.capabilities.is_empty() {
                return Err(format!("the grant of {name} has no capability or no reason"));
            }
            if row.capabilities.len() > 1 && row.capabilities.contains(&Capability::Real) {
                return Err(format!("{name} is granted the library as it is, and more"));
            }
            if all.insert(name, row.capabilities.into_iter().collect()).is_some() {
                return Err(format!("{} has two rows", row.name));
            }
        }
        Ok(Self(all))
    }

    /// What this crate was granted, sorted.
    pub(crate) fn of(&self, name: &CrateName) -> &[Capability] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Every combination that a facade is needed for, that of functions first.
    pub(crate) fn sets(&self) -> BTreeSet<Vec<Capability>> {
        let granted = self.0.values().filter(|set| !set.contains(&Capability::Real)).cloned();
        granted.chain([Vec::new()]).collect()
    }
}

#[cfg(test)]
mod tests;
