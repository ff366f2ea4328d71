//! Adds what was told to the rows of the step that it was told in, of each length.

use std::collections::BTreeMap;

use mfaas_delivery::{LoadReport, RUN_BUCKETS};
use mfaas_ident::{FunctionName, NodeName, TenantName, VersionNumber};
use sqlx::PgConnection;

use super::SERIES_VERSIONS_MAX;
use crate::decode::int8;
use crate::functions::int4;
use crate::{Catalog, CatalogError};

/// What is new of one version.
#[derive(Debug, Clone)]
pub(crate) struct Called<'a> {
    pub(crate) tenant: &'a TenantName,
    pub(crate) function: &'a FunctionName,
    pub(crate) version: VersionNumber,
    pub(crate) calls: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) memory_bytes_max: u64,
    /// By run time; `None` where nothing was told of it, or nothing that it can be compared with.
    pub(crate) runs: Option<[u64; RUN_BUCKETS]>,
}

/// A tenant's versions together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TenantSum {
    pub(super) calls: u64,
    pub(super) cpu_ns: u64,
    pub(super) memory_bytes_max: u64,
    pub(super) calls_left_out: u64,
}

/// Which versions get rows, and what each tenant's come to.
///
/// Tenants take turns, each with the version of theirs that was called most: who calls ten thousand versions takes no row
/// from a tenant with one.
pub(super) fn drawn(
    mut called: Vec<Called<'_>>,
    rows_max: usize,
) -> (Vec<Called<'_>>, BTreeMap<&TenantName, TenantSum>) {
    called.retain(|row| row.calls > 0);
    called.sort_by(|a, b| {
        (a.tenant, b.calls, a.function, a.version).cmp(&(b.tenant, a.calls, b.function, b.version))
    });
    let mut turns = BTreeMap::<_, usize>::new();
    let mut by_turn: Vec<_> = called
        .into_iter()
        .map(|row| {
            let turn = turns.entry(row.tenant).or_default();
            *turn += 1;
            (*turn, row)
        })
        .collect();
    // Stable: within a turn by tenant.
    by_turn.sort_by_key(|(turn, _)| *turn);
    let mut sums = BTreeMap::<_, TenantSum>::new();
    for (place, (_, row)) in by_turn.iter().enumerate() {
        let sum = sums.entry(row.tenant).or_default();
        sum.calls = sum.calls.saturating_add(row.calls);
        sum.cpu_ns = sum.cpu_ns.saturating_add(row.cpu_ns);
        sum.memory_bytes_max = sum.memory_bytes_max.max(row.memory_bytes_max);
        if place >= rows_max {
            sum.calls_left_out = sum.calls_left_out.saturating_add(row.calls);
        }
    }
    by_turn.truncate(rows_max);
    (by_turn.into_iter().map(|(_, row)| row).collect(), sums)
}

/// Adds what one report tells. The sums of tenants, which all nodes add to, come last.
pub(crate) async fn add(connection: &mut PgConnection, called: Vec<Called<'_>>) -> Result<(), CatalogError> {
    let (rows, sums) = drawn(called, SERIES_VERSIONS_MAX);
    if rows.is_empty() {
        return Ok(());
    }
    add_calls(connection, &rows).await?;
    add_tenants(connection, &sums).await
}

/// In the order of the names, so that two nodes never wait for each other's rows.
async fn add_calls(connection: &mut PgConnection, rows: &[Called<'_>]) -> Result<(), CatalogError> {
    let column = |of: fn(&Called<'_>) -> u64| rows.iter().map(|row| int8(of(row))).collect::<Vec<_>>();
    // PostgreSQL's arrays have no rows of their own: each row's counts travel as the text of an array.
    let runs = rows.iter().map(|row| array(row.runs.as_ref().map_or(&[][..], |runs| runs)));
    sqlx::query(
        "INSERT INTO series_calls AS s (step_s, at, tenant, function, version, calls, cpu_ns, memory_bytes_max, runs)
         SELECT step_s, date_bin(make_interval(secs => step_s), now(), 'epoch'), n.tenant, n.function, n.version,
                n.calls, n.cpu_ns, n.memory_bytes_max, n.runs::bigint[]
         FROM unnest($1::text[], $2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])
             AS n (tenant, function, version, calls, cpu_ns, memory_bytes_max, runs)
             CROSS JOIN unnest(ARRAY[60, 900, 21600]) step_s
         ORDER BY n.tenant, n.function, n.version, step_s
         ON CONFLICT ON CONSTRAINT series_calls_pkey DO UPDATE SET
             calls = least(s.calls::numeric + excluded.calls, 9223372036854775807)::bigint,
             cpu_ns = least(s.cpu_ns::numeric + excluded.cpu_ns, 9223372036854775807)::bigint,
             memory_bytes_max = greatest(s.memory_bytes_max, excluded.memory_bytes_max),
             runs = added_counts(s.runs, excluded.runs)",
    )
    .bind(rows.iter().map(|row| row.tenant.to_string()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.function.to_string()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| int4(row.version)).collect::<Vec<_>>())
    .bind(column(|row| row.calls))
    .bind(column(|row| row.cpu_ns))
    .bind(column(|row| row.memory_bytes_max))
    .bind(runs.collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

fn array(numbers: &[u64]) -> String {
    let end = numbers.iter().rposition(|number| *number > 0).map_or(0, |last| last + 1);
    let texts: Vec<String> = numbers.iter().take(end).map(|number| int8(*number).to_string()).collect();
    format!("{{{}}}", texts.join(","))
}

async fn add_tenants(
    connection: &mut PgConnection,
    sums: &BTreeMap<&TenantName, TenantSum>,
) -> Result<(), CatalogError> {
    let column = |of: fn(&TenantSum) -> u64| sums.values().map(|sum| int8(of(sum))).collect::<Vec<_>>();
    sqlx::query(
        "INSERT INTO series_tenants AS s (step_s, at, tenant, calls, cpu_ns, memory_bytes_max, calls_left_out)
         SELECT step_s, date_bin(make_interval(secs => step_s), now(), 'epoch'), n.*
         FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
             AS n (tenant, calls, cpu_ns, memory_bytes_max, calls_left_out)
             CROSS JOIN unnest(ARRAY[60, 900, 21600]) step_s
         ORDER BY n.tenant, step_s
         ON CONFLICT ON CONSTRAINT series_tenants_pkey DO UPDATE SET
             calls = least(s.calls::numeric + excluded.calls, 9223372036854775807)::bigint,
             cpu_ns = least(s.cpu_ns::numeric + excluded.cpu_ns, 9223372036854775807)::bigint,
             memory_bytes_max = greatest(s.memory_bytes_max, excluded.memory_bytes_max),
             calls_left_out = least(s.calls_left_out::numeric + excluded.calls_left_out, 9223372036854775807)::bigint",
    )
    .bind(sums.keys().map(ToString::to_string).collect::<Vec<_>>())
    .bind(column(|sum| sum.calls))
    .bind(column(|sum| sum.cpu_ns))
    .bind(column(|sum| sum.memory_bytes_max))
    .bind(column(|sum| sum.calls_left_out))
    .execute(connection)
    .await?;
    Ok(())
}

impl Catalog {
    /// Adds a checked report of how busy a node is. One that is told twice counts twice, in its node's own rows alone.
    pub async fn record_load(&self, node: &NodeName, load: &LoadReport) -> Result<(), CatalogError> {
        let numbers = [
            load.interval_ms,
            load.cpu_ns,
            load.running,
            load.waiting,
            load.processes,
            load.pools,
            load.pools_busy,
            load.resident,
            load.resident_bytes,
        ];
        sqlx::query(
            "INSERT INTO series_nodes AS s (step_s, at, node, cores, interval_ms, cpu_ns, running_max, waiting_max,
                    processes_max, pools_max, pools_busy_max, resident_max, resident_bytes_max)
             SELECT step_s, date_bin(make_interval(secs => step_s), now(), 'epoch'), $1, $2, n[1], n[2], n[3], n[4], n[5],
                    n[6], n[7], n[8], n[9]
             FROM (SELECT $3::bigint[] AS n) AS told CROSS JOIN unnest(ARRAY[60, 900, 21600]) step_s
             ON CONFLICT ON CONSTRAINT series_nodes_pkey DO UPDATE SET
                 cores = greatest(s.cores, excluded.cores),
                 interval_ms = s.interval_ms + excluded.interval_ms,
                 cpu_ns = least(s.cpu_ns::numeric + excluded.cpu_ns, 9223372036854775807)::bigint,
                 running_max = greatest(s.running_max, excluded.running_max),
                 waiting_max = greatest(s.waiting_max, excluded.waiting_max),
                 processes_max = greatest(s.processes_max, excluded.processes_max),
                 pools_max = greatest(s.pools_max, excluded.pools_max),
                 pools_busy_max = greatest(s.pools_busy_max, excluded.pools_busy_max),
                 resident_max = greatest(s.resident_max, excluded.resident_max),
                 resident_bytes_max = greatest(s.resident_bytes_max, excluded.resident_bytes_max)",
        )
        .bind(node.as_str())
        .bind(i32::try_from(load.cores).unwrap_or(i32::MAX))
        .bind(numbers.map(int8).to_vec())
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}
