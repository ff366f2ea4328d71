//! Paths in volumes.

use mfaas_abi::names_of;
use mfaas_ident::ResourceName;

/// A file or directory of a volume: names, none of which is `.`, `..` or empty, or has a `/`; no name at all is the volume itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumePath {
    volume: ResourceName,
    names: Vec<String>,
}

impl VolumePath {
    /// Of any origin; or what is wrong with it.
    pub fn directory(volume: &ResourceName, path: &[u8]) -> Result<Self, &'static str> {
        let names = names_of(path)?.into_iter().map(str::to_owned).collect();
        Ok(Self { volume: volume.clone(), names })
    }

    /// The same of a file, which the volume itself is not.
    pub fn file(volume: &ResourceName, path: &[u8]) -> Result<Self, &'static str> {
        let path = Self::directory(volume, path)?;
        if path.names.is_empty() { Err("the volume itself is no file") } else { Ok(path) }
    }

    /// The volume itself.
    pub(crate) fn root(volume: &ResourceName) -> Self {
        Self { volume: volume.clone(), names: Vec::new() }
    }

    /// The volume.
    pub fn volume(&self) -> &ResourceName {
        &self.volume
    }

    /// As text.
    pub fn as_text(&self) -> String {
        self.names.join("/")
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The names of the directories above the last name, and that; nothing of the volume itself.
    pub(crate) fn split_last(&self) -> Option<(&[String], &str)> {
        self.names.split_last().map(|(last, above)| (above, last.as_str()))
    }

    /// The way from the root of all volumes: where it begins, one of our own names.
    pub(crate) fn names_from_root(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.volume.as_str()).chain(self.names.iter().map(String::as_str))
    }
}

#[cfg(test)]
impl VolumePath {
    /// One that no function can ask for: what is refused here is not what keeps it away.
    pub(crate) fn unchecked(volume: &ResourceName, names: &[&str]) -> Self {
        Self { volume: volume.clone(), names: names.iter().map(|name| (*name).to_owned()).collect() }
    }
}
