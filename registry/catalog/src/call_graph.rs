//! Which functions call which, by the versions that are live: for people who look at a function.
//!
//! Must never say whom the functions of another tenant call.

use mfaas_ident::{CalleeName, FunctionName, TenantName, VersionNumber};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::decode::{Decoded, all_parsed, parsed, small_opt, unsigned};
use crate::{Catalog, CatalogError};

/// A function of a call graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallGraphFunction {
    /// Its name where its caller says it; the tenant's own have none of a tenant.
    pub name: CalleeName,
    /// What the alias `live` names; nothing of another tenant's.
    pub live_version: Option<VersionNumber>,
    /// Whom that version calls, by name.
    pub calls: Vec<CalleeName>,
    /// The tenant has deployed something under the name.
    pub is_deployed: bool,
}

/// Functions of a tenant that call one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectCallers {
    /// Their names.
    pub names: Vec<FunctionName>,
    /// How many functions of the tenant were looked at.
    pub looked_at: u32,
}

impl Catalog {
    /// A function and those that it calls, directly or not, at most `functions_max`: those first that fewer calls lead to, then
    /// by name. A cycle that aliases closed when they moved is in it as it is.
    pub async fn call_graph(
        &self,
        tenant: &TenantName,
        name: &FunctionName,
        functions_max: u32,
    ) -> Result<Vec<CallGraphFunction>, CatalogError> {
        // A row of `reached` has all that so many calls lead to. No function is met twice, so that cycles end.
        let rows = sqlx::query(
            "WITH RECURSIVE reached AS (
                 SELECT ARRAY[$2::text] AS names, ARRAY[$2::text] AS latest
                 UNION ALL
                 SELECT r.names || next.names, next.names FROM reached r CROSS JOIN LATERAL (
                     SELECT array_agg(met.name) AS names FROM (
                         SELECT DISTINCT callee.name FROM unnest(r.latest) AS caller (name)
                         JOIN aliases a ON a.tenant = $1::text AND a.function = caller.name AND a.alias = 'live'
                         JOIN version_calls c ON (c.tenant, c.function, c.version) = (a.tenant, a.function, a.version)
                         CROSS JOIN LATERAL (SELECT CASE WHEN starts_with(c.callee, $1 || '/')
                             THEN substr(c.callee, length($1) + 2) ELSE c.callee END AS name) callee
                         WHERE callee.name <> ALL (r.names)
                         ORDER BY callee.name LIMIT $3 - cardinality(r.names)) met) next
                 WHERE next.names IS NOT NULL),
             whole AS (SELECT names FROM reached ORDER BY cardinality(names) DESC LIMIT 1)
             SELECT f.name, a.version AS live_version, called.names AS calls,
                    EXISTS (SELECT FROM deployments d WHERE d.tenant = $1 AND d.function = f.name) AS is_deployed
             FROM whole CROSS JOIN LATERAL unnest(whole.names) WITH ORDINALITY AS f (name, nth)
             LEFT JOIN aliases a ON a.tenant = $1 AND a.function = f.name AND a.alias = 'live'
             CROSS JOIN LATERAL (
                 SELECT coalesce(array_agg(DISTINCT CASE WHEN starts_with(c.callee, $1 || '/')
                     THEN substr(c.callee, length($1) + 2) ELSE c.callee END), '{}') AS names
                 FROM version_calls c
                 WHERE (c.tenant, c.function, c.version) = (a.tenant, a.function, a.version)) called
             ORDER BY f.nth",
        )
        .bind(tenant.as_str())
        .bind(name.as_str())
        .bind(i64::from(functions_max))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(call_graph_function).collect::<Result<_, _>>()?)
    }

    /// The functions of the tenant whose live version calls this one, by name, at most `callers_max`. Only the tenant's first
    /// `functions_max` functions are looked at.
    pub async fn direct_callers(
        &self,
        tenant: &TenantName,
        name: &FunctionName,
        functions_max: u32,
        callers_max: u32,
    ) -> Result<DirectCallers, CatalogError> {
        // Each LIMIT 1 keeps the planner from reading all aliases of the tenant, or what all versions ever called.
        let row = sqlx::query(
            "WITH looked AS MATERIALIZED (
                 SELECT name FROM functions WHERE tenant = $1 AND deleted_at IS NULL ORDER BY name LIMIT $3)
             SELECT (SELECT count(*) FROM looked) AS looked_at,
                    ARRAY(SELECT l.name FROM looked l
                          CROSS JOIN LATERAL (
                              SELECT a.version FROM aliases a
                              WHERE a.tenant = $1 AND a.function = l.name AND a.alias = 'live' LIMIT 1) live
                          CROSS JOIN LATERAL (
                              SELECT FROM version_calls c
                              WHERE c.tenant = $1 AND c.function = l.name AND c.version = live.version
                                AND c.callee IN ($2, $1 || '/' || $2) LIMIT 1) found
                          ORDER BY l.name LIMIT $4) AS names",
        )
        .bind(tenant.as_str())
        .bind(name.as_str())
        .bind(i64::from(functions_max))
        .bind(i64::from(callers_max))
        .fetch_one(&self.pool)
        .await?;
        Ok(DirectCallers { names: all_parsed(&row, "names")?, looked_at: unsigned(&row, "looked_at")? })
    }
}

fn call_graph_function(row: &PgRow) -> Decoded<CallGraphFunction> {
    Ok(CallGraphFunction {
        name: parsed(row, "name")?,
        live_version: small_opt(row, "live_version")?,
        calls: all_parsed(row, "calls")?,
        is_deployed: row.try_get("is_deployed")?,
    })
}
