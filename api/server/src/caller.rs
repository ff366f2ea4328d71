//! Who calls and for whom, as handlers get it. The token was found before, by [`crate::authorize`].

use axum::extract::FromRequestParts;
use http::request::Parts;
use mfaas_catalog::{Actor, Token};
use mfaas_ident::{Scope, TenantName};

use crate::refusal::Refusal;
use crate::state::App;

/// The caller and the tenant whose things are meant: the token's own, or for an admin the one
/// named by `?tenant=`.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Who calls.
    pub token: Token,
    /// Whose things.
    pub tenant: TenantName,
}

impl Caller {
    /// How audit rows name the caller.
    pub(crate) fn actor(&self) -> Actor {
        Actor::token(&self.token)
    }

    /// Of which tenant the caller sees decisions about crates, and requests for them, beside those for everybody; of all
    /// when `None`: whoever reviews decides for all.
    pub(crate) fn decisions_of(&self) -> Option<&TenantName> {
        if self.token.holds(Scope::Review) { None } else { Some(&self.tenant) }
    }
}

/// The token that authorization put into the request; a handler without it refuses everybody.
fn token_of(parts: &Parts) -> Result<Token, Refusal> {
    parts.extensions.get::<Token>().cloned().ok_or_else(|| {
        Refusal::internal("a handler that needs a caller stands at a route that asks for none")
    })
}

impl FromRequestParts<App> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let token = token_of(parts)?;
        let tenant = match named_tenant(parts.uri.query().unwrap_or(""))? {
            None => token.tenant.clone(),
            Some(named) => known_tenant(app, &token, Scope::Admin, named).await?,
        };
        Ok(Self { token, tenant })
    }
}

/// The same for the one route that makes a tenant by naming it: the tenant may be new.
#[derive(Debug, Clone)]
pub(crate) struct Founder(pub Caller);

impl FromRequestParts<App> for Founder {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let token = token_of(parts)?;
        match named_tenant(parts.uri.query().unwrap_or(""))? {
            Some(tenant) if token.holds(Scope::Admin) => Ok(Self(Caller { token, tenant })),
            _ => Caller::from_request_parts(parts, app).await.map(Self),
        }
    }
}

/// The caller and whose usage and bans they see: their own tenant's, and for whoever operates the site everybody's, or
/// those of the one that they name.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    /// Who calls.
    pub token: Token,
    /// Of this tenant; of all when `None`.
    pub tenant: Option<TenantName>,
}

impl Sight {
    /// How audit rows name the caller.
    pub(crate) fn actor(&self) -> Actor {
        Actor::token(&self.token)
    }
}

impl FromRequestParts<App> for Sight {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let token = token_of(parts)?;
        let tenant = match named_tenant(parts.uri.query().unwrap_or(""))? {
            None if token.holds(Scope::Operate) => None,
            None => Some(token.tenant.clone()),
            Some(named) => Some(known_tenant(app, &token, Scope::Operate, named).await?),
        };
        Ok(Self { token, tenant })
    }
}

/// The named tenant, if it is the token's own, or if the token holds `scope` and there is such a tenant. Whoever may
/// not look at others cannot tell one that is not theirs from one that does not exist.
async fn known_tenant(
    app: &App,
    token: &Token,
    scope: Scope,
    named: TenantName,
) -> Result<TenantName, Refusal> {
    let is_known = named == token.tenant || (token.holds(scope) && app.catalog.has_tenant(&named).await?);
    if is_known { Ok(named) } else { Err(Refusal::not_found(format!("tenant `{named}`"))) }
}

/// The value of `tenant=` in a query string. Tenant names need no percent-encoding, so a value
/// with one is no tenant name.
fn named_tenant(query: &str) -> Result<Option<TenantName>, Refusal> {
    let mut values = query.split('&').filter_map(|pair| pair.strip_prefix("tenant="));
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            TenantName::parse(value).map(Some).map_err(|error| Refusal::invalid(error.to_string()))
        }
        (Some(_), Some(_)) => Err(Refusal::invalid("`tenant` is given more than once.")),
    }
}
