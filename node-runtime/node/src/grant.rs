//! What a caller has shown that it may call, and what an operator grants to programs of this machine.

use std::collections::BTreeMap;

use mfaas_ident::{Access, CallScope, FunctionName, ParseError, TenantName};

/// What a caller may do with one function of one tenant, whichever access its versions have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    /// One whose access is `tenant`.
    tenant: bool,
    /// One whose access is `token`.
    token: bool,
}

impl Grant {
    /// What anybody may: call what is public.
    pub(crate) const NOTHING: Self = Self { tenant: false, token: false };

    /// What a scope gives about a function of its own tenant.
    pub(crate) fn of(scope: &CallScope, function: &FunctionName) -> Self {
        let opens = |access| scope.opens(function, access);
        Self { tenant: opens(Access::Tenant), token: opens(Access::Token) }
    }

    /// Whether a function with that access may be called.
    pub(crate) fn opens(self, access: Access) -> bool {
        match access {
            Access::Public => true,
            Access::Tenant => self.tenant,
            Access::Token => self.token,
        }
    }

    /// Whether it gives anything that not everybody has.
    pub(crate) fn is_something(self) -> bool {
        self.tenant || self.token
    }
}

/// What programs that reach the local socket may call besides what is public: nothing unless an operator says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LocalGrants(BTreeMap<TenantName, CallScope>);

impl LocalGrants {
    /// Reads `tenant/function` and `tenant/*` with commas between them.
    pub(crate) fn parse(list: &str) -> Result<Self, ParseError> {
        let mut grants: BTreeMap<TenantName, CallScope> = BTreeMap::new();
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            // Without a slash the error names the missing function.
            let (tenant, function) = entry.split_once('/').unwrap_or((entry, ""));
            let (tenant, scope) = (TenantName::parse(tenant)?, CallScope::parse(&[function])?);
            let known = grants.remove(&tenant);
            grants.insert(tenant, known.map_or(scope.clone(), |known| known.and(scope)));
        }
        Ok(Self(grants))
    }

    /// What a program of this machine may do with that function.
    pub(crate) fn grant(&self, tenant: &TenantName, function: &FunctionName) -> Grant {
        self.0.get(tenant).map_or(Grant::NOTHING, |scope| Grant::of(scope, function))
    }
}

#[cfg(test)]
mod tests;
