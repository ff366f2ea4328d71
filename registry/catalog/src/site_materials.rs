//! What a site's builds are made with, for a builder that compares it with what it has: toolchains, and the crates of
//! dependency caches. Must never decide what a difference means.

use mfaas_ident::{Digest, ToolchainId};
use mfaas_rules::LinkedCrate;

use crate::allowlist::newest_toolchain;
use crate::decode::parsed;
use crate::{Catalog, CatalogError};

/// How a site thinks of a toolchain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolchainStanding {
    /// The one that it accepted last.
    Newest,
    /// One that it still accepts, and the one that it accepted after it.
    Replaced(ToolchainId),
    /// It was never accepted, or is not any more.
    NotAccepted,
}

/// A dependency cache that holds a crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldingCache {
    /// The cache.
    pub key: Digest,
    /// The cache that ships, in whose place it is used.
    pub base: Digest,
}

impl Catalog {
    /// How the site thinks of a toolchain.
    pub async fn toolchain_standing(
        &self,
        toolchain: &ToolchainId,
    ) -> Result<ToolchainStanding, CatalogError> {
        let accepted: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM toolchains WHERE id = $1 AND accepted)")
                .bind(toolchain.to_string())
                .fetch_one(&self.pool)
                .await?;
        if !accepted {
            return Ok(ToolchainStanding::NotAccepted);
        }
        let mut connection = self.pool.acquire().await?;
        let newest = newest_toolchain(&mut connection).await?;
        let newest = newest.map(|id| id.parse().map_err(|error| crate::decode::bad("id", error)));
        Ok(match newest.transpose()? {
            Some(newest) if newest != *toolchain => ToolchainStanding::Replaced(newest),
            _ => ToolchainStanding::Newest,
        })
    }

    /// The site's newest cache for a toolchain, whatever shipped cache it takes the place of, if it holds one of these
    /// crates.
    pub async fn newest_cache_with(
        &self,
        toolchain: &ToolchainId,
        crates: &[LinkedCrate],
    ) -> Result<Option<HoldingCache>, CatalogError> {
        let names: Vec<&str> = crates.iter().map(|part| part.name.as_str()).collect();
        let versions: Vec<String> = crates.iter().map(|part| part.version.to_string()).collect();
        let checksums: Vec<&str> = crates.iter().map(|part| part.checksum.as_str()).collect();
        let row = sqlx::query(
            "SELECT d.key, d.base FROM (SELECT key, base FROM dependency_caches WHERE toolchain = $1
                                        ORDER BY id DESC LIMIT 1) d
             WHERE EXISTS (SELECT 1 FROM unnest($2::text[], $3::text[], $4::text[]) AS wanted (name, version, checksum)
                           JOIN cached_crates c ON (c.cache, c.name, c.version, c.checksum)
                                                 = (d.key, wanted.name, wanted.version, wanted.checksum))",
        )
        .bind(toolchain.to_string())
        .bind(&names)
        .bind(&versions)
        .bind(&checksums)
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| Ok(HoldingCache { key: parsed(&row, "key")?, base: parsed(&row, "base")? })).transpose()
    }
}
