//! Which version a function means that calls another one: what the alias `live` of that names, if that lets it in.
//!
//! Apart from the table of names, which a caller holds while it hands its call to the engine: the engine asks in here meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use mfaas_ident::{CalleeName, TenantName};
use mfaas_rules::codes;

use super::call::NotBegun;
use super::table::Served;
use crate::function_tree::Name;
use crate::limiter::{Limiter, Place, Share};

const NOT_SERVED: NotBegun = NotBegun::new(
    codes::MF1210,
    "this node serves no function of that name, or it lets no function of this tenant call it",
);
const USED_UP: NotBegun = NotBegun::new(
    codes::MF0818,
    "the tenant's calls a second, or calls at a time, of this function of another tenant are used up",
);

/// The live version of each function, and how much each tenant calls of those of others.
#[derive(Debug, Default)]
pub(crate) struct Callees {
    live: RwLock<HashMap<Name, Arc<Served>>>,
    limiter: Limiter,
    share: Share,
}

impl Callees {
    /// Of functions of other tenants each tenant gets `share` of each.
    pub(crate) fn new(share: Share) -> Self {
        Self { share, ..Self::default() }
    }

    /// From now on this is the live version of a function, if it has one.
    pub(super) fn replace(&self, name: &Name, live: Option<Arc<Served>>) {
        let mut all = self.live.write().unwrap_or_else(PoisonError::into_inner);
        match live {
            Some(live) => drop(all.insert(name.clone(), live)),
            None => drop(all.remove(name)),
        }
    }

    /// The version that a function of `caller` means, and a place among the calls of its tenant if it is another tenant's.
    pub(super) fn find(
        &self,
        caller: &TenantName,
        callee: &CalleeName,
    ) -> Result<(Arc<Served>, Option<Place>), NotBegun> {
        let name = (callee.tenant_for(caller).clone(), callee.function.clone());
        let served = {
            let all = self.live.read().unwrap_or_else(PoisonError::into_inner);
            all.get(&name).filter(|served| served.lets_in(caller)).cloned().ok_or(NOT_SERVED)?
        };
        if name.0 == *caller {
            return Ok((served, None));
        }
        let place = self.limiter.take(&(caller, &name), self.share).map_err(|_| USED_UP)?;
        Ok((served, Some(place)))
    }
}
