//! What an invocation may name, and which loaded version it then means.
//!
//! It changes by whole functions, under a lock that nobody holds for longer than that takes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use mfaas_abi::limits;
use mfaas_dispatch::FunctionId;
use mfaas_ident::{
    Access, AliasName, Binding, Callers, Class, FunctionName, ResourceKind, Selector, TenantName,
    VersionNumber,
};

use crate::function_tree::Name;
use crate::image::{ImageKey, Terms, VerifiedImage};

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
    /// Which tenants' functions may call it besides its own, by the same statement.
    pub(crate) callers: Arc<Callers>,
    /// What its calls get, by the same statement.
    pub(crate) terms: Terms,
    /// What it may reach, data and functions, by the same statement, in the order of the names.
    pub(crate) bindings: Arc<[Binding]>,
}

impl Served {
    /// A function of class `micro`.
    #[cfg(test)]
    pub(crate) fn for_test(id: FunctionId, key: ImageKey, access: Access) -> Self {
        let terms = Terms { class: Class::Micro, budget: key.budget, memory: key.memory };
        Self { id, key, access, callers: Arc::default(), terms, bindings: Arc::default() }
    }

    /// What the body of a request or of its answer may have, in bytes.
    pub(crate) fn body_bytes_max(&self) -> usize {
        body_bytes_max(self.terms.class)
    }

    /// Whether functions of that tenant may call it.
    pub(super) fn lets_in(&self, tenant: &TenantName) -> bool {
        self.key.tenant == *tenant || self.access == Access::Public || self.callers.contains(tenant)
    }

    /// Whether what its calls wait for may be answered while they stay in their workers: it may read from caches, or call functions of
    /// its tenant.
    pub(super) fn may_ask(&self) -> bool {
        let answered_at_once = |binding: &Binding| match binding {
            Binding::Resource(binding) => binding.kind == ResourceKind::Cache,
            Binding::Function(binding) => *binding.function.tenant_for(&self.key.tenant) == self.key.tenant,
        };
        self.terms.class == Class::Micro && self.bindings.iter().any(answered_at_once)
    }
}

/// What the body of a request to a function of this class or of its answer may have, in bytes.
pub(crate) fn body_bytes_max(class: Class) -> usize {
    match class {
        Class::Micro => limits::BODY_BYTES_MAX,
        Class::Bulk => limits::BULK_BODY_BYTES_MAX,
    }
}

/// The aliases of one function, and the image of each version that an alias or a number can name. Without images the
/// function is not served.
#[derive(Debug, Clone, Default)]
pub(crate) struct Route {
    pub(crate) aliases: BTreeMap<AliasName, VersionNumber>,
    pub(crate) images: BTreeMap<VersionNumber, Arc<VerifiedImage>>,
}

/// The same as calls need it.
#[derive(Debug)]
pub(super) struct Names {
    aliases: BTreeMap<AliasName, VersionNumber>,
    versions: BTreeMap<VersionNumber, Arc<Served>>,
}

impl Names {
    /// The version that `live` names.
    pub(super) fn live(&self) -> Option<&Arc<Served>> {
        self.versions.get(self.aliases.get(&*LIVE)?)
    }

    /// `served` says what the scheduler knows each version as.
    pub(super) fn of(route: &Route, mut served: impl FnMut(&VerifiedImage) -> Served) -> Self {
        let versions = route.images.iter().map(|(version, image)| (*version, Arc::new(served(image))));
        Self { aliases: route.aliases.clone(), versions: versions.collect() }
    }
}

/// All names.
#[derive(Debug, Default)]
pub(super) struct Table {
    tenants: HashMap<TenantName, HashMap<FunctionName, Names>>,
}

impl Table {
    /// From now on these are the names of a function. Without versions it has none.
    pub(super) fn replace(&mut self, (tenant, function): Name, names: Names) {
        if !names.versions.is_empty() {
            self.tenants.entry(tenant).or_default().insert(function, names);
        } else if let Some(functions) = self.tenants.get_mut(&tenant) {
            functions.remove(&function);
            if functions.is_empty() {
                self.tenants.remove(&tenant);
            }
        }
    }

    /// The version that `selector` means now; none given means the alias `live`.
    pub(super) fn resolve(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
        selector: Option<&Selector>,
    ) -> Option<&Arc<Served>> {
        let names = self.tenants.get(tenant)?.get(function)?;
        let version = match selector {
            Some(Selector::Version(version)) => *version,
            Some(Selector::Alias(alias)) => *names.aliases.get(alias)?,
            None => return names.live(),
        };
        names.versions.get(&version)
    }

    /// Every version that answers.
    pub(super) fn served(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.tenants.values().flat_map(HashMap::values).flat_map(|names| names.versions.values())
    }
}
