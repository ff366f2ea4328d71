//! What an invocation may name, and which loaded version it then setup.
//!
//! It changes by whole functions, under a lock that nobody holds for longer than that takes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use mfaas_dispatch::FunctionId;
use mfaas_ident::{Access, AliasName, FunctionName, Selector, TenantName, VersionNumber};

use crate::image::ImageKey;

/// Made once: it is asked for with nearly every call.
static LIVE: LazyLock<AliasName> = LazyLock::new(AliasName::live);

/// One version that answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// Its number in the scheduler.
    pub(crate) id: FunctionId,
    pub(crate) key: ImageKey,
    /// Who may call it, by its signed statement.
    pub(crate) access: Access,
}

/// The versions of one function and the aliases into them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) aliases: BTreeMap<AliasName, VersionNumber>,
    pub(crate) versions: BTreeMap<VersionNumber, Arc<Served>>,
}

/// All routes.
#[derive(Debug, Default)]
pub(crate) struct Table {
    routes: HashMap<TenantName, HashMap<FunctionName, Route>>,
}

impl Table {
    pub(crate) fn insert(&mut self, tenant: TenantName, function: FunctionName, route: Route) {
        self.routes.entry(tenant).or_default().insert(function, route);
    }

    pub(crate) fn remove(&mut self, tenant: &TenantName, function: &FunctionName) {
        if let Some(functions) = self.routes.get_mut(tenant) {
            functions.remove(function);
            if functions.is_empty() {
                self.routes.remove(tenant);
            }
        }
    }

    /// The version that `selector` means now; none given means the alias `live`.
    pub(crate) fn resolve(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
        selector: Option<&Selector>,
    ) -> Option<&Arc<Served>> {
        let route = self.routes.get(tenant)?.get(function)?;
        let version = match selector {
            Some(Selector::Version(version)) => *version,
            Some(Selector::Alias(alias)) => *route.aliases.get(alias)?,
            None => *route.aliases.get(&*LIVE)?,
        };
        route.versions.get(&version)
    }

    /// Every version that answers.
    pub(crate) fn served(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.routes.values().flat_map(HashMap::values).flat_map(|route| route.versions.values())
    }
}
