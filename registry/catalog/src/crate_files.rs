//! The text files of crates' archives: which blob holds which file.
//!
//! The acquirer writes them once, together with the archive they came from; the console reads them. An index
//! alone: what is in a file is in the blob store, and no row here is ever changed.

use mfaas_ident::Digest;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::decode::{Decoded, int8, parsed, unsigned};
use crate::{Catalog, CatalogError};

/// One text file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrateFile {
    /// Its path within the crate, sanitised.
    pub path: String,
    /// The blob that holds it.
    pub blob: Digest,
    /// Its size.
    pub bytes: u64,
}

impl Catalog {
    /// The text files of the archive of that checksum, by path.
    pub async fn crate_files(&self, checksum: &Digest) -> Result<Vec<CrateFile>, CatalogError> {
        let mut connection = self.pool.acquire().await?;
        of(&mut connection, checksum).await
    }

    /// One of them, by exactly this path.
    pub async fn crate_file(&self, checksum: &Digest, path: &str) -> Result<CrateFile, CatalogError> {
        let row = sqlx::query("SELECT path, blob, bytes FROM crate_files WHERE checksum = $1 AND path = $2")
            .bind(checksum.to_string())
            .bind(path)
            .fetch_optional(&self.pool)
            .await?;
        Ok(file(&row.ok_or(CatalogError::NotFound { what: "such file in the crate" })?)?)
    }
}

/// The text files of an archive, by path.
pub(crate) async fn of(
    connection: &mut PgConnection,
    checksum: &Digest,
) -> Result<Vec<CrateFile>, CatalogError> {
    let rows = sqlx::query(
        "SELECT path, blob, bytes FROM crate_files WHERE checksum = $1 ORDER BY path COLLATE \"C\"",
    )
    .bind(checksum.to_string())
    .fetch_all(connection)
    .await?;
    Ok(rows.iter().map(file).collect::<Result<_, _>>()?)
}

/// Records the files of an archive. What is recorded already stays: the same archive has the same files.
pub(crate) async fn store(
    connection: &mut PgConnection,
    checksum: &Digest,
    files: &[CrateFile],
) -> Result<(), CatalogError> {
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let blobs: Vec<String> = files.iter().map(|file| file.blob.to_string()).collect();
    let bytes: Vec<i64> = files.iter().map(|file| int8(file.bytes)).collect();
    sqlx::query(
        "INSERT INTO crate_files (checksum, path, blob, bytes)
         SELECT $1, path, blob, bytes FROM unnest($2::text[], $3::text[], $4::bigint[]) AS f (path, blob, bytes)
         ON CONFLICT ON CONSTRAINT crate_files_pkey DO NOTHING",
    )
    .bind(checksum.to_string())
    .bind(paths)
    .bind(blobs)
    .bind(bytes)
    .execute(connection)
    .await?;
    Ok(())
}

fn file(row: &PgRow) -> Decoded<CrateFile> {
    Ok(CrateFile { path: row.try_get("path")?, blob: parsed(row, "blob")?, bytes: unsigned(row, "bytes")? })
}
