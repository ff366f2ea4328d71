//! What a review is compared with: the nearest version that was decided about before, and what changed since.
//!
//! The acquirer looks for the version, compares once and writes; whoever shows a review reads. A version is a
//! baseline by the decision that held when it was compared; whether that decision still stands is asked anew each
//! time, since a revoked version is nothing to build on.

use chrono::{DateTime, Utc};
use mfaas_ident::{CrateName, Digest, TenantName, ToolchainId};
use mfaas_rules::CrateStatus;
use mfaas_rules::crate_facts::{CrateDelta, CrateReport, Volumes};
use semver::Version;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Connection as _, Row as _};

use crate::acquiring::Acquirer;
use crate::allowlist::{CrateRow, counting, decisions};
use crate::crate_files::{self, CrateFile};
use crate::decode::{Decoded, bad, parsed};
use crate::requests::version;
use crate::{Catalog, CatalogError};

/// A version that was decided about before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    /// The version.
    pub version: Version,
    /// sha256 of its `.crate` file.
    pub checksum: Digest,
    /// Features that it is allowed with.
    pub features: Vec<String>,
    /// The one tenant that it was allowed for; everybody when absent.
    pub tenant: Option<TenantName>,
    /// Who decided.
    pub decided_by: String,
    /// When.
    pub decided_at: DateTime<Utc>,
}

impl Baseline {
    /// People have looked at it: it does not merely ship, and the rules did not admit it by themselves.
    pub fn is_reviewed(&self) -> bool {
        mfaas_rules::is_people(&self.decided_by)
    }
}

/// A review that nobody has compared with anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncompared {
    /// The review.
    pub review: i64,
    /// The package.
    pub name: CrateName,
    /// The version that is asked about.
    pub version: Version,
    /// sha256 of its `.crate` file.
    pub checksum: Digest,
    /// Key of its report.
    pub report: Digest,
    /// Who asked first.
    pub tenant: TenantName,
}

/// What came of comparing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// What changed.
    Delta {
        /// Names the two reports and how they were compared.
        key: Digest,
        /// What changed; it is stored once for each key.
        delta: Box<CrateDelta>,
    },
    /// Why there is none; a sentence, sanitised.
    Problem(String),
}

/// What there is to read for a review.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewDelta {
    /// Without a comparison; `None` when the texts were not there.
    pub volumes: Option<Volumes>,
    /// What it was compared with, or was to be.
    pub baseline: Option<Baseline>,
    /// The decision about the baseline stands to this moment.
    pub stands: bool,
    /// What changed since.
    pub delta: Option<CrateDelta>,
    /// Why there is no delta; empty with one.
    pub problem: String,
}

impl Catalog {
    /// What there is to read for a review; `None` while nobody has compared.
    pub async fn delta_of_review(&self, review: i64) -> Result<Option<ReviewDelta>, CatalogError> {
        let row = sqlx::query(
            "SELECT d.volumes, d.from_version, d.from_checksum, d.from_features, d.from_scope, d.decided_by,
                    d.decided_at, d.problem, c.delta,
                    coalesce((SELECT bool_and(a.status = 'allowed')
                              FROM crates a
                              WHERE (a.name, a.version, a.checksum) = (r.name, d.from_version, d.from_checksum)
                                AND (a.scope = d.from_scope OR a.status = 'revoked')
                                AND (a.status = 'revoked' OR a.expires_at IS NULL OR a.expires_at > now())), false) AS stands
             FROM review_deltas d JOIN reviews r ON r.id = d.review_id LEFT JOIN crate_deltas c ON c.key = d.delta
             WHERE d.review_id = $1",
        )
        .bind(review)
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(review_delta).transpose()?)
    }
}

impl Acquirer {
    /// Open reviews for this compiler that were not compared, the oldest first.
    pub async fn uncompared(
        &mut self,
        toolchain: &ToolchainId,
        limit: u32,
    ) -> Result<Vec<Uncompared>, CatalogError> {
        // OFFSET 0 keeps the planner from joining the two, for which it reads all comparisons that there ever were.
        let rows = sqlx::query(
            "SELECT DISTINCT ON (r.id) r.id, r.name, r.version, r.checksum, r.report, q.tenant
             FROM reviews r JOIN request_members m ON m.review_id = r.id JOIN crate_requests q ON q.id = m.request_id
             WHERE r.state = 'open' AND r.toolchain = $1
               AND NOT EXISTS (SELECT 1 FROM review_deltas d WHERE d.review_id = r.id OFFSET 0)
             ORDER BY r.id, q.id LIMIT $2",
        )
        .bind(toolchain.to_string())
        .bind(i64::from(limit))
        .fetch_all(&mut *self.connection)
        .await?;
        Ok(rows.iter().map(uncompared).collect::<Result<_, _>>()?)
    }

    /// The nearest version that is allowed for whoever asked: the highest that is not above the one in question,
    /// or else the lowest above it.
    pub async fn baseline(
        &mut self,
        about: &Uncompared,
        toolchain: &ToolchainId,
    ) -> Result<Option<Baseline>, CatalogError> {
        let rows = sqlx::query(concat!(decisions!(), " AND name = $3"))
            .bind(about.tenant.as_str())
            .bind(toolchain.to_string())
            .bind(about.name.as_str())
            .fetch_all(&mut *self.connection)
            .await?;
        Ok(nearest(counting(&rows)?, &about.version, &about.checksum))
    }

    /// Every report about an archive that this release can read, the newest first.
    pub async fn reports_about(
        &mut self,
        checksum: &Digest,
    ) -> Result<Vec<(Digest, CrateReport)>, CatalogError> {
        let rows = sqlx::query(
            "SELECT key, report FROM crate_reports WHERE checksum = $1 ORDER BY gathered_at DESC, key",
        )
        .bind(checksum.to_string())
        .fetch_all(&mut *self.connection)
        .await?;
        let readable = |row: &PgRow| {
            let report: serde_json::Value = row.try_get("report")?;
            let key: Digest = parsed(row, "key")?;
            Ok(serde_json::from_value(report).ok().map(|report| (key, report)))
        };
        Ok(rows.iter().map(readable).filter_map(Decoded::transpose).collect::<Result<_, _>>()?)
    }

    /// The text files of an archive, by path.
    pub async fn crate_files(&mut self, checksum: &Digest) -> Result<Vec<CrateFile>, CatalogError> {
        crate_files::of(&mut self.connection, checksum).await
    }

    /// What was found before when these two were compared.
    pub async fn crate_delta(&mut self, key: &Digest) -> Result<Option<CrateDelta>, CatalogError> {
        let delta: Option<serde_json::Value> =
            sqlx::query_scalar("SELECT delta FROM crate_deltas WHERE key = $1")
                .bind(key.to_string())
                .fetch_optional(&mut *self.connection)
                .await?;
        Ok(delta.and_then(|delta| serde_json::from_value(delta).ok()))
    }

    /// Writes down what a review was compared with and what came of it. What is written stays.
    pub async fn compared(
        &mut self,
        review: i64,
        volumes: Option<&Volumes>,
        baseline: Option<&Baseline>,
        comparison: &Comparison,
    ) -> Result<(), CatalogError> {
        let mut tx = self.connection.begin().await?;
        if let Comparison::Delta { key, delta } = comparison {
            sqlx::query(
                "INSERT INTO crate_deltas (key, from_checksum, to_checksum, delta) VALUES ($1, $2, $3, $4)
                 ON CONFLICT ON CONSTRAINT crate_deltas_pkey DO NOTHING",
            )
            .bind(key.to_string())
            .bind(delta.from.checksum.to_string())
            .bind(delta.to.checksum.to_string())
            .bind(Json(delta))
            .execute(&mut *tx)
            .await?;
        }
        let (key, problem) = match comparison {
            Comparison::Delta { key, .. } => (Some(key.to_string()), String::new()),
            Comparison::Problem(problem) => (None, mfaas_ident::sanitise(problem, PROBLEM_BYTES_MAX)),
        };
        sqlx::query(
            "INSERT INTO review_deltas (review_id, volumes, from_version, from_checksum, from_features, from_scope,
                                        decided_by, decided_at, delta, problem)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT ON CONSTRAINT review_deltas_pkey DO NOTHING",
        )
        .bind(review)
        .bind(volumes.map(Json))
        .bind(baseline.map(|b| b.version.to_string()))
        .bind(baseline.map(|b| b.checksum.to_string()))
        .bind(baseline.map(|b| &b.features))
        .bind(baseline.map(|b| b.tenant.as_ref().map(ToString::to_string).unwrap_or_default()))
        .bind(baseline.map(|b| &b.decided_by))
        .bind(baseline.map(|b| b.decided_at))
        .bind(key)
        .bind(problem)
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }
}

/// Bytes of a sentence that says why there is no delta; the table holds as many characters.
const PROBLEM_BYTES_MAX: usize = 1_000;

/// The nearest of the allowed versions. The version itself counts only when people decided about the same bytes:
/// then other features are asked for. What ships, or what the rules admitted, is otherwise what is to be taken over.
fn nearest(rows: Vec<CrateRow>, version: &Version, checksum: &Digest) -> Option<Baseline> {
    let mut found: Vec<Baseline> = rows.into_iter().filter_map(baseline).collect();
    found.retain(|base| base.version != *version || (base.is_reviewed() && base.checksum == *checksum));
    found.sort_by(|a, b| a.version.cmp(&b.version));
    let above = found.partition_point(|base| base.version <= *version);
    let at = above.checked_sub(1).unwrap_or(above);
    (at < found.len()).then(|| found.swap_remove(at))
}

fn baseline(row: CrateRow) -> Option<Baseline> {
    let CrateRow { allowed, decided_at, tenant, .. } = row;
    Some(Baseline {
        // A crate without a registry's checksum has no archive to compare with.
        checksum: Digest::parse(&allowed.checksum).ok()?,
        version: (allowed.status == CrateStatus::Allowed).then_some(allowed.version)?,
        features: allowed.features,
        tenant,
        decided_by: allowed.decided_by,
        decided_at,
    })
}

fn uncompared(row: &PgRow) -> Decoded<Uncompared> {
    Ok(Uncompared {
        review: row.try_get("id")?,
        name: parsed(row, "name")?,
        version: version(row, "version")?,
        checksum: parsed(row, "checksum")?,
        report: parsed(row, "report")?,
        tenant: parsed(row, "tenant")?,
    })
}

fn review_delta(row: &PgRow) -> Decoded<ReviewDelta> {
    let delta: Option<serde_json::Value> = row.try_get("delta")?;
    let problem: String = row.try_get("problem")?;
    let is_there = delta.is_some();
    let delta: Option<CrateDelta> = delta.and_then(|delta| serde_json::from_value(delta).ok());
    let is_unreadable = is_there && delta.is_none();
    Ok(ReviewDelta {
        volumes: row
            .try_get::<Option<serde_json::Value>, _>("volumes")?
            .and_then(|v| serde_json::from_value(v).ok()),
        baseline: row
            .try_get::<Option<String>, _>("from_version")?
            .map(|text| stored(row, &text))
            .transpose()?,
        stands: row.try_get("stands")?,
        delta,
        problem: if is_unreadable {
            "another release compared, in a way that this one cannot read".to_owned()
        } else {
            problem
        },
    })
}

fn stored(row: &PgRow, text: &str) -> Decoded<Baseline> {
    let scope: String = row.try_get("from_scope")?;
    Ok(Baseline {
        version: Version::parse(text).map_err(|error| bad("from_version", error))?,
        checksum: parsed(row, "from_checksum")?,
        features: row.try_get("from_features")?,
        tenant: if scope.is_empty() { None } else { Some(parsed(row, "from_scope")?) },
        decided_by: row.try_get("decided_by")?,
        decided_at: row.try_get("decided_at")?,
    })
}

#[cfg(test)]
mod tests;
