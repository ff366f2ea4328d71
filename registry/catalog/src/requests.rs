//! Requests: who wants which crate, and how far that is.
//!
//! A request comes from a deployment that waits, or from a person. It ends `ready`, `denied`, `failed` or
//! `withdrawn`; all in between is somebody's turn: the acquirer's, the reviewers', the acquirer's again.

use chrono::{DateTime, Utc};
use mfaas_delivery::{DeploymentState, Diagnostic, Event, Stage};
use mfaas_ident::{CrateName, DeploymentId, PersonName, TenantName};
use mfaas_rules::review::ReviewState;
use mfaas_rules::{Code, Finding, Layer, codes};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row as _};
use strum::{IntoStaticStr, VariantArray};

use crate::audit::{self, Entry};
use crate::decode::{Decoded, bad, parsed, word};
use crate::deployments::append_event;
use crate::{Actor, Catalog, CatalogError};

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum RequestStatus {
    /// The acquirer has to find out what it comes down to.
    Open,
    /// Reviewers have to decide about at least one crate.
    Reviewing,
    /// Everything is decided; the acquirer has to build it.
    Building,
    /// What was asked for can be used.
    Ready,
    /// A reviewer said no.
    Denied,
    /// It cannot be offered, whoever decides.
    Failed,
    /// Nobody asks any more.
    Withdrawn,
}

impl RequestStatus {
    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The status of that word. Two words of an older release mean that it was answered.
    pub fn parse(text: &str) -> Option<Self> {
        if matches!(text, "approved" | "retried") {
            return Some(Self::Ready);
        }
        Self::VARIANTS.iter().copied().find(|status| status.as_str() == text)
    }
}

/// A crate that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its number.
    pub id: i64,
    /// Whose function needs it.
    pub tenant: TenantName,
    /// Which deployment waits for it; `None` when a person asked.
    pub deployment: Option<DeploymentId>,
    /// Who asks; `None` for uploads from before there were persons.
    pub requested_by: Option<PersonName>,
    /// The crate.
    pub name: CrateName,
    /// The requirement as written.
    pub requirement: String,
    /// Features asked for.
    pub features: Vec<String>,
    /// Whether the crate's default features are asked for, too.
    pub default_features: bool,
    /// Whether people are to decide even about what ships.
    pub overrides: bool,
    /// Why it is not allowed today.
    pub code: Code,
    /// How far it is.
    pub status: RequestStatus,
    /// The version that it came down to.
    pub chosen: Option<semver::Version>,
    /// Why it ended without a yes.
    pub detail: String,
    /// Since when.
    pub created_at: DateTime<Utc>,
}

/// One crate of what a request comes down to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestMember {
    /// The package.
    pub name: CrateName,
    /// The version.
    pub version: semver::Version,
    /// From the crate that was asked for to this one.
    pub path: Vec<String>,
    /// The review that has to say yes; `None` for what was allowed already.
    pub review: Option<i64>,
    /// Where that review stands.
    pub state: Option<ReviewState>,
}

/// A person's request.
#[derive(Debug, Clone)]
pub struct NewRequest<'a> {
    /// Whose functions need it.
    pub tenant: &'a TenantName,
    /// Who asks.
    pub person: &'a PersonName,
    /// The crate.
    pub name: &'a CrateName,
    /// Which versions would do.
    pub requirement: &'a semver::VersionReq,
    /// Features beside the default ones.
    pub features: &'a [String],
    /// Whether the default features are wanted.
    pub default_features: bool,
    /// Whether people are to decide even about what ships: the site takes the decision over.
    pub overrides: bool,
}

const COLUMNS: &str =
    "id, tenant, deployment_id, requested_by, name, requirement, features, default_features, takeover, code,
    status, chosen, detail, created_at";

impl Catalog {
    /// Records a person's request. The same one that is not answered yet is answered instead of a second.
    pub async fn request_crate(&self, actor: &Actor, new: &NewRequest<'_>) -> Result<Request, CatalogError> {
        let mut tx = self.begin().await?;
        let row = sqlx::query(sqlx::AssertSqlSafe(format!(
            "WITH same AS (
                 SELECT id FROM crate_requests WHERE deployment_id IS NULL AND tenant = $1 AND requested_by = $2
                   AND name = $3 AND requirement = $4 AND features = $5 AND default_features = $6 AND takeover = $8
                   AND status IN ('open', 'reviewing', 'building') ORDER BY id LIMIT 1),
             made AS (
                 INSERT INTO crate_requests (tenant, requested_by, name, requirement, features, default_features, code,
                                             takeover)
                 SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE NOT EXISTS (SELECT 1 FROM same) RETURNING {COLUMNS}, true AS new)
             SELECT {COLUMNS}, new FROM made
             UNION ALL SELECT {COLUMNS}, false AS new FROM crate_requests WHERE id IN (SELECT id FROM same)"
        )))
        .bind(new.tenant.as_str())
        .bind(new.person.as_str())
        .bind(new.name.as_str())
        .bind(new.requirement.to_string())
        .bind(new.features)
        .bind(new.default_features)
        .bind(codes::MF0204.id())
        .bind(new.overrides)
        .fetch_one(&mut *tx)
        .await?;
        let found = request(&row)?;
        if row.try_get::<bool, _>("new")? {
            let detail = serde_json::json!({
                "name": new.name, "requirement": new.requirement.to_string(), "features": new.features,
            });
            let subject = format!("request {}", found.id);
            let entry = Entry {
                actor,
                action: "crate.requested",
                tenant: new.tenant.as_str(),
                subject: &subject,
                detail,
            };
            audit::append(&mut tx, entry).await?;
            wake_acquirer(&mut tx).await?;
        }
        tx.commit().await?;
        Ok(found)
    }

    /// Requests that are not answered, oldest first; of one tenant or of all.
    pub async fn unanswered_requests(
        &self,
        tenant: Option<&TenantName>,
        limit: u32,
    ) -> Result<Vec<Request>, CatalogError> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM crate_requests
             WHERE status IN ('open', 'reviewing', 'building') AND ($1::text IS NULL OR tenant = $1)
             ORDER BY id LIMIT $2"
        )))
        .bind(tenant.map(TenantName::as_str))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(request).collect::<Result<_, _>>()?)
    }

    /// One request of the tenant, or of any, with what it comes down to.
    pub async fn request(
        &self,
        tenant: Option<&TenantName>,
        id: i64,
    ) -> Result<(Request, Vec<RequestMember>), CatalogError> {
        let row = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM crate_requests WHERE id = $1 AND ($2::text IS NULL OR tenant = $2)"
        )))
        .bind(id)
        .bind(tenant.map(TenantName::as_str))
        .fetch_optional(&self.pool)
        .await?
        .ok_or(CatalogError::NotFound { what: "request" })?;
        Ok((request(&row)?, self.members(id).await?))
    }

    /// The requests that a deployment made, with what each comes down to, oldest first.
    pub async fn requests_of(
        &self,
        deployment: DeploymentId,
    ) -> Result<Vec<(Request, Vec<RequestMember>)>, CatalogError> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM crate_requests WHERE deployment_id = $1 ORDER BY id"
        )))
        .bind(deployment.0)
        .fetch_all(&self.pool)
        .await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let request = request(row)?;
            let members = self.members(request.id).await?;
            found.push((request, members));
        }
        Ok(found)
    }

    async fn members(&self, id: i64) -> Result<Vec<RequestMember>, CatalogError> {
        let rows = sqlx::query(
            "SELECT m.name, m.version, m.path, m.review_id, r.state
             FROM request_members m LEFT JOIN reviews r ON r.id = m.review_id WHERE m.request_id = $1
             ORDER BY cardinality(m.path), m.name, m.version",
        )
        .bind(id)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(member).collect::<Result<_, _>>()?)
    }
}

/// Requests that wait for the acquirer in this status, oldest first; each tenant's first one before anybody's second, so that
/// nobody waits behind another tenant's hundred.
pub(crate) async fn with_status(
    connection: &mut PgConnection,
    status: RequestStatus,
) -> Result<Vec<Request>, CatalogError> {
    let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
        "SELECT {COLUMNS} FROM crate_requests
         WHERE status = $1 AND status IN ('open', 'reviewing', 'building')
         ORDER BY row_number() OVER (PARTITION BY tenant ORDER BY id), id"
    )))
    .bind(status.as_str())
    .fetch_all(connection)
    .await?;
    Ok(rows.iter().map(request).collect::<Result<_, _>>()?)
}

/// Ends requests without a yes, and with them the deployments that wait for one of them.
pub(crate) async fn end_requests(
    connection: &mut PgConnection,
    actor: &Actor,
    ids: &[i64],
    status: RequestStatus,
    finding: &Finding,
) -> Result<(), CatalogError> {
    let ended = sqlx::query(
        "UPDATE crate_requests SET status = $2, detail = $3, decided_at = now()
         WHERE id = ANY($1) AND status IN ('open', 'reviewing', 'building') RETURNING id, tenant, deployment_id",
    )
    .bind(ids)
    .bind(status.as_str())
    .bind(&finding.message)
    .fetch_all(&mut *connection)
    .await?;
    for row in &ended {
        let (id, tenant): (i64, String) = (row.try_get("id")?, row.try_get("tenant")?);
        let action = match status {
            RequestStatus::Denied => "request.denied",
            _ => "request.failed",
        };
        let subject = format!("request {id}");
        let detail = serde_json::json!({ "reason": finding.message });
        audit::append(connection, Entry { actor, action, tenant: &tenant, subject: &subject, detail })
            .await?;
        if let Some(deployment) = row.try_get::<Option<uuid::Uuid>, _>("deployment_id")? {
            refuse_waiting(connection, actor, deployment, &tenant, finding).await?;
        }
    }
    Ok(())
}

/// Ends a deployment that waits; one that does not wait any more is left alone.
async fn refuse_waiting(
    connection: &mut PgConnection,
    actor: &Actor,
    id: uuid::Uuid,
    tenant: &str,
    finding: &Finding,
) -> Result<(), CatalogError> {
    let diagnostics = vec![Diagnostic::from(finding)];
    let refused = sqlx::query(
        "UPDATE deployments SET state = 'refused', diagnostics = $2 WHERE id = $1 AND state = 'waiting'",
    )
    .bind(id)
    .bind(Json(&diagnostics))
    .execute(&mut *connection)
    .await?;
    if refused.rows_affected() == 0 {
        return Ok(());
    }
    append_event(connection, id, &Event::diagnostics(Stage::Dependencies, diagnostics)).await?;
    append_event(connection, id, &Event::state(Stage::Dependencies, DeploymentState::Refused)).await?;
    let (subject, detail) = (id.to_string(), serde_json::json!({ "codes": [finding.code.id()] }));
    audit::append(
        connection,
        Entry { actor, action: "deployment.refused", tenant, subject: &subject, detail },
    )
    .await
}

/// What a deployment is told when a request of its ended.
pub(crate) fn finding(code: Code, message: String) -> Finding {
    Finding::new(code, Layer::Manifest, message)
}

/// There is something to do for the acquirer.
pub(crate) async fn wake_acquirer(connection: &mut PgConnection) -> Result<(), CatalogError> {
    sqlx::query("SELECT pg_notify('mfaas_acquirer', '')").execute(connection).await?;
    Ok(())
}

fn request(row: &PgRow) -> Decoded<Request> {
    let chosen: Option<String> = row.try_get("chosen")?;
    let person: String = row.try_get("requested_by")?;
    Ok(Request {
        id: row.try_get("id")?,
        tenant: parsed(row, "tenant")?,
        deployment: row.try_get::<Option<uuid::Uuid>, _>("deployment_id")?.map(DeploymentId),
        requested_by: if person.is_empty() { None } else { Some(parsed(row, "requested_by")?) },
        name: parsed(row, "name")?,
        requirement: row.try_get("requirement")?,
        features: row.try_get("features")?,
        default_features: row.try_get("default_features")?,
        overrides: row.try_get("takeover")?,
        code: word(row, "code", Code::parse)?,
        status: word(row, "status", RequestStatus::parse)?,
        chosen: chosen.map(|text| semver::Version::parse(&text).map_err(|e| bad("chosen", e))).transpose()?,
        detail: row.try_get("detail")?,
        created_at: row.try_get("created_at")?,
    })
}

fn member(row: &PgRow) -> Decoded<RequestMember> {
    let review: Option<i64> = row.try_get("review_id")?;
    Ok(RequestMember {
        name: parsed(row, "name")?,
        version: version(row, "version")?,
        path: row.try_get("path")?,
        review,
        state: review.map(|_| word(row, "state", ReviewState::parse)).transpose()?,
    })
}

/// The column as a semantic version.
pub(crate) fn version(row: &PgRow, column: &str) -> Decoded<semver::Version> {
    let text: String = row.try_get(column)?;
    semver::Version::parse(&text).map_err(|e| bad(column, e))
}

#[cfg(test)]
mod tests;
