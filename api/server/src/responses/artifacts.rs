//! Stored bytes as answers: artifacts, signed envelopes, lists of keys. Who may read them was decided before.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use mfaas_blobs::Blobs;
use mfaas_catalog::Catalog;
use mfaas_ident::{AssetContent, Digest};
use mfaas_rules::limits::BINARY;
use serde::Deserialize;

use crate::refusal::Refusal;

/// The bytes of an artifact whose reader was checked.
pub(crate) async fn artifact_response(blobs: &Blobs, digest: &Digest) -> Result<Response, Refusal> {
    let bytes = blobs.get(digest, BINARY.file_bytes_max).await?;
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CACHE_CONTROL, "private, max-age=31536000, immutable".to_owned()),
        (ETAG, format!("\"{digest}\"")),
    ];
    Ok((headers, bytes).into_response())
}

/// The bytes of an asset, as a stream that breaks off where they are not those of its digest.
pub(crate) async fn asset_response(blobs: &Blobs, content: &AssetContent) -> Result<Response, Refusal> {
    let bytes = blobs.open_blob(&content.digest, content.bytes).await?;
    let headers = [(CONTENT_TYPE, "application/octet-stream"), (CACHE_CONTROL, "private, no-store")];
    Ok((headers, Body::from_stream(bytes)).into_response())
}

/// Which list of keys is wanted.
#[derive(Debug, Deserialize)]
pub(crate) struct KeyListQuery {
    /// The version that the reader has.
    pub after: Option<u32>,
}

/// The list that is wanted.
pub(crate) async fn key_list_response(catalog: &Catalog, query: KeyListQuery) -> Result<Response, Refusal> {
    let list = match query.after {
        Some(version) => catalog.key_list_after(version).await?,
        None => catalog.key_list().await?,
    };
    match (list, query.after) {
        (Some(list), _) => Ok(envelope_response(list)),
        (None, Some(version)) if version > 0 => Ok(StatusCode::NO_CONTENT.into_response()),
        (None, _) => Err(Refusal::not_found("key list yet")),
    }
}

/// A signed envelope as it is stored: a byte that changed on the way would break the signature.
pub(crate) fn envelope_response(envelope: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], envelope).into_response()
}
