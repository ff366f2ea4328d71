//! Names that are on their way: the set that the node is being brought to.
//!
//! Asked only about names that the table does not know. Must never name what was refused for good: nobody should wait for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use mfaas_attest::{ServingSet, Verified};
use mfaas_ident::{AliasName, FunctionName, Selector, TenantName, VersionNumber};

/// A version by what callers call it.
pub(crate) type VersionName = (TenantName, FunctionName, VersionNumber);

/// A set that is not, or not all, in force.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) set: Arc<Verified<ServingSet>>,
    /// What may still come of it; everything before it was tried.
    pub(crate) only: Option<BTreeSet<VersionName>>,
}

impl Awaited {
    /// Whether that version is on its way. The set is sorted by tenant and name, which was checked with its signature.
    pub(super) fn names(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
        selector: Option<&Selector>,
    ) -> bool {
        let rows = &self.set.functions;
        let place = rows.binary_search_by(|row| (&row.tenant, &row.name).cmp(&(tenant, function)));
        let Some(row) = place.ok().and_then(|place| rows.get(place)) else { return false };
        let version = match selector {
            None => row.aliases.get(&AliasName::live()).copied(),
            Some(Selector::Alias(alias)) => row.aliases.get(alias).copied(),
            Some(Selector::Version(version)) => {
                row.versions.iter().map(|row| row.version).find(|named| named == version)
            }
        };
        let Some(version) = version else { return false };
        let is_coming =
            |only: &BTreeSet<VersionName>| only.contains(&(tenant.clone(), function.clone(), version));
        self.only.as_ref().is_none_or(is_coming)
    }
}
