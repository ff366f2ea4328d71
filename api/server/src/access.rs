//! Who may call what: one table from route to the scope it needs, and the gate that enforces it.
//!
//! The gate stands in front of every route and looks into the table with the route's own
//! template. A route without a row is refused, so forgetting a row can only close a door. What one
//! scope implies of the others is said by `Scope::implies`; nothing else decides about scopes.
//! Tenants are separated by the queries, which all take the caller's tenant.

use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::header::{ALLOW, AUTHORIZATION};
use http::request::Parts;
use http::{Extensions, HeaderMap, Method, StatusCode};
use mfaas_catalog::{Actor, Token};
use mfaas_ident::{PeerKey, Scope, TenantName};
use mfaas_rules::codes;

use crate::app::App;
use crate::connections::Connection;
use crate::console::Session;
use crate::limits;
use crate::oidc::CALLBACK_PATH;
use crate::pools::{Pool, work};
use crate::refusal::Refusal;
use crate::shares::Holder;
use crate::token::Secret;

/// What a route asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing: health, numbers, the API's description, the sign-in page.
    Open,
    /// A bearer token with this scope.
    Token(Scope),
    /// The same, and the token may stand in the header without a word in front of it, as cargo sends it to
    /// a registry.
    Registry(Scope),
    /// A console session whose token has this scope.
    Session(Scope),
}

/// Where sources are sent to.
const UPLOAD_PATH: &str = "/v1/functions/{name}/deployments";

/// Every route of the HTTP listener. `GET` rows answer `HEAD` too.
pub const TABLE: &[(&str, &str, Access)] = &[
    ("GET", "/healthz", Access::Open),
    ("GET", "/readyz", Access::Open),
    ("GET", "/metrics", Access::Open),
    ("GET", "/openapi.json", Access::Open),
    ("POST", UPLOAD_PATH, Access::Token(Scope::Deploy)),
    ("GET", "/v1/functions/{name}/deployments", Access::Token(Scope::Read)),
    ("GET", "/v1/deployments/{id}", Access::Token(Scope::Read)),
    ("GET", "/v1/deployments/{id}/events", Access::Token(Scope::Read)),
    ("GET", "/v1/functions", Access::Token(Scope::Read)),
    ("GET", "/v1/functions/{name}", Access::Token(Scope::Read)),
    ("DELETE", "/v1/functions/{name}", Access::Token(Scope::Deploy)),
    ("GET", "/v1/functions/{name}/versions", Access::Token(Scope::Read)),
    ("GET", "/v1/functions/{name}/versions/{version}", Access::Token(Scope::Read)),
    ("GET", "/v1/functions/{name}/aliases", Access::Token(Scope::Read)),
    ("PUT", "/v1/functions/{name}/aliases/{alias}", Access::Token(Scope::Deploy)),
    ("GET", "/v1/functions/{name}/logs", Access::Token(Scope::Read)),
    ("GET", "/v1/functions/{name}/endpoints", Access::Token(Scope::Read)),
    ("GET", "/v1/artifacts/{digest}", Access::Token(Scope::Read)),
    ("GET", "/v1/artifacts/{digest}/statement", Access::Token(Scope::Read)),
    ("GET", "/v1/crates", Access::Token(Scope::Read)),
    ("GET", "/v1/allowlist", Access::Token(Scope::Read)),
    ("POST", "/v1/crates/{name}/{version}/revocation", Access::Token(Scope::Review)),
    ("PUT", "/v1/imports/advisories", Access::Token(Scope::Review)),
    ("PUT", "/v1/imports/audits", Access::Token(Scope::Review)),
    ("GET", "/v1/requests", Access::Token(Scope::Read)),
    ("POST", "/v1/requests", Access::Token(Scope::Deploy)),
    ("GET", "/v1/requests/{id}", Access::Token(Scope::Read)),
    ("GET", "/v1/reviews", Access::Token(Scope::Review)),
    ("GET", "/v1/reviews/{id}", Access::Token(Scope::Review)),
    ("GET", "/v1/reviews/{id}/report", Access::Token(Scope::Review)),
    ("POST", "/v1/reviews/{id}/votes", Access::Token(Scope::Review)),
    ("PUT", "/v1/reviews/{id}/hotspots", Access::Token(Scope::Review)),
    ("GET", "/v1/keys", Access::Token(Scope::Read)),
    ("GET", "/v1/whoami", Access::Token(Scope::Read)),
    ("GET", "/v1/builders", Access::Token(Scope::Operate)),
    ("GET", "/v1/nodes", Access::Token(Scope::Operate)),
    ("PUT", "/v1/nodes/{name}/availability", Access::Token(Scope::Operate)),
    ("GET", "/v1/bans", Access::Token(Scope::Read)),
    ("DELETE", "/v1/bans/{id}", Access::Token(Scope::Operate)),
    ("GET", "/v1/usage", Access::Token(Scope::Read)),
    ("GET", "/v1/call-tokens", Access::Token(Scope::Deploy)),
    ("POST", "/v1/call-tokens", Access::Token(Scope::Deploy)),
    ("DELETE", "/v1/call-tokens", Access::Token(Scope::Deploy)),
    ("DELETE", "/v1/call-tokens/{id}", Access::Token(Scope::Deploy)),
    ("POST", "/v1/call-keys", Access::Token(Scope::Admin)),
    ("GET", "/v1/tokens", Access::Token(Scope::Admin)),
    ("POST", "/v1/tokens", Access::Token(Scope::Admin)),
    ("DELETE", "/v1/tokens/{id}", Access::Token(Scope::Admin)),
    ("GET", "/v1/audit", Access::Token(Scope::Operate)),
    ("GET", "/v1/audit/chain", Access::Token(Scope::Operate)),
    ("GET", "/v1/serving-set", Access::Token(Scope::Operate)),
    ("GET", "/index/config.json", Access::Registry(Scope::Read)),
    ("GET", "/index/{first}/{second}", Access::Registry(Scope::Read)),
    ("GET", "/index/{first}/{second}/{name}", Access::Registry(Scope::Read)),
    ("GET", "/index-archives/{name}/{version}", Access::Registry(Scope::Read)),
    ("GET", "/static/{file}", Access::Open),
    ("GET", "/sign-in", Access::Open),
    ("POST", "/sign-in", Access::Open),
    ("GET", "/sign-in/provider", Access::Open),
    ("GET", "/sign-in/callback", Access::Open),
    ("POST", "/sign-out", Access::Session(Scope::Read)),
    ("GET", "/", Access::Session(Scope::Read)),
    ("GET", "/functions", Access::Session(Scope::Read)),
    ("GET", "/functions/{name}", Access::Session(Scope::Read)),
    ("GET", "/deployments/{id}", Access::Session(Scope::Read)),
    ("GET", "/deployments/{id}/events", Access::Session(Scope::Read)),
    ("GET", "/crates", Access::Session(Scope::Read)),
    ("GET", "/crates/{name}", Access::Session(Scope::Read)),
    ("GET", "/crates/{name}/{version}/revocation", Access::Session(Scope::Review)),
    ("POST", "/crates/{name}/{version}/revocation", Access::Session(Scope::Review)),
    ("GET", "/reviews", Access::Session(Scope::Review)),
    ("GET", "/reviews/{id}", Access::Session(Scope::Review)),
    ("POST", "/reviews/{id}/votes", Access::Session(Scope::Review)),
    ("POST", "/reviews/{id}/hotspots", Access::Session(Scope::Review)),
    ("GET", "/reviews/{id}/files/{*path}", Access::Session(Scope::Review)),
    ("GET", "/usage", Access::Session(Scope::Read)),
    ("GET", "/nodes", Access::Session(Scope::Operate)),
    ("POST", "/nodes/{name}/availability", Access::Session(Scope::Operate)),
    ("POST", "/bans/{id}/lift", Access::Session(Scope::Operate)),
    ("GET", "/audit", Access::Session(Scope::Operate)),
];

/// Paths of the release before, each with the one that has taken its place. They lead to the same handlers for one
/// release, and are not described.
pub const RENAMED: &[(&str, &str)] = &[
    ("/v1/reviews/{id}/voices", "/v1/reviews/{id}/votes"),
    ("/v1/reviews/{id}/spots", "/v1/reviews/{id}/hotspots"),
    ("/reviews/{id}/voices", "/reviews/{id}/votes"),
    ("/reviews/{id}/spots", "/reviews/{id}/hotspots"),
];

/// The template of today for one of the release before, any other as it is.
fn current(template: &str) -> &str {
    RENAMED.iter().find(|(old, _)| *old == template).map_or(template, |(_, new)| new)
}

/// The row of a route; `None` for a route that was forgotten.
pub fn access_of(method: &Method, template: &str) -> Option<Access> {
    let template = current(template);
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    TABLE.iter().find(|(m, path, _)| *m == method && *path == template).map(|(_, _, access)| *access)
}

/// The gate: a layer around every route.
pub async fn gate(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let Some(template) =
        request.extensions().get::<MatchedPath>().map(|path| current(path.as_str()).to_owned())
    else {
        // No route: the fallback answers 404 and touches nothing.
        return next.run(request).await;
    };
    let Some(access) = access_of(request.method(), &template) else {
        return no_row(request.method(), &template);
    };
    let (pool, bytes_max) = intake(request.method(), &template, access);
    match admit(&app, &mut request, access).await {
        Ok(true) => match pool {
            Some(pool) => match holder_of(&request) {
                Ok(holder) => work(&app, pool, holder, bytes_max, request, next).await,
                Err(refusal) => refusal.into_response(),
            },
            None => next.run(request).await,
        },
        Ok(false) => Redirect::to("/sign-in").into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

/// Whom what the request holds is counted for: the tenant of its token, or its address.
fn holder_of(request: &Request) -> Result<Holder, Refusal> {
    match request.extensions().get::<Token>() {
        Some(token) => Ok(Holder::Tenant(token.tenant.clone())),
        None => peer_of(request.extensions()).map(Holder::Peer),
    }
}

/// The address that a request came from.
pub(crate) fn peer_of(extensions: &Extensions) -> Result<PeerKey, Refusal> {
    let connection = extensions.get::<Arc<Connection>>();
    connection
        .map(|connection| connection.peer())
        .ok_or_else(|| Refusal::internal("a request came over no connection"))
}

/// Which permits a route takes, and how many bytes of a body. None for the one answer that has to come whatever else
/// the server does; it costs nothing.
fn intake(method: &Method, template: &str, access: Access) -> (Option<Pool>, usize) {
    let pool = match (access, template) {
        (Access::Open, "/healthz") => None,
        (Access::Open, "/readyz" | "/metrics") => Some(Pool::Health),
        (Access::Open, "/sign-in/provider" | CALLBACK_PATH) => Some(Pool::Provider),
        (Access::Open, _) => Some(Pool::Anonymous),
        (Access::Token(_), UPLOAD_PATH) if method == Method::POST => Some(Pool::Upload),
        (Access::Token(_) | Access::Registry(_) | Access::Session(_), _) => Some(Pool::Known),
    };
    let bytes_max = match (access, template) {
        (Access::Open, "/readyz" | "/metrics" | "/sign-in/provider" | CALLBACK_PATH) => 0,
        (Access::Open, _) => limits::ANONYMOUS_BYTES_MAX,
        (_, "/v1/imports/advisories" | "/v1/imports/audits") => limits::IMPORT_BYTES_MAX,
        (Access::Token(_) | Access::Registry(_) | Access::Session(_), _) => limits::JSON_BYTES_MAX,
    };
    (pool, bytes_max)
}

/// Puts the caller's token (and session) into the request. `false` when a page has to ask for a
/// sign-in first.
async fn admit(app: &App, request: &mut Request, access: Access) -> Result<bool, Refusal> {
    match access {
        Access::Open => {}
        Access::Token(scope) => {
            let peer = peer_of(request.extensions())?;
            let token = bearer(app, peer, request.headers(), scope).await?;
            request.extensions_mut().insert(token);
        }
        Access::Registry(scope) => {
            let peer = peer_of(request.extensions())?;
            let token = bearer_or_bare(app, peer, request.headers(), scope).await?;
            request.extensions_mut().insert(token);
        }
        Access::Session(scope) => {
            let Some((session, token)) = session(app, request.headers(), scope).await? else {
                return Ok(false);
            };
            request.extensions_mut().insert(token);
            request.extensions_mut().insert(session);
        }
    }
    Ok(true)
}

/// A route without a row for this method: `OPTIONS` learns the path's methods, everything else is
/// told them with a 405. A path without any row was forgotten, which closes the route.
fn no_row(method: &Method, template: &str) -> Response {
    let mut allowed: Vec<_> =
        TABLE.iter().filter(|(_, path, _)| *path == template).map(|(known, _, _)| *known).collect();
    if allowed.is_empty() {
        return Refusal::internal(format!("route {template} has no row in the access table")).into_response();
    }
    if let Some(get) = allowed.iter().position(|known| *known == "GET") {
        allowed.insert(get + 1, "HEAD");
    }
    allowed.push("OPTIONS");
    let allow = [(ALLOW, allowed.join(", "))];
    if method == Method::OPTIONS {
        return (StatusCode::NO_CONTENT, allow).into_response();
    }
    let detail = format!("`{template}` answers {} only.", allowed.join(", "));
    let refusal = Refusal::new(codes::MF0911, detail).status(StatusCode::METHOD_NOT_ALLOWED);
    (allow, refusal).into_response()
}

fn no_token() -> Refusal {
    Refusal::new(codes::MF0901, "The request carries no bearer token.")
}

fn authorization(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()
}

async fn bearer(app: &App, peer: PeerKey, headers: &HeaderMap, scope: Scope) -> Result<Token, Refusal> {
    let text = authorization(headers).and_then(|text| text.strip_prefix("Bearer ")).ok_or_else(no_token)?;
    authenticate(app, peer, text, scope).await
}

async fn bearer_or_bare(
    app: &App,
    peer: PeerKey,
    headers: &HeaderMap,
    scope: Scope,
) -> Result<Token, Refusal> {
    let text = authorization(headers).ok_or_else(no_token)?;
    authenticate(app, peer, text.strip_prefix("Bearer ").unwrap_or(text), scope).await
}

/// The token of that text, shown by `peer`, provided that it holds `scope`.
pub(crate) async fn authenticate(
    app: &App,
    peer: PeerKey,
    text: &str,
    scope: Scope,
) -> Result<Token, Refusal> {
    let unknown = || Refusal::new(codes::MF0901, "The token is not known, has expired or was withdrawn.");
    let (id, secret) = Secret::parse(text).ok_or_else(unknown)?;
    let hash = secret.hash();
    let looking = async { Ok(app.catalog.authenticate(&hash).await?) };
    let token = app.lookups.token(peer, &hash, looking).await?.ok_or_else(unknown)?;
    if token.id != id {
        return Err(unknown());
    }
    require(token, scope)
}

/// `None` when nobody is signed in. The token is looked up each time: withdrawing it ends its
/// sessions at once.
async fn session(app: &App, headers: &HeaderMap, scope: Scope) -> Result<Option<(Session, Token)>, Refusal> {
    let Some(session) = app.sessions.of(headers) else { return Ok(None) };
    let looking = async { Ok(app.catalog.authenticate(&session.secret_sha256).await?) };
    match app.lookups.session(looking).await? {
        Some(token) => Ok(Some((session, require(token, scope)?))),
        None => Ok(None),
    }
}

fn require(token: Token, scope: Scope) -> Result<Token, Refusal> {
    if token.holds(scope) {
        return Ok(token);
    }
    if scope == Scope::Review && token.lacks_a_person() {
        return Err(Refusal::new(codes::MF0913, "The token names no person, and only people decide."));
    }
    Err(Refusal::new(codes::MF0902, format!("The token lacks the scope `{scope}`.")))
}

/// The caller and the tenant whose things are meant: the token's own, or for an admin the one
/// named by `?tenant=`.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who calls.
    pub token: Token,
    /// Whose things.
    pub tenant: TenantName,
}

impl Caller {
    /// How audit rows name the caller.
    pub fn actor(&self) -> Actor {
        Actor::token(&self.token)
    }

    /// Of which tenant the caller sees decisions about crates, and requests for them, beside those for everybody; of all
    /// when `None`: whoever reviews decides for all.
    pub fn decisions_of(&self) -> Option<&TenantName> {
        if self.token.holds(Scope::Review) { None } else { Some(&self.tenant) }
    }
}

/// The token that the door put into the request; a handler without a door refuses everybody.
fn token_of(parts: &Parts) -> Result<Token, Refusal> {
    parts
        .extensions
        .get::<Token>()
        .cloned()
        .ok_or_else(|| Refusal::internal("a handler that needs a caller is behind an open door"))
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
pub struct Founder(pub Caller);

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
pub struct Sight {
    /// Who calls.
    pub token: Token,
    /// Of this tenant; of all when `None`.
    pub tenant: Option<TenantName>,
}

impl Sight {
    /// How audit rows name the caller.
    pub fn actor(&self) -> Actor {
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
