//! What every page has: the frame around it, its security headers, and the page that shows a
//! refusal.

use askama::Template;
use axum::extract::{FromRequestParts, Request};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use http::header::{ACCEPT, ALLOW, HeaderName, HeaderValue};
use http::request::Parts;
use mfaas_catalog::Token;
use mfaas_ident::{BuildVersion, IdentitySource, Scope};

use crate::edge::{Nonce, RequestId, Shown};
use crate::refusal::Refusal;
use crate::sessions::Session;

/// The parts of a page that do not depend on what it shows.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// Who is signed in.
    pub(super) user: Option<User>,
    /// Which entry of the navigation is current.
    pub(super) here: &'static str,
    /// The version in the footer.
    pub(super) server_version: &'static str,
    /// What the script element has to carry.
    pub(super) nonce: String,
}

/// Who is signed in, as the frame shows it.
#[derive(Debug, Clone)]
pub(super) struct User {
    /// The tenant.
    pub(super) tenant: String,
    /// What the token is called, or who signed in with the provider.
    pub(super) token_name: String,
    /// What forms send along.
    pub(super) csrf: String,
    /// They may decide about dependencies.
    pub(super) reviews: bool,
    /// They may read the audit log and change what nodes take.
    pub(super) audits: bool,
}

impl Frame {
    /// The same frame with the current entry of the navigation.
    #[must_use]
    pub(super) fn at(mut self, here: &'static str) -> Self {
        self.here = here;
        self
    }

    /// What forms send along; nothing where nobody is signed in, which no form accepts.
    pub(super) fn csrf(&self) -> &str {
        self.user.as_ref().map_or("", |user| &user.csrf)
    }

    fn of(extensions: &http::Extensions) -> Self {
        let user = extensions.get::<Token>().zip(extensions.get::<Session>()).map(|(token, session)| User {
            tenant: token.tenant.to_string(),
            token_name: mfaas_ident::sanitise_line(name_of(token), 200),
            csrf: session.csrf.clone(),
            reviews: token.holds(Scope::Review),
            audits: token.holds(Scope::Operate),
        });
        let nonce = extensions.get::<Nonce>().map(|nonce| nonce.0.clone()).unwrap_or_default();
        Self { user, here: "", server_version: BuildVersion::this().as_str(), nonce }
    }
}

impl<S: Sync> FromRequestParts<S> for Frame {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::of(&parts.extensions))
    }
}

/// All tokens of a provider are called the same; their people are not.
fn name_of(token: &Token) -> &str {
    match token.identity_source {
        IdentitySource::Provider => token.person.as_str(),
        IdentitySource::Nobody | IdentitySource::Admin => &token.name,
    }
}

/// A rendered page with the headers that keep hostile text from becoming anything else.
pub(super) fn html(template: &impl Template, nonce: &str) -> Result<Response, Refusal> {
    let mut response = Html(template.render().map_err(Refusal::internal)?).into_response();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::from_str(&policy).map_err(Refusal::internal)?;
    response.headers_mut().insert(HeaderName::from_static("content-security-policy"), policy);
    Ok(response)
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    frame: Frame,
    title: String,
    code: String,
    detail: String,
    hint: String,
    request_id: String,
}

/// The layer that turns a refusal of a page into a page. The refusal stays in the answer, since
/// the edge logs it.
pub(super) async fn problem_page(request: Request, next: Next) -> Response {
    let frame = Frame::of(request.extensions());
    let request_id = request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
    let response = next.run(request).await;
    let shown = response.extensions().get::<Shown>().is_some();
    let Some(refusal) = response.extensions().get::<Refusal>().filter(|_| !shown).cloned() else {
        return response;
    };
    let problem = refusal.problem();
    let page = ProblemPage {
        title: problem.title.clone(),
        code: problem.code.clone(),
        detail: problem.detail.clone(),
        hint: problem.hint.clone(),
        request_id,
        frame,
    };
    match html(&page, &page.frame.nonce) {
        Ok(mut page) => {
            if let Some(allow) = response.headers().get(ALLOW) {
                page.headers_mut().insert(ALLOW, allow.clone());
            }
            show(page, refusal)
        }
        Err(_) => refusal.into_response(),
    }
}

/// The same around everything that a browser may ask for: whoever follows an old link or types an
/// address reads a page, whoever asks the API gets a problem document.
pub(crate) async fn problem_page_for_browsers(request: Request, next: Next) -> Response {
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let is_browser = accept.split(',').any(|part| part.trim().starts_with("text/html"));
    if is_browser && !request.uri().path().starts_with("/v1/") {
        problem_page(request, next).await
    } else {
        next.run(request).await
    }
}

/// A page that already shows its refusal.
pub(super) fn show(mut page: Response, refusal: Refusal) -> Response {
    *page.status_mut() = refusal.http_status();
    page.extensions_mut().insert(refusal);
    page.extensions_mut().insert(Shown);
    page
}
