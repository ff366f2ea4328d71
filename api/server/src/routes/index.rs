//! The allowlist as a cargo registry: cargo's sparse protocol, read only.
//!
//! What is here is what the caller's tenant may build with at this moment, and nothing else: a version that is
//! revoked, expired or another tenant's is not in the answer, and its archive is not found. cargo asks for the
//! lines of a crate under a path that is made of its name; any other path is not found. Must never answer
//! without a token, and never from a cache that others share.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use mfaas_ident::{CrateName, Digest};
use mfaas_rules::limits::CRATE_ARCHIVE;
use semver::Version;

use crate::caller::Caller;
use crate::extract::Path;
use crate::refusal::Refusal;
use crate::state::App;

/// The routes. They are cargo's interface and no part of ours, so the API's description leaves them out.
pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/index/config.json", get(config))
        .route("/index/{first}/{second}", get(short))
        .route("/index/{first}/{second}/{name}", get(long))
        .route("/index-archives/{name}/{version}", get(archive))
}

/// Where archives are, and that the token is wanted there too. There is no `api`: nobody publishes here.
async fn config(State(app): State<App>, _caller: Caller) -> axum::Json<serde_json::Value> {
    let dl = format!("{}/index-archives/{{crate}}/{{version}}", app.public_url);
    axum::Json(serde_json::json!({ "dl": dl, "auth-required": true }))
}

/// Names of one and two letters: `1/a`, `2/ab`.
async fn short(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Path((first, name)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    lines(&app, &caller, &headers, &name, &first).await
}

/// Longer ones: `3/a/abc`, `ab/cd/abcdef`.
async fn long(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Path((first, second, name)): Path<(String, String, String)>,
) -> Result<Response, Refusal> {
    lines(&app, &caller, &headers, &name, &format!("{first}/{second}")).await
}

async fn lines(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    name: &str,
    folder: &str,
) -> Result<Response, Refusal> {
    let nothing = || Refusal::not_found("such crate in the index");
    let parsed = CrateName::parse(name).map_err(|_| nothing())?;
    if folder_of(name).as_deref() != Some(folder) {
        return Err(nothing());
    }
    let lines = app.catalog.index_lines(&caller.tenant, parsed.as_str()).await?;
    if lines.is_empty() {
        return Err(nothing());
    }
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let tag = format!("\"{}\"", Digest::of(body.as_bytes()));
    // Asked each time, because a crate may be revoked at any moment; sent only if it is another one.
    let caching = [(CACHE_CONTROL, "private, no-cache".to_owned()), (ETAG, tag.clone())];
    if headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
    }
    Ok((caching, [(CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// The folder of the index that cargo looks for a crate in; `None` for what is no name in small letters.
fn folder_of(name: &str) -> Option<String> {
    if !name.is_ascii() || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    Some(match name.len() {
        0 => return None,
        1 | 2 => name.len().to_string(),
        3 => format!("3/{}", &name[..1]),
        _ => format!("{}/{}", &name[..2], &name[2..4]),
    })
}

/// The bytes of a version, hashed again on their way out of the store.
async fn archive(
    State(app): State<App>,
    caller: Caller,
    Path((name, version)): Path<(CrateName, Version)>,
) -> Result<Response, Refusal> {
    let found = app.catalog.offered_archive(&caller.tenant, &name, &version).await?;
    let bytes = app.blobs.get(&found.archive, CRATE_ARCHIVE.archive_bytes_max).await?;
    let headers = [
        (CONTENT_TYPE, "application/gzip".to_owned()),
        // Bytes of a version never change, but whether they are offered does.
        (CACHE_CONTROL, "private, no-cache".to_owned()),
        (ETAG, format!("\"{}\"", found.archive)),
    ];
    Ok((headers, bytes).into_response())
}

#[cfg(test)]
mod tests;
