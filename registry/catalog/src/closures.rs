//! What a crate needs, as a dependency cache holds it: for people who decide about the crate.

use mfaas_ident::CrateName;
use mfaas_rules::LinkedCrate;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use crate::allowlist::{CrateClosure, newest_toolchain};
use crate::decode::{Decoded, json, parsed};
use crate::requests::version;
use crate::{Catalog, CatalogError};

impl Catalog {
    /// For each version of a crate that the newest cache holds, the crate itself and everything that it needs, each with what
    /// it needs in turn. Of the caches that ship where no newer one holds a version.
    pub async fn closures_of(&self, name: &CrateName) -> Result<Vec<Vec<CrateClosure>>, CatalogError> {
        let mut connection = self.pool.acquire().await?;
        let Some(toolchain) = newest_toolchain(&mut connection).await? else { return Ok(Vec::new()) };
        let rows = sqlx::query(
            "WITH newest AS (SELECT key FROM dependency_caches WHERE toolchain = $2 ORDER BY id DESC LIMIT 1)
             SELECT DISTINCT ON (version) cache, name, version, checksum, closure FROM (
                 SELECT 0 AS rank, c.* FROM newest JOIN cached_crates c ON c.cache = newest.key AND c.name = $1
                 UNION ALL
                 SELECT 1, c.* FROM cached_crates c WHERE c.toolchain = $2 AND c.name = $1 AND c.cache = c.base
             ) held ORDER BY version, rank, cache",
        )
        .bind(name.as_str())
        .bind(toolchain)
        .fetch_all(&mut *connection)
        .await?;
        let mut closures = Vec::new();
        for row in &rows {
            let whole =
                with_needs(&mut connection, &row.try_get::<String, _>("cache")?, closure(row)?).await?;
            closures.push(whole);
        }
        Ok(closures)
    }
}

/// The crate first, then what it needs.
async fn with_needs(
    connection: &mut PgConnection,
    cache: &str,
    of: CrateClosure,
) -> Result<Vec<CrateClosure>, CatalogError> {
    let names: Vec<&str> = of.needs.iter().map(|needed| needed.name.as_str()).collect();
    let versions: Vec<String> = of.needs.iter().map(|needed| needed.version.to_string()).collect();
    let rows = sqlx::query(
        "SELECT c.name, c.version, c.checksum, c.closure FROM unnest($2::text[], $3::text[]) AS wanted (name, version)
         JOIN cached_crates c ON (c.cache, c.name, c.version) = ($1, wanted.name, wanted.version)",
    )
    .bind(cache)
    .bind(&names)
    .bind(&versions)
    .fetch_all(connection)
    .await?;
    let held = rows.iter().map(closure).collect::<Decoded<Vec<_>>>()?;
    // What is needed is told, whether or not the cache says more of it.
    let needed = |of: &LinkedCrate| {
        let found = held.iter().find(|held| held.of == *of);
        found.cloned().unwrap_or_else(|| CrateClosure { of: of.clone(), needs: Vec::new() })
    };
    let mut whole: Vec<CrateClosure> = of.needs.iter().map(needed).collect();
    whole.insert(0, of);
    Ok(whole)
}

fn closure(row: &PgRow) -> Decoded<CrateClosure> {
    let of = LinkedCrate {
        name: parsed(row, "name")?,
        version: version(row, "version")?,
        checksum: row.try_get("checksum")?,
    };
    Ok(CrateClosure { of, needs: json(row, "closure")? })
}
