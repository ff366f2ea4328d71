//! Which version a function means that calls another one: what the alias `live` of that names.
//!
//! Apart from the table of names, which a caller holds while it hands its call to the engine: the engine asks in here meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use mfaas_ident::{FunctionName, TenantName};

use super::table::Served;
use crate::function_tree::Name;

/// The live version of each function.
#[derive(Debug, Default)]
pub(crate) struct Callees(RwLock<HashMap<Name, Arc<Served>>>);

impl Callees {
    /// From now on this is the live version of a function, if it has one.
    pub(super) fn replace(&self, name: &Name, live: Option<Arc<Served>>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match live {
            Some(live) => drop(all.insert(name.clone(), live)),
            None => drop(all.remove(name)),
        }
    }

    /// The live version of a function of the tenant.
    pub(super) fn live(&self, tenant: &TenantName, function: &FunctionName) -> Option<Arc<Served>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&(tenant.clone(), function.clone())).cloned()
    }
}
