//! What is forgotten, and when: the one place that deletes what ended long ago.
//!
//! A few rows at a time, so that nobody waits for it; with an audit row in the same transaction, so that nothing goes
//! unnoticed. Triggers of the database let the server's role delete nothing that ended within the last day. Must never
//! delete an audit row, a version, a statement, or a decision about a crate: these are the record.

use std::collections::BTreeMap;

use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use crate::audit::{self, Entry};
use crate::decode::unsigned;
use crate::{Actor, Catalog, CatalogError};

/// Rows that one statement deletes at most.
pub const FORGET_ROWS_MAX: u32 = 1_000;
/// Deployments whose events are deleted in one transaction at most.
const FORGET_DEPLOYMENTS_MAX: u32 = 200;
/// The lock of the database that says who forgets; any number that nobody else takes.
const FORGETTING_LOCK: i64 = 0x6D66_6161_735F_666F;

/// How long things are kept, in days from their end; 0 keeps them for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Events and diagnostics of deployments that were admitted, refused or failed. The last event and the first error
    /// stay: they say how it ended.
    pub events_days: u32,
    /// Tokens that were revoked or ended, sign-ins among them, unless a vote was given with them; join tokens; call tokens that
    /// ended, and their revocations.
    pub tokens_days: u32,
    /// Log lines of functions.
    pub logs_days: u32,
    /// Hours of usage.
    pub usage_days: u32,
    /// Reports of nodes and builders that were not heard since.
    pub reports_days: u32,
    /// Revocations of artifacts that no version can be called by and no accepted toolchain made.
    pub revocations_days: u32,
    /// Uploads of which nothing came that can be called: blobs, see [`Catalog::collect_blobs`].
    pub uploads_days: u32,
    /// Artifacts of versions that were deleted: blobs, too.
    pub artifacts_days: u32,
}

impl Retention {
    /// What holds where nothing else is set.
    pub const DEFAULT: Self = Self {
        events_days: 90,
        tokens_days: 90,
        logs_days: 90,
        usage_days: 400,
        reports_days: 90,
        revocations_days: 400,
        uploads_days: 30,
        artifacts_days: 30,
    };
}

/// Rows of one kind that are deleted when they are old. They are found first, through their index, and then deleted by
/// what was found: as a join it would be the planner's to read the whole table.
struct Rule {
    /// As the audit row names them.
    what: &'static str,
    days: fn(&Retention) -> u32,
    /// Deletes at most `$2` rows that ended `$1` days ago, and answers how many of which tenant.
    statement: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        what: "tokens",
        days: |kept| kept.tokens_days,
        statement: "WITH gone AS (
                 DELETE FROM tokens WHERE id = ANY (ARRAY(
                     SELECT t.id FROM tokens t
                     WHERE least(t.revoked_at, t.expires_at) < now() - make_interval(days => $1)
                       AND (SELECT count(*) FROM votes v WHERE v.token_id = t.id) = 0
                     ORDER BY least(t.revoked_at, t.expires_at) LIMIT $2))
                 RETURNING tenant)
             SELECT tenant, count(*) AS rows FROM gone GROUP BY tenant",
    },
    Rule {
        what: "join tokens",
        days: |kept| kept.tokens_days,
        statement: "WITH gone AS (
                 DELETE FROM join_tokens WHERE secret_sha256 = ANY (ARRAY(
                     SELECT secret_sha256 FROM join_tokens WHERE expires_at < now() - make_interval(days => $1)
                     ORDER BY expires_at LIMIT $2))
                 RETURNING '' AS tenant)
             SELECT tenant, count(*) AS rows FROM gone GROUP BY tenant",
    },
    Rule {
        what: "call tokens",
        days: |kept| kept.tokens_days,
        statement: "WITH gone AS (
                 DELETE FROM call_tokens WHERE id = ANY (ARRAY(
                     SELECT id FROM call_tokens WHERE expires_at < now() - make_interval(days => $1)
                     ORDER BY expires_at LIMIT $2))
                 RETURNING tenant)
             SELECT tenant, count(*) AS rows FROM gone GROUP BY tenant",
    },
    Rule {
        what: "revocations of call tokens",
        days: |kept| kept.tokens_days,
        statement: "WITH gone AS (
                 DELETE FROM call_revocations WHERE id = ANY (ARRAY(
                     SELECT id FROM call_revocations WHERE ends_at < now() - make_interval(days => $1)
                     ORDER BY ends_at LIMIT $2))
                 RETURNING tenant)
             SELECT tenant, count(*) AS rows FROM gone GROUP BY tenant",
    },
    Rule {
        what: "log lines",
        days: |kept| kept.logs_days,
        statement: "WITH gone AS (
                 DELETE FROM function_logs WHERE id = ANY (ARRAY(
                     SELECT id FROM function_logs WHERE at < now() - make_interval(days => $1)
                     ORDER BY at LIMIT $2))
                 RETURNING tenant)
             SELECT tenant, count(*) AS rows FROM gone GROUP BY tenant",
    },
    Rule {
        what: "hours of usage",
        days: |kept| kept.usage_days,
        statement: "WITH gone AS (
                 DELETE FROM usage_hours WHERE ctid = ANY (ARRAY(
                     SELECT ctid FROM usage_hours WHERE hour < now() - make_interval(days => $1)
                     ORDER BY hour LIMIT $2))
                 RETURNING tenant)
             SELECT tenant, count(*) AS rows FROM gone GROUP BY tenant",
    },
    Rule {
        what: "reports of nodes",
        days: |kept| kept.reports_days,
        statement: "WITH gone AS (
                 DELETE FROM node_reports WHERE node IN (
                     SELECT node FROM node_reports WHERE at < now() - make_interval(days => $1)
                       AND epoch <= (SELECT coalesce(max(epoch), 0) FROM serving_sets)
                     ORDER BY at LIMIT $2)
                 RETURNING '' AS tenant)
             SELECT tenant, count(*) AS rows FROM gone GROUP BY tenant",
    },
    Rule {
        what: "reports of builders",
        days: |kept| kept.reports_days,
        statement: "WITH gone AS (
                 DELETE FROM builders WHERE instance IN (
                     SELECT instance FROM builders WHERE seen_at < now() - make_interval(days => $1)
                     ORDER BY seen_at LIMIT $2)
                 RETURNING '' AS tenant)
             SELECT tenant, count(*) AS rows FROM gone GROUP BY tenant",
    },
    Rule {
        what: "revocations",
        days: |kept| kept.revocations_days,
        statement: "WITH gone AS (
                 DELETE FROM revocations WHERE artifact = ANY (ARRAY(
                     SELECT old.artifact FROM toolchains t CROSS JOIN LATERAL (
                         SELECT r.artifact FROM revocations r
                         WHERE r.revoked_at < now() - make_interval(days => $1)
                           AND (SELECT a.toolchain FROM artifacts a WHERE a.digest = r.artifact) = t.id
                           AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.artifact = r.artifact AND v.retired_at IS NULL)
                         ORDER BY r.revoked_at LIMIT $2) old
                     WHERE NOT t.accepted LIMIT $2))
                 RETURNING '' AS tenant)
             SELECT tenant, count(*) AS rows FROM gone GROUP BY tenant",
    },
];

impl Catalog {
    /// Deletes some of what is old, a batch of each kind; answers how many rows it was. Whoever gets 0 is done, or
    /// somebody else is at it.
    pub async fn forget(&self, kept: &Retention) -> Result<u64, CatalogError> {
        let mut rows = self.forget_events(kept.events_days).await?;
        for rule in RULES {
            rows += self.forget_by(rule, (rule.days)(kept)).await?;
        }
        Ok(rows + self.forget_series().await?)
    }

    async fn forget_by(&self, rule: &Rule, days: u32) -> Result<u64, CatalogError> {
        let mut tx = self.begin().await?;
        if days == 0 || !alone(&mut tx).await? {
            return Ok(0);
        }
        let gone = sqlx::query(rule.statement)
            .bind(in_days(days))
            .bind(i64::from(FORGET_ROWS_MAX))
            .fetch_all(&mut *tx)
            .await?;
        let mut tenants = BTreeMap::new();
        for row in &gone {
            tenants.insert(row.try_get::<String, _>("tenant")?, unsigned(row, "rows")?);
        }
        let rows = record(&mut tx, rule.what, days, tenants).await?;
        tx.commit().await?;
        Ok(rows)
    }

    /// The events of old deployments but the last, and their diagnostics but the first error.
    async fn forget_events(&self, days: u32) -> Result<u64, CatalogError> {
        let mut tx = self.begin().await?;
        if days == 0 || !alone(&mut tx).await? {
            return Ok(0);
        }
        let marked = sqlx::query(
            "UPDATE deployments SET forgotten_at = now(), diagnostics = jsonb_path_query_array(
                 jsonb_path_query_array(diagnostics, '$[*] ? (@.level == \"error\")'), '$[0]')
             WHERE id IN (
                 SELECT id FROM deployments
                 WHERE state IN ('admitted', 'refused', 'failed') AND forgotten_at IS NULL
                   AND updated_at < now() - make_interval(days => $1)
                 ORDER BY updated_at LIMIT $2)
             RETURNING id, tenant",
        )
        .bind(in_days(days))
        .bind(i64::from(FORGET_DEPLOYMENTS_MAX))
        .fetch_all(&mut *tx)
        .await?;
        let (mut ids, mut tenants) = (Vec::<Uuid>::new(), BTreeMap::new());
        for row in &marked {
            ids.push(row.try_get("id")?);
            *tenants.entry(row.try_get::<String, _>("tenant")?).or_insert(0_u64) += 1;
        }
        delete_events(&mut tx, &ids).await?;
        let rows = record(&mut tx, "events of deployments", days, tenants).await?;
        tx.commit().await?;
        Ok(rows)
    }
}

/// One program at a time; the lock ends with the transaction.
async fn alone(connection: &mut PgConnection) -> Result<bool, CatalogError> {
    let locked = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1)").bind(FORGETTING_LOCK);
    Ok(locked.fetch_one(connection).await?)
}

/// A deployment that was put back for days has many events: they go in statements of a bounded size, too.
async fn delete_events(connection: &mut PgConnection, deployments: &[Uuid]) -> Result<(), CatalogError> {
    loop {
        let deleted = sqlx::query(
            "DELETE FROM deployment_events WHERE (deployment_id, seq) IN (
                 SELECT e.deployment_id, e.seq FROM deployment_events e JOIN deployments d ON d.id = e.deployment_id
                 WHERE e.deployment_id = ANY($1) AND e.seq < d.last_event LIMIT $2)",
        )
        .bind(deployments)
        .bind(i64::from(FORGET_ROWS_MAX))
        .execute(&mut *connection)
        .await?;
        if deleted.rows_affected() < u64::from(FORGET_ROWS_MAX) {
            return Ok(());
        }
    }
}

/// The audit row of a batch, if anything went; answers how many it was.
async fn record(
    connection: &mut PgConnection,
    what: &str,
    days: u32,
    tenants: BTreeMap<String, u64>,
) -> Result<u64, CatalogError> {
    let rows = tenants.values().sum();
    if rows > 0 {
        let actor = &Actor::program("mfaas-server");
        let detail = serde_json::json!({ "days": days, "rows": rows, "tenants": tenants });
        let entry = Entry { actor, action: "retention.forgotten", tenant: "", subject: what, detail };
        audit::append(connection, entry).await?;
    }
    Ok(rows)
}

/// As PostgreSQL counts them.
pub(crate) fn in_days(days: u32) -> i32 {
    i32::try_from(days).unwrap_or(i32::MAX)
}
