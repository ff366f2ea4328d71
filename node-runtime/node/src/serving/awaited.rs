//! Names that are on their way: the set that the node is being brought to.
//!
//! Asked only about names that the table does not know. Must never name what was refused for good: nobody should wait for it.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use mfaas_ident::{FunctionName, Selector, TenantName, VersionNumber};

use crate::function_tree::FunctionTree;

/// A version by what callers call it.
pub(crate) type VersionName = (TenantName, FunctionName, VersionNumber);

/// A set that is not, or not all, in force.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) tree: Arc<RwLock<FunctionTree>>,
    /// What may still come of it; everything before it was tried.
    pub(crate) only: Option<BTreeSet<VersionName>>,
}

impl Awaited {
    /// Whether that version is on its way.
    pub(super) fn names(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
        selector: Option<&Selector>,
    ) -> bool {
        let tree = self.tree.read().unwrap_or_else(PoisonError::into_inner);
        let named = tree.function(tenant, function).and_then(|row| row.resolve(selector));
        let Some(version) = named.map(|row| row.version) else { return false };
        let is_coming =
            |only: &BTreeSet<VersionName>| only.contains(&(tenant.clone(), function.clone(), version));
        self.only.as_ref().is_none_or(is_coming)
    }
}
