//! What a list of crates shows beside the decisions: facts about their sources, and who uses them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use mfaas_ident::{CrateName, TenantName};
use mfaas_rules::crate_facts::{
    CompilerVerdict, CrateReport, FACTS_REVISION, GeigerCounts, KindFacts, UnsafeCode,
};
use semver::Version;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::decode::{Decoded, parsed};
use crate::requests::version;
use crate::{Catalog, CatalogError};

/// The short answer of the last report about a crate's source; hotspots of the compiler are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFacts {
    /// Whether its readers found unsafe code.
    pub unsafe_code: UnsafeCode,
    /// What geiger counted.
    pub geiger: GeigerCounts,
    /// What the compiler said.
    pub compiler: CompilerVerdict,
    /// What kind of crate it is.
    pub kind: KindFacts,
}

impl From<CrateReport> for KnownFacts {
    fn from(report: CrateReport) -> Self {
        let compiler = match report.compiler {
            CompilerVerdict::Unsafe { errors, .. } => {
                CompilerVerdict::Unsafe { errors, hotspots: Vec::new() }
            }
            other => other,
        };
        let summary = report.source.summary;
        Self { unsafe_code: summary.unsafe_code, geiger: summary.geiger, compiler, kind: report.kind }
    }
}

/// The facts about the sources that ship. A site has no report about them: nobody had to ask for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShippedFacts {
    /// [`FACTS_REVISION`] of whoever gathered them.
    pub revision: u32,
    /// By checksum.
    pub crates: BTreeMap<String, ShippedCrate>,
}

/// One source that ships.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShippedCrate {
    /// The crate, for those who read the table.
    pub name: CrateName,
    /// Its version.
    pub version: Version,
    /// What is known.
    pub facts: KnownFacts,
}

impl ShippedFacts {
    /// Those of this release; none if they were gathered by another revision of the readers.
    pub fn of_release() -> &'static Self {
        &SHIPPED
    }

    fn read(text: &str) -> Self {
        let read = serde_json::from_str(text).ok();
        let current = read.filter(|found: &Self| found.revision == FACTS_REVISION);
        current.unwrap_or(Self { revision: FACTS_REVISION, crates: BTreeMap::new() })
    }
}

static SHIPPED: LazyLock<ShippedFacts> =
    LazyLock::new(|| ShippedFacts::read(include_str!("../../../builder/toolchain/seed-facts.json")));

/// How much is in use of what was built with a crate version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CrateUsers {
    /// Functions with an alias that names such a version.
    pub functions: u32,
    /// Their tenants.
    pub tenants: u32,
}

impl Catalog {
    /// The facts about these sources, by checksum: of the site's reports, or those that ship. A source that was not
    /// examined, or by a release with other facts, is not among them.
    pub async fn crate_facts(
        &self,
        checksums: &[String],
    ) -> Result<BTreeMap<String, KnownFacts>, CatalogError> {
        let rows = sqlx::query(
            "SELECT DISTINCT ON (checksum) checksum, unsafe_code, geiger, compiler, kind
             FROM crate_reports WHERE checksum = ANY($1) ORDER BY checksum, gathered_at DESC",
        )
        .bind(checksums)
        .fetch_all(&self.pool)
        .await?;
        let shipped = |checksum: &String| {
            let found = ShippedFacts::of_release().crates.get(checksum)?;
            Some((checksum.clone(), found.facts.clone()))
        };
        let mut known: BTreeMap<String, KnownFacts> = checksums.iter().filter_map(shipped).collect();
        for row in &rows {
            if let Some(facts) = facts(row)? {
                known.insert(row.try_get("checksum")?, facts);
            }
        }
        Ok(known)
    }

    /// Who uses what, by crate version: of all tenants, or of one.
    pub async fn crate_users(
        &self,
        of: Option<&TenantName>,
    ) -> Result<BTreeMap<(CrateName, Version), CrateUsers>, CatalogError> {
        let rows = sqlx::query(
            "WITH named AS (SELECT DISTINCT tenant, function, version FROM aliases WHERE $1::text IS NULL OR tenant = $1)
             SELECT v.name, v.crate_version AS version, count(DISTINCT (v.tenant, v.function))::int AS functions,
                    count(DISTINCT v.tenant)::int AS tenants
             FROM named JOIN version_crates v USING (tenant, function, version) GROUP BY v.name, v.crate_version",
        )
        .bind(of.map(TenantName::as_str))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(users).collect::<Decoded<_>>()?)
    }
}

fn users(row: &PgRow) -> Decoded<((CrateName, Version), CrateUsers)> {
    let count = |column: &str| -> Decoded<u32> {
        let number: i32 = row.try_get(column)?;
        Ok(u32::try_from(number).unwrap_or(0))
    };
    let users = CrateUsers { functions: count("functions")?, tenants: count("tenants")? };
    Ok(((parsed(row, "name")?, version(row, "version")?), users))
}

fn facts(row: &PgRow) -> Decoded<Option<KnownFacts>> {
    let text: Option<String> = row.try_get("unsafe_code")?;
    let unsafe_code = text.and_then(|text| read(Some(Value::String(text))));
    let (geiger, compiler) = (read(row.try_get("geiger")?), read(row.try_get("compiler")?));
    let kind = read(row.try_get("kind")?);
    Ok(unsafe_code
        .zip(geiger)
        .zip(compiler)
        .zip(kind)
        .map(|(((unsafe_code, geiger), compiler), kind)| KnownFacts { unsafe_code, geiger, compiler, kind }))
}

fn read<T: DeserializeOwned>(value: Option<Value>) -> Option<T> {
    serde_json::from_value(value?).ok()
}
