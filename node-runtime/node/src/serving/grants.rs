//! What functions may do with the site's data, as the serving set says now.
//!
//! A statement says what a version binds, for ever; a grant can be revoked, also from calls that run.

use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock};

use mfaas_ident::{DataAccess, ResourceBinding, ResourceName};

use crate::function_tree::Name;
use crate::image::ImageKey;

/// What the tenants of functions were granted of what these bind.
#[derive(Debug, Default)]
pub(crate) struct Grants(RwLock<HashMap<Name, BTreeMap<ResourceName, DataAccess>>>);

impl Grants {
    /// From now on this is what a function's tenant was granted.
    pub(crate) fn replace(&self, name: &Name, resources: Option<&BTreeMap<ResourceName, DataAccess>>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match resources.filter(|resources| !resources.is_empty()) {
            Some(resources) => drop(all.insert(name.clone(), resources.clone())),
            None => drop(all.remove(name)),
        }
    }

    /// The same, as far as it is less than before: what was revoked counts before anything else of a set does.
    pub(crate) fn narrow(&self, name: &Name, resources: Option<&BTreeMap<ResourceName, DataAccess>>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(granted) = all.get_mut(name) else { return };
        granted.retain(|resource, access| {
            let now = resources.and_then(|resources| resources.get(resource));
            now.is_some_and(|now| {
                *access = (*access).min(*now);
                true
            })
        });
    }

    /// What a version may do with what it binds: what its statement says, and no more than was granted; nothing if nothing was.
    pub(crate) fn access(&self, key: &ImageKey, binding: &ResourceBinding) -> Option<DataAccess> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let granted = all.get(&(key.tenant.clone(), key.function.clone()))?.get(&binding.resource)?;
        Some(binding.access.min(*granted))
    }
}

#[cfg(test)]
mod tests;
