//! What signed-in people send: fields of a form that our own page of this very session made.
//!
//! Three things have to fit, each enough against an honest browser: the cookie is `SameSite=Strict`, the
//! request names no other origin, and the form carries the session's own secret. A handler that changes
//! something takes [`SignedForm`] and gets no field of any other form.

use axum::extract::{FromRequest, Request};
use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use mfaas_ident::Digest;
use mfaas_rules::codes;

use crate::refusal::Refusal;
use crate::sessions::Session;

/// The fields of a form whose token is the one of who is signed in.
pub(super) struct SignedForm {
    fields: Vec<(String, String)>,
}

impl SignedForm {
    /// The one value of a field.
    pub(super) fn one<'a>(&'a self, name: &str) -> Result<&'a str, Refusal> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (Some(value), None) => Ok(value),
            _ => Err(Refusal::invalid(format!("The form needs one `{name}`."))),
        }
    }

    /// The one value of a field that pages drawn by the release before call `old`.
    pub(super) fn renamed<'a>(&'a self, name: &str, old: &str) -> Result<&'a str, Refusal> {
        let is_old = self.all(name).next().is_none() && self.all(old).next().is_some();
        self.one(if is_old { old } else { name })
    }

    /// The value of a field that may be missing or blank.
    pub(super) fn optional<'a>(&'a self, name: &str) -> Result<Option<&'a str>, Refusal> {
        if self.all(name).next().is_none() {
            return Ok(None);
        }
        Ok(Some(self.one(name)?.trim()).filter(|value| !value.is_empty()))
    }

    /// Every value of a field.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// Text of several lines, as people write it.
    pub(super) fn text(&self, name: &str) -> Result<String, Refusal> {
        // Browsers send CRLF, whatever was typed.
        Ok(self.one(name)?.replace("\r\n", "\n").trim().to_owned())
    }
}

impl<S: Send + Sync> FromRequest<S> for SignedForm {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let session = request.extensions().get::<Session>().cloned();
        let session =
            session.ok_or_else(|| Refusal::internal("a form stands at a route without sessions"))?;
        check_origin(request.headers())?;
        let axum::Form(fields) = axum::Form::<Vec<(String, String)>>::from_request(request, state).await?;
        let form = Self { fields };
        // No text of the database can hold it.
        if form.fields.iter().any(|(_, value)| value.contains('\0')) {
            return Err(Refusal::invalid("The form holds a NUL character."));
        }
        // Hashes are compared, so that the time it takes says nothing about the secret.
        let fits = |csrf: &str| Digest::of(csrf.as_bytes()) == Digest::of(session.csrf.as_bytes());
        if form.one("csrf").is_ok_and(fits) {
            return Ok(form);
        }
        Err(Refusal::new(codes::MF0902, "The form was not made for this sign-in."))
    }
}

/// A browser that tells where a form comes from has to tell our own origin.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
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
