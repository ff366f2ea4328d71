//! One function of a serving set: its aliases, its versions and what of it must not run any more.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_ident::{
    AliasName, Budget, DataAccess, Digest, FunctionName, MemoryLimit, ResourceName, Selector, TenantName,
    VersionNumber,
};

/// Of so many versions of a function, the newest, its leaf says which are revoked. Of older ones nobody knows it from a set.
pub const REVOKED_VERSIONS_TOLD: u32 = 100;
/// Aliases of one function, and versions of it in one set.
pub const ALIASES_MAX: usize = 50;
const VERSIONS_MAX: usize = 100;
/// Resources of one function in one set: as many as all its versions can bind would not fit into a shard, so the newest count.
pub const RESOURCES_MAX: usize = 32;
/// Revoked artifacts of one function in one set.
const REVOKED_MAX: usize = REVOKED_VERSIONS_TOLD as usize;

/// One function of a set.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedFunction {
    /// Its owner.
    pub tenant: TenantName,
    /// Its name within the tenant.
    pub name: FunctionName,
    /// Alias to version; every version named here is in `versions`.
    pub aliases: BTreeMap<AliasName, VersionNumber>,
    /// The versions that can be called, ascending; none where all that is left to say is what must not run.
    pub versions: Vec<ServedVersion>,
    /// Artifacts of its newest [`REVOKED_VERSIONS_TOLD`] versions that must not run any more, not even for calls that were
    /// accepted, whatever else says so.
    pub revoked: BTreeSet<Digest>,
    /// What its tenant was granted of the resources that its versions bind; a version reaches no other. A node of a release that
    /// knew of no data refuses a shard in which a function names some, and with it the set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<ResourceName, DataAccess>,
}

/// One callable version.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedVersion {
    /// Its number.
    pub version: VersionNumber,
    /// The artifact.
    pub digest: Digest,
    /// The envelope of the statement about this artifact as this version.
    pub statement: Digest,
    /// CPU time per invocation, µs. Never more than a function of class `micro` may have, so that every release can
    /// read the set: what a bulk function may use beyond that its statement says.
    pub budget_us: Budget,
    /// Arena size, bytes; the same holds.
    pub memory_bytes: MemoryLimit,
}

impl ServedVersion {
    /// What a set says of a version with this budget and memory.
    pub fn told(budget: Budget, memory: MemoryLimit) -> (Budget, MemoryLimit) {
        (budget.min(Budget::MICRO_MAX), memory.min(MemoryLimit::MICRO_MAX))
    }
}

impl ServedFunction {
    /// The version that `selector` means; none given means the alias `live`.
    pub fn resolve(&self, selector: Option<&Selector>) -> Option<&ServedVersion> {
        let number = match selector {
            Some(Selector::Version(number)) => *number,
            Some(Selector::Alias(alias)) => *self.aliases.get(alias)?,
            None => *self.aliases.get(&AliasName::live())?,
        };
        self.versions.iter().find(|v| v.version == number)
    }

    /// Whether the set says of that version whether it is revoked.
    pub fn tells_of(&self, version: VersionNumber) -> bool {
        let newest = self.versions.last().map_or(0, |newest| newest.version.get());
        newest < version.get().saturating_add(REVOKED_VERSIONS_TOLD)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { tenant, name, aliases, versions, revoked, resources } = self;
        if versions.is_empty() && revoked.is_empty() {
            return Err(format!("{tenant}/{name} is named for nothing"));
        }
        if !versions.windows(2).all(|w| w[0].version < w[1].version) {
            return Err(format!("versions of {tenant}/{name} are not ascending"));
        }
        let counts = [
            ("aliases", aliases.len(), ALIASES_MAX),
            ("versions", versions.len(), VERSIONS_MAX),
            ("revoked artifacts", revoked.len(), REVOKED_MAX),
            ("resources", resources.len(), RESOURCES_MAX),
        ];
        if let Some((what, count, max)) = counts.into_iter().find(|(_, count, max)| count > max) {
            return Err(format!("{count} {what} of {tenant}/{name}, the limit is {max}"));
        }
        match self.aliases.iter().find(|(_, n)| !self.versions.iter().any(|v| v.version == **n)) {
            Some((alias, n)) => Err(format!(
                "{}/{}@{alias} names version {n}, which is not in the set",
                self.tenant, self.name
            )),
            None => Ok(()),
        }
    }
}
