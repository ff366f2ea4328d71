//! Writes a file of zeros in blocks, as `dd if=/dev/zero` does.

use mfaas::{Binding, Error, Json, Volume, Write};
use serde::{Deserialize, Serialize};

/// The files of all workloads.
pub struct Files;

impl Binding for Files {
    const NAME: &'static str = "files";
    type Value = ();
}

/// Which file, how many blocks, and the bytes of each.
#[derive(Debug, Deserialize)]
pub struct Query {
    of: String,
    count: u64,
    bs: usize,
}

/// Bytes of the file then.
#[derive(Debug, Serialize)]
pub struct Written {
    bytes: u64,
}

/// Takes `{"of": "zeros", "count": 100, "bs": 4096}`.
pub async fn handle(Json(query): Json<Query>, files: Volume<Files, Write>) -> Result<Json<Written>, Error> {
    let file = files.open_or_create(&query.of).await?;
    file.truncate(0).await?;
    let block = vec![0; query.bs];
    for number in 0..query.count {
        file.write_at(number * query.bs as u64, &block).await?;
    }
    Ok(Json(Written { bytes: file.size().await? }))
}
