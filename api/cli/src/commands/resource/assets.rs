//! Assets: a file that becomes bytes of the site.

use std::path::Path;

use mfaas_ident::{ASSET_BYTES_MAX, Digest, ResourceName};
use mfaas_rules::codes;
use mfaas_wire::ResourceView;

use crate::client::Client;
use crate::failure::Failure;

/// Makes an asset of a file, if it is not there. A file has at most [`ASSET_BYTES_MAX`] bytes, so it is read as a whole.
pub(in crate::commands) async fn create(
    client: &Client,
    name: &ResourceName,
    file: &Path,
) -> Result<ResourceView, Failure> {
    let found = tokio::fs::metadata(file).await.map_err(|error| unreadable(file, &error))?;
    if !found.is_file() || !(1..=ASSET_BYTES_MAX).contains(&found.len()) {
        return Err(refused(format!("{} is no file of 1 to {ASSET_BYTES_MAX} bytes", file.display())));
    }
    let bytes = tokio::fs::read(file).await.map_err(|error| unreadable(file, &error))?;
    let path = format!("/v1/resources/{name}/asset?digest={}", Digest::of(&bytes));
    client.put_bytes(&path, bytes).await
}

/// What is not asked of the server.
pub(super) fn refused(what: impl std::fmt::Display) -> Failure {
    Failure::Usage(format!("{}: {what}", codes::MF1221.id()))
}

fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::Usage(format!("{} cannot be read: {error}", file.display()))
}
