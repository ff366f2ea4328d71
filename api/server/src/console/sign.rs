//! Signing in and out.
//!
//! A stranger's page must neither sign somebody in (as the stranger) nor out: the cookie is
//! `SameSite=Strict`, forms are taken from our own origin only, and sign-out needs the session's
//! own secret.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::HeaderMap;
use http::header::SET_COOKIE;
use mfaas_ident::{IdentitySource, Scope};
use serde::Deserialize;
use uuid::Uuid;

use super::form::{SignedForm, check_origin};
use super::frame::{Frame, html, show};
use crate::authorize::authenticate;
use crate::caller::Caller;
use crate::connections::Connection;
use crate::extract::Form;
use crate::limits;
use crate::refusal::Refusal;
use crate::sessions::{Session, forget};
use crate::state::App;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    frame: Frame,
    problem: Option<String>,
    /// The provider's name, where there is one.
    provider: Option<String>,
}

/// The page with what went wrong.
pub(super) fn page(app: &App, frame: Frame, problem: Option<&Refusal>) -> Result<Response, Refusal> {
    let sentence = problem.map(|refusal| refusal.problem().detail.clone());
    let provider = app.provider.as_ref().map(|provider| provider.name().to_owned());
    let page = SignInPage { frame, problem: sentence, provider };
    let response = html(&page, &page.frame.nonce)?;
    Ok(match problem {
        Some(refusal) => show(response, refusal.clone()),
        None => response,
    })
}

/// The form.
pub(super) async fn form(State(app): State<App>, frame: Frame) -> Result<Response, Refusal> {
    page(&app, frame, None)
}

/// What the form sends.
#[derive(Deserialize)]
pub(super) struct SignIn {
    token: String,
}

/// Exchanges a token for a session.
pub(super) async fn sign_in(
    State(app): State<App>,
    frame: Frame,
    Extension(connection): Extension<Arc<Connection>>,
    headers: HeaderMap,
    Form(form): Form<SignIn>,
) -> Result<Response, Refusal> {
    check_origin(&headers)?;
    let text = form.token.trim();
    let token = match authenticate(&app, connection.peer(), text, Scope::Read).await {
        Ok(token) => token,
        Err(refusal) => return page(&app, frame, Some(&refusal)),
    };
    let cookie = open_session(&app, token.id, is_secure(&app)).await?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// Ends the session, and with it the token that a provider's session stands on.
pub(super) async fn sign_out(
    State(app): State<App>,
    caller: Caller,
    Extension(session): Extension<Session>,
    _form: SignedForm,
) -> Result<Response, Refusal> {
    app.catalog.close_session(&session.cookie_sha256).await?;
    if caller.token.identity_source == IdentitySource::Provider {
        app.catalog.revoke_token(&caller.actor(), None, caller.token.id).await?;
    }
    Ok(([(SET_COOKIE, forget(is_secure(&app)))], Redirect::to("/sign-in")).into_response())
}

/// Opens a session of a token at all servers; answers with the value of `Set-Cookie`.
pub(super) async fn open_session(app: &App, token: Uuid, secure: bool) -> Result<String, Refusal> {
    let (session, cookie) = Session::generate(limits::SESSION_LIFE, secure).map_err(Refusal::internal)?;
    app.catalog.open_session(&session.cookie_sha256, token, limits::SESSION_LIFE).await?;
    app.lookups.opened(session.cookie_sha256);
    Ok(cookie)
}

/// Over https a cookie stays there; over the loopback's plain http it has to do without.
pub(super) fn is_secure(app: &App) -> bool {
    app.public_url.starts_with("https://")
}
