//! Signing in with the OpenID provider: away to it, and back.
//!
//! A session begins as any other: with a token. It is made for the person, ends by itself, and its secret is told
//! to nobody, so all that is behind it (scopes, audit, withdrawal) is what it is for everybody.

use askama::Template;
use axum::extract::State;
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use chrono::Utc;
use http::HeaderMap;
use http::header::SET_COOKIE;
use mfaas_catalog::{Actor, NewToken};
use mfaas_rules::codes;

use super::frame::{Frame, html};
use super::sign::{is_secure, open_session, page};
use crate::extract::Query;
use crate::oidc::{Answer, Provider, SignedIn};
use crate::refusal::Refusal;
use crate::state::App;
use crate::token::Secret;

/// What such tokens are called, and who makes them.
const TOKEN_NAME: &str = "oidc";
const MAKER: &str = "mfaas-server:oidc";

#[derive(Template)]
#[template(path = "signed_in.html")]
struct SignedInPage {
    frame: Frame,
    person: String,
}

fn provider(app: &App) -> Result<&Provider, Refusal> {
    app.provider.as_ref().ok_or_else(|| Refusal::new(codes::MF0911, "Nobody signs in with a provider here."))
}

/// Leads the browser to the provider.
pub(super) async fn begin(
    State(app): State<App>,
    frame: Frame,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let provider = provider(&app)?;
    // A stranger's page has no business in beginning it; a link in a letter has.
    let site = headers.get("sec-fetch-site").map(http::HeaderValue::as_bytes);
    if !matches!(site, None | Some(b"same-origin" | b"none")) {
        let refusal = Refusal::new(codes::MF0914, "Begin on the sign-in page of this site.");
        return page(&app, frame, Some(&refusal));
    }
    match provider.begin(is_secure(&app)).await {
        Ok((url, cookie)) => Ok(([(SET_COOKIE, cookie)], Redirect::to(&url)).into_response()),
        Err(error) => page(&app, frame, Some(&error.into())),
    }
}

/// Takes the browser back from the provider.
///
/// The answer is a page and no redirect: a redirect would still be the provider's navigation, for which no
/// browser sends the session's `SameSite=Strict` cookie.
pub(super) async fn finish(
    State(app): State<App>,
    frame: Frame,
    headers: HeaderMap,
    answer: Result<Query<Answer>, Refusal>,
) -> Result<Response, Refusal> {
    let provider = provider(&app)?;
    let Query(answer) = answer?;
    let secure = is_secure(&app);
    let forget = (SET_COOKIE, provider.forget(secure));
    let signed_in = match provider.finish(&app.catalog, &headers, answer).await {
        Ok(signed_in) => signed_in,
        Err(error) => {
            return Ok((AppendHeaders([forget]), page(&app, frame, Some(&error.into()))?).into_response());
        }
    };
    let session = session_of(&app, provider, &signed_in, secure).await?;
    let page = SignedInPage { frame, person: signed_in.person.to_string() };
    let response = html(&page, &page.frame.nonce)?;
    Ok((AppendHeaders([forget, (SET_COOKIE, session)]), response).into_response())
}

/// A session that stands on a token of its own.
async fn session_of(
    app: &App,
    provider: &Provider,
    signed_in: &SignedIn,
    secure: bool,
) -> Result<String, Refusal> {
    let secret = Secret::generate().map_err(Refusal::internal)?;
    let new = NewToken {
        tenant: &signed_in.tenant,
        name: TOKEN_NAME,
        person: Some(&signed_in.person),
        scopes: signed_in.role.scopes(),
        secret_sha256: secret.hash(),
        expires_at: Some(Utc::now() + provider.session_life()),
    };
    let token = app.catalog.create_provider_token(&Actor::program(MAKER), &new).await?;
    open_session(app, token.id, secure).await
}
