//! The site's index: the lines that cargo reads, and which archive a version is.
//!
//! The acquirer makes a line from each archive; the server shows those whose version is allowed for a tenant
//! at this moment, by the same rule by which a build is judged. Nothing here decides, and no line outlives
//! the decision that it rests on.

use mfaas_ident::{CrateName, Digest, TenantName};
use mfaas_rules::{CrateStatus, Precedence, deciding};
use semver::Version;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

use crate::acquiring::{Acquirer, add_archive};
use crate::allowlist::{decisions, newest_toolchain, status};
use crate::decode::{Decoded, parsed, word};
use crate::requests::version;
use crate::{Catalog, CatalogError};

/// Archives without a line that are handed out in one go.
const UNINDEXED_ROWS: i64 = 100;

/// The bytes of a crate version, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredArchive {
    /// The package.
    pub name: CrateName,
    /// The version.
    pub version: Version,
    /// Its sha256, which is the blob's name.
    pub checksum: Digest,
}

/// A line for the index, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexEntry {
    /// The package.
    pub name: CrateName,
    /// The version.
    pub version: Version,
    /// What a decision about it names as its checksum.
    pub decided: Digest,
    /// The crate that the decision is about.
    pub decided_as: CrateName,
    /// sha256 of the archive, which lies in the blob store.
    pub archive: Digest,
    /// The line as cargo reads it, or a sanitised reason.
    pub line: Result<serde_json::Value, String>,
    /// How it was made.
    pub revision: u32,
}

/// A version that a tenant may fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedArchive {
    /// The blob.
    pub archive: Digest,
}

impl Acquirer {
    /// Those of `checksums` whose archive is not stored yet.
    pub async fn missing_archives(&mut self, checksums: &[Digest]) -> Result<Vec<Digest>, CatalogError> {
        let texts: Vec<String> = checksums.iter().map(ToString::to_string).collect();
        let rows = sqlx::query(
            "SELECT wanted AS checksum FROM unnest($1::text[]) AS wanted
             WHERE NOT EXISTS (SELECT 1 FROM crate_archives a WHERE a.checksum = wanted)",
        )
        .bind(&texts)
        .fetch_all(&mut *self.connection)
        .await?;
        Ok(rows.iter().map(|row| parsed(row, "checksum")).collect::<Decoded<_>>()?)
    }

    /// Writes down an archive, which must lie in the blob store.
    pub async fn store_archive(&mut self, archive: &StoredArchive, bytes: u64) -> Result<(), CatalogError> {
        let StoredArchive { name, version, checksum } = archive;
        self.all_indexed = None;
        add_archive(&mut self.connection, name, version, checksum, bytes).await
    }

    /// Archives that have no line of this revision, some of them. They are looked for until there are none, and then
    /// not before another archive was stored.
    pub async fn unindexed(&mut self, revision: u32) -> Result<Vec<StoredArchive>, CatalogError> {
        if self.all_indexed == Some(revision) {
            return Ok(Vec::new());
        }
        let rows = sqlx::query(
            "SELECT name, version, checksum FROM crate_archives a
             WHERE NOT EXISTS (SELECT 1 FROM index_entries i
                               WHERE (i.name, i.version, i.decided) = (a.name, a.version, a.checksum)
                                 AND i.revision = $1)
             ORDER BY name, version LIMIT $2",
        )
        .bind(i64::from(revision))
        .bind(UNINDEXED_ROWS)
        .fetch_all(&mut *self.connection)
        .await?;
        self.all_indexed = rows.is_empty().then_some(revision);
        Ok(rows.iter().map(stored).collect::<Decoded<_>>()?)
    }

    /// Writes down a line in the place of what was there.
    pub async fn store_entry(&mut self, entry: &IndexEntry) -> Result<(), CatalogError> {
        sqlx::query(
            "INSERT INTO index_entries (name, version, decided, decided_as, archive, line, problem, revision)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8::bigint::integer)
             ON CONFLICT ON CONSTRAINT index_entries_pkey DO UPDATE
             SET decided_as = excluded.decided_as, archive = excluded.archive, line = excluded.line,
                 problem = excluded.problem, revision = excluded.revision",
        )
        .bind(entry.name.as_str())
        .bind(entry.version.to_string())
        .bind(entry.decided.to_string())
        .bind(entry.decided_as.as_str())
        .bind(entry.archive.to_string())
        .bind(entry.line.as_ref().ok().map(Json))
        .bind(entry.line.as_ref().err().map_or("", String::as_str))
        .bind(i64::from(entry.revision))
        .execute(&mut *self.connection)
        .await?;
        Ok(())
    }
}

impl Catalog {
    /// The lines about the crate of that name in small letters, for what `tenant` may build with now, by the
    /// toolchain that was accepted last. None if nothing of it is offered.
    pub async fn index_lines(
        &self,
        tenant: &TenantName,
        lower_name: &str,
    ) -> Result<Vec<serde_json::Value>, CatalogError> {
        Ok(self.offered(tenant, lower_name).await?.into_iter().map(|entry| entry.line).collect())
    }

    /// The archive of a version that `tenant` may build with now.
    pub async fn offered_archive(
        &self,
        tenant: &TenantName,
        name: &CrateName,
        version: &Version,
    ) -> Result<OfferedArchive, CatalogError> {
        let nothing = || CatalogError::NotFound { what: "such crate in the index" };
        let (name, version) = (name.as_str(), version.to_string());
        let mut entries = self.offered(tenant, &name.to_ascii_lowercase()).await?.into_iter();
        let found = entries.find(|entry| (entry.name.as_str(), &entry.version) == (name, &version));
        Ok(OfferedArchive { archive: found.ok_or_else(nothing)?.archive })
    }

    /// The entries about the crate of that name in small letters that `tenant` may build with now.
    async fn offered(&self, tenant: &TenantName, lower_name: &str) -> Result<Vec<Entry>, CatalogError> {
        let mut tx = self.begin().await?;
        let Some(toolchain) = newest_toolchain(&mut tx).await? else { return Ok(Vec::new()) };
        let rows = sqlx::query(concat!(
            "WITH decisions AS (",
            decisions!(),
            "), entries AS MATERIALIZED (
                 SELECT * FROM index_entries WHERE lower(name) = $3 AND line IS NOT NULL)
               SELECT i.name, i.version, i.decided, i.archive, i.line, d.status, d.scope <> '' AS for_tenant,
                      d.checksum = i.decided AS is_about
               FROM entries i JOIN decisions d ON (d.name, d.version) = (i.decided_as, i.version)"
        ))
        .bind(tenant.as_str())
        .bind(toolchain)
        .bind(lower_name)
        .fetch_all(&mut *tx)
        .await?;
        let entries = rows.iter().map(entry).collect::<Decoded<Vec<Entry>>>()?;
        let mut found = deciding(entries, |entry| {
            let key = (entry.name.clone(), entry.version.clone(), entry.decided.clone());
            (key, Precedence::new(entry.status, entry.is_for_tenant))
        });
        found.retain(|entry| entry.status == CrateStatus::Allowed && entry.is_about);
        Ok(found)
    }
}

/// An entry of the index beside a decision about its crate version.
struct Entry {
    name: String,
    version: String,
    decided: String,
    archive: Digest,
    line: serde_json::Value,
    status: CrateStatus,
    is_for_tenant: bool,
    /// Whether the decision is about these bytes.
    is_about: bool,
}

fn entry(row: &PgRow) -> Decoded<Entry> {
    Ok(Entry {
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        decided: row.try_get("decided")?,
        archive: parsed(row, "archive")?,
        line: row.try_get("line")?,
        status: word(row, "status", status)?,
        is_for_tenant: row.try_get("for_tenant")?,
        is_about: row.try_get("is_about")?,
    })
}

fn stored(row: &PgRow) -> Decoded<StoredArchive> {
    Ok(StoredArchive {
        name: parsed(row, "name")?,
        version: version(row, "version")?,
        checksum: parsed(row, "checksum")?,
    })
}
