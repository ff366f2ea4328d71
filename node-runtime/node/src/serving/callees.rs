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
use crate::image::ImageKey;
use crate::limiter::{Limiter, Place, Share};

const NOT_SERVED: NotBegun = NotBegun::new(
    codes::MF1210,
    "this node serves no function of that name, or it lets no function of this tenant call it",
);
const USED_UP: NotBegun = NotBegun::new(
    codes::MF0818,
    "the tenant's calls a second, or calls at a time, of this function of another tenant are used up",
);
const TOO_MANY: NotBegun =
    NotBegun::new(codes::MF0818, "as many calls of that function as the caller may have at a time are open");

/// A call that a function makes of another one.
#[derive(Debug)]
pub(crate) struct Entered {
    /// The version that answers it.
    pub(super) served: Arc<Served>,
    /// Among those that are open.
    pub(super) place: Place,
    /// Whether it is another tenant's.
    pub(super) is_foreign: bool,
}

/// The live version of each function, and how much each function calls of others, and each tenant of those of other tenants.
#[derive(Debug, Default)]
pub(crate) struct Callees {
    live: RwLock<HashMap<Name, Arc<Served>>>,
    limiter: Limiter,
    share: Share,
}

impl Callees {
    /// Of functions of other tenants each tenant gets `share` of each; of those of its own tenant each function has as many calls
    /// open at a time.
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

    /// The version that a function of `caller` means.
    pub(super) fn find(&self, caller: &TenantName, callee: &CalleeName) -> Result<Arc<Served>, NotBegun> {
        let name = (callee.tenant_for(caller).clone(), callee.function.clone());
        let all = self.live.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&name).filter(|served| served.lets_in(caller)).cloned().ok_or(NOT_SERVED)
    }

    /// A function calls another one.
    pub(super) fn enter(&self, caller: &ImageKey, callee: &CalleeName) -> Result<Entered, NotBegun> {
        let served = self.find(&caller.tenant, callee)?;
        let called = (&served.key.tenant, &served.key.function);
        let is_foreign = served.key.tenant != caller.tenant;
        let place = if is_foreign {
            self.limiter.take(&(&caller.tenant, called), self.share).map_err(|_| USED_UP)
        } else {
            let share = Share { rate: u32::MAX, ..self.share };
            self.limiter.take(&(&caller.tenant, &caller.function, called), share).map_err(|_| TOO_MANY)
        }?;
        Ok(Entered { served, place, is_foreign })
    }
}
