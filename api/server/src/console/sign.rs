//! Signing in and out.
//!
//! A stranger's page must neither sign somebody in (as the stranger) nor out: the cookie is
//! `SameSite=Strict`, forms are taken from our own origin only, and sign-out needs the session's
//! own secret.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::HeaderMap;
use http::header::{HOST, ORIGIN, SET_COOKIE};
use mfaas_ident::Scope;
use mfaas_rules::codes;
use serde::Deserialize;

use super::Session;
use super::frame::{Frame, html, show};
use crate::access;
use crate::app::App;
use crate::extract::Form;
use crate::refusal::Refusal;
use crate::token::Secret;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    frame: Frame,
    problem: Option<String>,
}

/// The form.
pub(super) async fn form(frame: Frame) -> Result<Response, Refusal> {
    let page = SignInPage { frame, problem: None };
    html(&page, &page.frame.nonce)
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
    headers: HeaderMap,
    Form(form): Form<SignIn>,
) -> Result<Response, Refusal> {
    check_origin(&headers)?;
    let text = form.token.trim();
    if let Err(refusal) = access::authenticate(&app, text, Scope::Read).await {
        let page = SignInPage { frame, problem: Some(refusal.problem().detail.clone()) };
        return Ok(show(html(&page, &page.frame.nonce)?, refusal));
    }
    let (_, secret) =
        Secret::parse(text).ok_or_else(|| Refusal::internal("a token that was accepted does not parse"))?;
    let cookie = app.sessions.open(secret.hash(), is_secure(&app)).map_err(Refusal::internal)?;
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// What the form of the frame sends.
#[derive(Deserialize)]
pub(super) struct SignOut {
    csrf: String,
}

/// Ends the session.
pub(super) async fn sign_out(
    State(app): State<App>,
    axum::Extension(session): axum::Extension<Session>,
    headers: HeaderMap,
    Form(form): Form<SignOut>,
) -> Result<Response, Refusal> {
    check_origin(&headers)?;
    if form.csrf != session.csrf {
        return Err(Refusal::new(codes::MF0902, "The form was not made for this sign-in."));
    }
    let cookie = app.sessions.close(&headers, is_secure(&app));
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/sign-in")).into_response())
}

/// A browser that tells where a form comes from has to tell our own origin.
fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name: &http::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(&HOST).unwrap_or("");
    let origin_fits = headers.get(ORIGIN).is_none()
        || text(&ORIGIN)
            .and_then(|origin| origin.split_once("://"))
            .is_some_and(|(_, authority)| authority == host);
    let site = headers.get("sec-fetch-site").map(http::HeaderValue::as_bytes);
    let site_fits = matches!(site, None | Some(b"same-origin" | b"none"));
    if origin_fits && site_fits {
        return Ok(());
    }
    Err(Refusal::new(codes::MF0902, "The form was sent from another site."))
}

/// Over https a cookie stays there; over the loopback's plain http it has to do without.
fn is_secure(app: &App) -> bool {
    app.public_url.starts_with("https://")
}
