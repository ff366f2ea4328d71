//! Cargo.lock: checksums, and who needs whom.
//!
//! Reads only; the resolution is made by a person with cargo and committed.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_ident::CrateName;
use serde::Deserialize;

/// A package: name and version are unique in a lock file of one registry and one seed.
pub(crate) type PackageKey = (CrateName, semver::Version);

/// The packages of a lock file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lockfile {
    packages: BTreeMap<PackageKey, Locked>,
}

#[derive(Debug, Clone)]
struct Locked {
    checksum: Option<String>,
    needs: Vec<String>,
}

#[derive(Deserialize)]
struct Text {
    version: u32,
    #[serde(default)]
    package: Vec<TextPackage>,
}

#[derive(Deserialize)]
struct TextPackage {
    name: CrateName,
    version: semver::Version,
    source: Option<String>,
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

impl Lockfile {
    /// Reads a lock file of format 4. A package from anywhere but the registry or the seed's own
    /// tree is refused: only those two have a digest that somebody looked at.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text: Text = toml::from_str(text).map_err(|error| error.to_string())?;
        if text.version != 4 {
            return Err(format!("lock file format {} is not known", text.version));
        }
        let mut packages = BTreeMap::new();
        for package in text.package {
            let from_registry = package.source.as_deref().map(|source| source.starts_with("registry+"));
            match (from_registry, &package.checksum) {
                (Some(true), Some(_)) | (None, None) => {}
                _ => {
                    return Err(format!(
                        "{} {} has no checksum of a registry",
                        package.name, package.version
                    ));
                }
            }
            let locked = Locked { checksum: package.checksum, needs: package.dependencies };
            if packages.insert((package.name.clone(), package.version.clone()), locked).is_some() {
                return Err(format!("{} {} is there twice", package.name, package.version));
            }
        }
        Ok(Self { packages })
    }

    /// The names of all packages.
    pub(crate) fn names(&self) -> impl Iterator<Item = &CrateName> {
        self.packages.keys().map(|(name, _)| name)
    }

    /// Every package, sorted.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &PackageKey> {
        self.packages.keys()
    }

    /// Whether exactly this is there.
    pub(crate) fn contains(&self, key: &PackageKey) -> bool {
        self.packages.contains_key(key)
    }

    /// The versions of one package, sorted.
    pub(crate) fn versions(&self, name: &CrateName) -> impl Iterator<Item = &semver::Version> {
        self.packages.keys().filter(move |(found, _)| found == name).map(|(_, version)| version)
    }

    /// The registry's checksum; `None` for a package of the seed's own tree or an unknown one.
    pub(crate) fn checksum(&self, key: &PackageKey) -> Option<&str> {
        self.packages.get(key)?.checksum.as_deref()
    }

    /// Everything that `key` needs directly or indirectly, itself not included, whether or not
    /// this platform uses it.
    pub(crate) fn closure(&self, key: &PackageKey) -> BTreeSet<PackageKey> {
        let mut found = BTreeSet::new();
        let mut open = vec![key.clone()];
        while let Some(next) = open.pop() {
            for needed in self.needs(&next) {
                if found.insert(needed.clone()) {
                    open.push(needed);
                }
            }
        }
        found
    }

    /// What `key` needs directly, whether or not this platform uses it.
    pub(crate) fn needs(&self, key: &PackageKey) -> Vec<PackageKey> {
        let Some(locked) = self.packages.get(key) else { return Vec::new() };
        locked.needs.iter().filter_map(|reference| self.resolve(reference)).collect()
    }

    /// `name`, or `name version` where the name alone would be ambiguous.
    fn resolve(&self, reference: &str) -> Option<PackageKey> {
        let mut words = reference.split(' ');
        let (name, version) = (words.next()?, words.next());
        self.packages
            .keys()
            .find(|(found, number)| {
                found.as_str() == name && version.is_none_or(|wanted| number.to_string() == wanted)
            })
            .cloned()
    }
}
