//! Who calls: the layer that finds out and refuses, in front of every route of the HTTP listener.
//!
//! It looks into the table of [`crate::access`] with the route's own template. A route without a row
//! is refused, so forgetting a row can only close a route.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::header::{ALLOW, AUTHORIZATION};
use http::{HeaderMap, Method, StatusCode};
use mfaas_catalog::Token;
use mfaas_ident::{PeerKey, Scope};
use mfaas_rules::codes;

use crate::access::{ASSET_PATH, Access, UPLOAD_PATH, access_of, current, methods_of};
use crate::connections::peer_of;
use crate::limits;
use crate::oidc::CALLBACK_PATH;
use crate::pools::Pool;
use crate::refusal::Refusal;
use crate::sessions::Session;
use crate::shares::Holder;
use crate::state::App;
use crate::token::Secret;

/// The layer around every route.
pub(crate) async fn authorize(State(app): State<App>, mut request: Request, next: Next) -> Response {
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
                Ok(holder) => app.pools.work(pool, holder, bytes_max, request, next).await,
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

/// Which permits a route takes, and how many bytes of a body. None for the one answer that has to come whatever else
/// the server does; it costs nothing.
fn intake(method: &Method, template: &str, access: Access) -> (Option<Pool>, usize) {
    let pool = match (access, template) {
        (Access::Open, "/healthz") => None,
        (Access::Open, "/readyz" | "/metrics") => Some(Pool::Health),
        (Access::Open, "/sign-in/provider" | CALLBACK_PATH) => Some(Pool::Provider),
        (Access::Open, _) => Some(Pool::Anonymous),
        (Access::Token(_), UPLOAD_PATH) if method == Method::POST => Some(Pool::Upload),
        (Access::Token(_), ASSET_PATH) if method == Method::PUT => Some(Pool::Upload),
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
            let peer = peer_of(request.extensions())?;
            let Some((session, token)) = session(app, peer, request.headers(), scope).await? else {
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
    let mut allowed = methods_of(template);
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

/// `None` when nobody is signed in. Session and token are looked up each time: ending it at another server, or
/// withdrawing the token, counts at once.
async fn session(
    app: &App,
    peer: PeerKey,
    headers: &HeaderMap,
    scope: Scope,
) -> Result<Option<(Session, Token)>, Refusal> {
    let Some(session) = Session::shown(headers) else { return Ok(None) };
    let looking = async { Ok(app.catalog.session_token(&session.cookie_sha256).await?) };
    match app.lookups.token(peer, &session.cookie_sha256, looking).await? {
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
