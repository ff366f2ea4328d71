//! What calls cost: totals that nodes tell, charged once, by the hour.
//!
//! A node tells totals since its start. What is charged is the difference to the total that was taken before, never
//! less than nothing, so a repeated, lost or overtaken report charges nothing twice and loses nothing. A node that is
//! broken or taken over can neither make a number fall nor charge more than 256 cores could have used since it was
//! heard last, nor anything to a version that does not exist.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use mfaas_delivery::{Kill, RUN_BUCKETS, UsageReport, UsageRow};
use mfaas_ident::{FunctionName, NodeName, TenantName, VersionNumber};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use strum::IntoStaticStr;

use crate::decode::{Decoded, bad, int8, parsed, small, unsigned};
use crate::functions::int4;
use crate::series::{self, Called};
use crate::{Catalog, CatalogError};

/// Rows of one answer about usage.
pub const USAGE_ANSWER_ROWS_MAX: u32 = 10_000;
/// How far back an answer about usage goes, in days.
pub const USAGE_DAYS_SHOWN_MAX: i32 = 400;
/// Starts of one node that are remembered; a report of an older one would be taken for a new one's.
const BOOTS_KEPT: i64 = 100;
/// Cores that a node can have at most: as many as it may have workers.
const NODE_CORES_MAX: u64 = 256;
/// Calls that one core can answer in a second at most; ten times what was ever measured.
const CORE_CALLS_PER_S_MAX: u64 = 50_000_000;
/// Calls that can wait at once on a node; each of them adds to the time in queues.
const NODE_WAITING_MAX: u64 = 1 << 20;
/// Calls that one worker can hold at once; while one runs, the time of the others goes on as well.
const CORE_IN_FLIGHT_MAX: u64 = 64;
/// Added to the time since a node was heard last, for clocks that are set back, in seconds.
const CLOCK_SLACK_S: u64 = 60;

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charged {
    /// It was charged.
    Now,
    /// It, or a later one of the same start, was charged before: nothing changed.
    Before,
    /// The node has started again since: nothing changed.
    Ended,
    /// It tells more than the node can have done since it was heard last: nothing changed.
    Impossible,
}

/// How usage is summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Period {
    /// Each hour by itself.
    Hour,
    /// Each day of UTC by itself.
    Day,
    /// Everything that was asked for together.
    Total,
}

/// Which usage is meant.
#[derive(Debug, Clone)]
pub struct UsageQuery<'a> {
    /// The hour of this moment and later ones.
    pub since: DateTime<Utc>,
    /// Hours that begin before this moment.
    pub until: DateTime<Utc>,
    /// Of this tenant; of all when `None`.
    pub tenant: Option<&'a TenantName>,
    /// Of functions of this name; of all when `None`.
    pub function: Option<&'a FunctionName>,
    /// How it is summed up.
    pub by: Period,
    /// Rows at most.
    pub limit: u32,
}

/// What one version used in one period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// When the period begins; for [`Period::Total`] the first hour in which it was used.
    pub from: DateTime<Utc>,
    /// Owner.
    pub tenant: TenantName,
    /// Function.
    pub function: FunctionName,
    /// Version.
    pub version: VersionNumber,
    /// Calls that reached a worker.
    pub calls: u64,
    /// CPU time of the handler, in nanoseconds.
    pub cpu_ns: u64,
    /// Run time of the handler, in nanoseconds.
    pub run_ns: u64,
    /// The longest run, in nanoseconds.
    pub run_ns_max: u64,
    /// Time from acceptance to the worker, in nanoseconds.
    pub queue_ns: u64,
    /// The most arena bytes at once.
    pub memory_bytes_max: u64,
    /// Calls that did not end well, by reason; reasons without any are not in it.
    pub kills: BTreeMap<Kill, u64>,
}

/// The numbers of a row that only grow; kills in the order of [`Kill::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Totals {
    calls: u64,
    cpu_ns: u64,
    run_ns: u64,
    queue_ns: u64,
    kills: [u64; Kill::ALL.len()],
    /// By run time; `None` where a node of the release before told nothing of it.
    runs: Option<[u64; RUN_BUCKETS]>,
}

/// A row beside what was told before.
struct Charge<'a> {
    row: &'a UsageRow,
    /// The higher of both, number by number: what is remembered.
    total: Totals,
    /// What is new.
    delta: Totals,
}

/// In [`USAGE`]: of all tenants if none is named. For a named one it is replaced, so that its own index is used.
const ANY_TENANT: &str = "($3::text IS NULL OR tenant = $3)";
const USAGE: &str = "WITH told AS (
         SELECT hour, tenant, function, version, NULL AS reason, calls, cpu_ns, run_ns, run_ns_max, queue_ns,
                memory_bytes_max, 0 AS kills
         FROM usage_hours
         WHERE hour >= date_trunc('hour', $1::timestamptz, 'UTC') AND hour < $2
             AND ($3::text IS NULL OR tenant = $3) AND ($4::text IS NULL OR function = $4)
         UNION ALL
         SELECT hour, tenant, function, version, reason, 0, 0, 0, 0, 0, 0, kills
         FROM usage_kills
         WHERE hour >= date_trunc('hour', $1::timestamptz, 'UTC') AND hour < $2
             AND ($3::text IS NULL OR tenant = $3) AND ($4::text IS NULL OR function = $4)
     ), by_reason AS (
         SELECT CASE $5 WHEN 'total' THEN '-infinity' ELSE date_trunc($5, hour, 'UTC') END AS period,
                tenant, function, version, reason, min(hour) AS first,
                sum(calls) AS calls, sum(cpu_ns) AS cpu_ns, sum(run_ns) AS run_ns,
                max(run_ns_max) AS run_ns_max, sum(queue_ns) AS queue_ns,
                max(memory_bytes_max) AS memory_bytes_max, sum(kills) AS kills
         FROM told
         GROUP BY period, tenant, function, version, reason
     )
     SELECT CASE period WHEN '-infinity' THEN min(first) ELSE period END AS since, tenant, function, version,
            max(run_ns_max) AS run_ns_max, max(memory_bytes_max) AS memory_bytes_max,
            coalesce(jsonb_object_agg(reason, kills) FILTER (WHERE reason IS NOT NULL), '{}') AS kills,
            least(sum(calls), 9223372036854775807)::bigint AS calls,
            least(sum(cpu_ns), 9223372036854775807)::bigint AS cpu_ns,
            least(sum(run_ns), 9223372036854775807)::bigint AS run_ns,
            least(sum(queue_ns), 9223372036854775807)::bigint AS queue_ns
     FROM by_reason
     GROUP BY period, tenant, function, version
     ORDER BY period DESC, tenant, function, version LIMIT $6";

impl Catalog {
    /// Charges a checked report of a node, in one transaction with the memory that it was charged.
    pub async fn record_usage(&self, node: &NodeName, report: &UsageReport) -> Result<Charged, CatalogError> {
        let mut tx = self.begin().await?;
        // One report of a node at a time.
        let joined = sqlx::query("SELECT 1 FROM nodes WHERE name = $1 FOR NO KEY UPDATE")
            .bind(node.as_str())
            .fetch_optional(&mut *tx)
            .await?;
        if joined.is_none() {
            return Err(CatalogError::NotFound { what: "node" });
        }
        let silent_s = silent_s(&mut tx, node).await?;
        match begin_boot(&mut tx, node, report).await? {
            Charged::Now => {}
            other => return Ok(other),
        }
        let before = told_before(&mut tx, node, report).await?;
        let charges: Vec<Charge<'_>> = report
            .rows
            .iter()
            .filter_map(|row| before.get(&row.name()).map(|before| charge(row, before)))
            .collect();
        if !is_possible(&charges, silent_s) {
            // Not committed: the boot and its sequence stay as they were.
            return Ok(Charged::Impossible);
        }
        remember(&mut tx, node, report, &charges).await?;
        add_to_hours(&mut tx, &charges).await?;
        add_to_kills(&mut tx, &charges).await?;
        series::add(&mut tx, charges.iter().map(called).collect()).await?;
        tx.commit().await?;
        Ok(Charged::Now)
    }

    /// What was used, the newest period first, within it by name; at most `limit` rows.
    pub async fn usage(&self, query: &UsageQuery<'_>) -> Result<Vec<Usage>, CatalogError> {
        let sql = match query.tenant {
            Some(_) => USAGE.replace(ANY_TENANT, "tenant = $3"),
            None => USAGE.to_owned(),
        };
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(query.since)
            .bind(query.until)
            .bind(query.tenant.map(TenantName::as_str))
            .bind(query.function.map(FunctionName::as_str))
            .bind(query.by.as_str())
            .bind(i64::from(query.limit))
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.iter().map(usage).collect::<Result<_, _>>()?)
    }
}

impl Period {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The period of that word.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Hour, Self::Day, Self::Total].into_iter().find(|period| period.as_str() == text)
    }
}

impl Totals {
    fn of(row: &UsageRow) -> Self {
        Self {
            calls: row.calls,
            cpu_ns: row.cpu_ns,
            run_ns: row.run_ns,
            queue_ns: row.queue_ns,
            kills: Kill::ALL.map(|kill| row.kills.get(&kill).copied().unwrap_or(0)),
            runs: runs_of(&row.runs),
        }
    }

    /// `with` of each number and the one of `other`.
    fn zip(self, other: Self, with: fn(u64, u64) -> u64) -> Self {
        let mut kills = self.kills;
        kills.iter_mut().zip(other.kills).for_each(|(kill, other)| *kill = with(*kill, other));
        let runs = self.runs.zip(other.runs).map(|(mut runs, other)| {
            runs.iter_mut().zip(other).for_each(|(runs, other)| *runs = with(*runs, other));
            runs
        });
        Self {
            calls: with(self.calls, other.calls),
            cpu_ns: with(self.cpu_ns, other.cpu_ns),
            run_ns: with(self.run_ns, other.run_ns),
            queue_ns: with(self.queue_ns, other.queue_ns),
            kills,
            runs,
        }
    }
}

fn charge<'a>(row: &'a UsageRow, before: &Totals) -> Charge<'a> {
    let told = Totals::of(row);
    let (mut total, delta) = (told.zip(*before, u64::max), told.zip(*before, u64::saturating_sub));
    // What is told for the first time is what the next is compared with.
    total.runs = total.runs.or(told.runs);
    Charge { row, total, delta }
}

/// Counts by run time, all of them; `None` for none.
fn runs_of(told: &[u64]) -> Option<[u64; RUN_BUCKETS]> {
    let mut runs = [0; RUN_BUCKETS];
    runs.iter_mut().zip(told).for_each(|(runs, told)| *runs = *told);
    (!told.is_empty()).then_some(runs)
}

/// What a charge adds to charts.
fn called<'a>(charge: &Charge<'a>) -> Called<'a> {
    let (tenant, function, version) = charge.row.name();
    let Totals { calls, cpu_ns, runs, .. } = charge.delta;
    // A node that tells more run times than calls is believed neither.
    let runs = runs.filter(|runs| runs.iter().fold(0, |sum: u64, runs| sum.saturating_add(*runs)) <= calls);
    Called { tenant, function, version, calls, cpu_ns, memory_bytes_max: charge.row.memory_bytes_max, runs }
}

/// Whether one machine can have done all of it since it was heard last.
fn is_possible(charges: &[Charge<'_>], silent_s: u64) -> bool {
    let core_s = (silent_s.saturating_add(CLOCK_SLACK_S)).saturating_mul(NODE_CORES_MAX);
    let core_ns = core_s.saturating_mul(1_000_000_000);
    let sum = |of: fn(&Totals) -> u64| {
        charges.iter().fold(0, |sum: u64, charge| sum.saturating_add(of(&charge.delta)))
    };
    let waiting_ns = core_ns.saturating_mul(NODE_WAITING_MAX / NODE_CORES_MAX);
    sum(|delta| delta.run_ns) <= core_ns.saturating_mul(CORE_IN_FLIGHT_MAX)
        && sum(|delta| delta.cpu_ns) <= core_ns
        && sum(|delta| delta.queue_ns) <= waiting_ns
        && sum(|delta| delta.calls) <= core_s.saturating_mul(CORE_CALLS_PER_S_MAX)
        && charges.iter().all(|charge| charge.row.run_ns_max <= charge.total.run_ns)
}

/// Seconds since the node told usage last, or joined.
async fn silent_s(connection: &mut PgConnection, node: &NodeName) -> Result<u64, CatalogError> {
    let row = sqlx::query(
        "SELECT greatest(0, ceil(extract(epoch FROM clock_timestamp() - coalesce(
                    (SELECT max(last_at) FROM usage_boots WHERE node = $1), joined_at))))::bigint AS silent_s
         FROM nodes WHERE name = $1",
    )
    .bind(node.as_str())
    .fetch_one(connection)
    .await?;
    Ok(unsigned(&row, "silent_s")?)
}

/// Whether the report is the next one of the node's last start; a new start ends those before it.
async fn begin_boot(
    connection: &mut PgConnection,
    node: &NodeName,
    report: &UsageReport,
) -> Result<Charged, CatalogError> {
    let known = sqlx::query("SELECT sequence, ended FROM usage_boots WHERE node = $1 AND boot = $2")
        .bind(node.as_str())
        .bind(report.boot)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(known) = known else {
        sqlx::query("UPDATE usage_boots SET ended = true WHERE node = $1 AND NOT ended")
            .bind(node.as_str())
            .execute(&mut *connection)
            .await?;
        sqlx::query("DELETE FROM usage_totals WHERE node = $1")
            .bind(node.as_str())
            .execute(&mut *connection)
            .await?;
        sqlx::query(
            "DELETE FROM usage_boots WHERE node = $1 AND boot IN (
                 SELECT boot FROM usage_boots WHERE node = $1 ORDER BY first_at DESC OFFSET $2)",
        )
        .bind(node.as_str())
        .bind(BOOTS_KEPT - 1)
        .execute(&mut *connection)
        .await?;
        sqlx::query("INSERT INTO usage_boots (node, boot, sequence) VALUES ($1, $2, $3)")
            .bind(node.as_str())
            .bind(report.boot)
            .bind(int8(report.sequence))
            .execute(connection)
            .await?;
        return Ok(Charged::Now);
    };
    if known.try_get::<bool, _>("ended")? {
        return Ok(Charged::Ended);
    }
    if unsigned::<u64>(&known, "sequence")? >= report.sequence {
        return Ok(Charged::Before);
    }
    sqlx::query(
        "UPDATE usage_boots SET sequence = $3, last_at = clock_timestamp() WHERE node = $1 AND boot = $2",
    )
    .bind(node.as_str())
    .bind(report.boot)
    .bind(int8(report.sequence))
    .execute(connection)
    .await?;
    Ok(Charged::Now)
}

type Name<'a> = (&'a TenantName, &'a FunctionName, VersionNumber);

/// What this start of the node told before about each version of the report that exists; zeros for the first time.
async fn told_before<'a>(
    connection: &mut PgConnection,
    node: &NodeName,
    report: &'a UsageReport,
) -> Result<HashMap<Name<'a>, Totals>, CatalogError> {
    let places: Vec<i64> = (0..).take(report.rows.len()).collect();
    let column = |f: fn(&UsageRow) -> String| report.rows.iter().map(f).collect::<Vec<_>>();
    let versions: Vec<i32> = report.rows.iter().map(|row| int4(row.version)).collect();
    let rows = sqlx::query(
        "SELECT n.place, coalesce(t.calls, 0) AS calls, coalesce(t.cpu_ns, 0) AS cpu_ns,
                coalesce(t.run_ns, 0) AS run_ns, coalesce(t.queue_ns, 0) AS queue_ns,
                coalesce(t.kills, '{}') AS kills, coalesce(t.runs, ARRAY[0]) AS runs
         FROM unnest($3::bigint[], $4::text[], $5::text[], $6::integer[]) AS n (place, tenant, function, version)
         JOIN versions v ON (v.tenant, v.function, v.version) = (n.tenant, n.function, n.version)
         LEFT JOIN usage_totals t ON t.node = $1 AND t.boot = $2
             AND (t.tenant, t.function, t.version) = (n.tenant, n.function, n.version)",
    )
    .bind(node.as_str())
    .bind(report.boot)
    .bind(places)
    .bind(column(|row| row.tenant.to_string()))
    .bind(column(|row| row.function.to_string()))
    .bind(versions)
    .fetch_all(connection)
    .await?;
    let mut before = HashMap::with_capacity(rows.len());
    for row in &rows {
        let place: usize = unsigned(row, "place")?;
        if let Some(told) = report.rows.get(place) {
            before.insert(told.name(), totals(row)?);
        }
    }
    Ok(before)
}

fn totals(row: &PgRow) -> Decoded<Totals> {
    let stored: Vec<i64> = row.try_get("runs")?;
    let runs = stored.into_iter().map(|runs| u64::try_from(runs).map_err(|e| bad("runs", e)));
    let runs = runs_of(&runs.collect::<Result<Vec<_>, _>>()?);
    let stored: Vec<i64> = row.try_get("kills")?;
    let mut kills = [0; Kill::ALL.len()];
    for (kill, stored) in kills.iter_mut().zip(stored) {
        *kill = u64::try_from(stored).map_err(|e| bad("kills", e))?;
    }
    Ok(Totals {
        calls: unsigned(row, "calls")?,
        cpu_ns: unsigned(row, "cpu_ns")?,
        run_ns: unsigned(row, "run_ns")?,
        queue_ns: unsigned(row, "queue_ns")?,
        kills,
        runs,
    })
}

/// Names of the charged rows as columns.
fn names(charges: &[Charge<'_>]) -> (Vec<String>, Vec<String>, Vec<i32>) {
    let tenants = charges.iter().map(|charge| charge.row.tenant.to_string()).collect();
    let functions = charges.iter().map(|charge| charge.row.function.to_string()).collect();
    (tenants, functions, charges.iter().map(|charge| int4(charge.row.version)).collect())
}

fn numbers(charges: &[Charge<'_>], of: fn(&Charge<'_>) -> u64) -> Vec<i64> {
    charges.iter().map(|charge| int8(of(charge))).collect()
}

async fn remember(
    connection: &mut PgConnection,
    node: &NodeName,
    report: &UsageReport,
    charges: &[Charge<'_>],
) -> Result<(), CatalogError> {
    let (tenants, functions, versions) = names(charges);
    // PostgreSQL's arrays have no rows of their own: each row's kills travel as the text of an array.
    let kills = charges.iter().map(|charge| array(&charge.total.kills)).collect::<Vec<_>>();
    let runs = charges.iter().map(|charge| array(charge.total.runs.as_ref().map_or(&[][..], |runs| runs)));
    sqlx::query(
        "INSERT INTO usage_totals
             (node, boot, tenant, function, version, calls, cpu_ns, run_ns, queue_ns, kills, runs)
         SELECT $1, $2, n.tenant, n.function, n.version, n.calls, n.cpu_ns, n.run_ns, n.queue_ns, n.kills::bigint[],
                n.runs::bigint[]
         FROM unnest($3::text[], $4::text[], $5::integer[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
                     $10::text[], $11::text[])
             AS n (tenant, function, version, calls, cpu_ns, run_ns, queue_ns, kills, runs)
         ON CONFLICT ON CONSTRAINT usage_totals_pkey DO UPDATE
         SET calls = excluded.calls, cpu_ns = excluded.cpu_ns, run_ns = excluded.run_ns,
             queue_ns = excluded.queue_ns, kills = excluded.kills, runs = excluded.runs",
    )
    .bind(node.as_str())
    .bind(report.boot)
    .bind(tenants)
    .bind(functions)
    .bind(versions)
    .bind(numbers(charges, |charge| charge.total.calls))
    .bind(numbers(charges, |charge| charge.total.cpu_ns))
    .bind(numbers(charges, |charge| charge.total.run_ns))
    .bind(numbers(charges, |charge| charge.total.queue_ns))
    .bind(kills)
    .bind(runs.collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

fn array(numbers: &[u64]) -> String {
    let texts: Vec<String> = numbers.iter().map(|number| int8(*number).to_string()).collect();
    format!("{{{}}}", texts.join(","))
}

/// In the order of the names, so that two nodes never wait for each other's rows. Sums stop at the largest number
/// that the column holds instead of failing.
async fn add_to_hours(connection: &mut PgConnection, charges: &[Charge<'_>]) -> Result<(), CatalogError> {
    let (tenants, functions, versions) = names(charges);
    sqlx::query(
        "INSERT INTO usage_hours AS u
             (hour, tenant, function, version, calls, cpu_ns, run_ns, run_ns_max, queue_ns, memory_bytes_max)
         SELECT date_trunc('hour', now(), 'UTC'), n.*
         FROM unnest($1::text[], $2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::bigint[], $9::bigint[])
             AS n (tenant, function, version, calls, cpu_ns, run_ns, run_ns_max, queue_ns, memory_bytes_max)
         ORDER BY n.tenant, n.function, n.version
         ON CONFLICT ON CONSTRAINT usage_hours_pkey DO UPDATE SET
             calls = least(u.calls::numeric + excluded.calls, 9223372036854775807)::bigint,
             cpu_ns = least(u.cpu_ns::numeric + excluded.cpu_ns, 9223372036854775807)::bigint,
             run_ns = least(u.run_ns::numeric + excluded.run_ns, 9223372036854775807)::bigint,
             run_ns_max = greatest(u.run_ns_max, excluded.run_ns_max),
             queue_ns = least(u.queue_ns::numeric + excluded.queue_ns, 9223372036854775807)::bigint,
             memory_bytes_max = greatest(u.memory_bytes_max, excluded.memory_bytes_max)",
    )
    .bind(tenants)
    .bind(functions)
    .bind(versions)
    .bind(numbers(charges, |charge| charge.delta.calls))
    .bind(numbers(charges, |charge| charge.delta.cpu_ns))
    .bind(numbers(charges, |charge| charge.delta.run_ns))
    .bind(numbers(charges, |charge| charge.row.run_ns_max))
    .bind(numbers(charges, |charge| charge.delta.queue_ns))
    .bind(numbers(charges, |charge| charge.row.memory_bytes_max))
    .execute(connection)
    .await?;
    Ok(())
}

async fn add_to_kills(connection: &mut PgConnection, charges: &[Charge<'_>]) -> Result<(), CatalogError> {
    let (mut tenants, mut functions, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    let (mut reasons, mut kills) = (Vec::new(), Vec::new());
    for charge in charges {
        let new = Kill::ALL.into_iter().zip(charge.delta.kills).filter(|(_, kills)| *kills > 0);
        for (reason, number) in new {
            tenants.push(charge.row.tenant.to_string());
            functions.push(charge.row.function.to_string());
            versions.push(int4(charge.row.version));
            reasons.push(reason.as_str());
            kills.push(int8(number));
        }
    }
    if kills.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO usage_kills AS u (hour, tenant, function, version, reason, kills)
         SELECT date_trunc('hour', now(), 'UTC'), n.*
         FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::bigint[])
             AS n (tenant, function, version, reason, kills)
         ORDER BY n.tenant, n.function, n.version, n.reason
         ON CONFLICT ON CONSTRAINT usage_kills_pkey DO UPDATE
         SET kills = least(u.kills::numeric + excluded.kills, 9223372036854775807)::bigint",
    )
    .bind(tenants)
    .bind(functions)
    .bind(versions)
    .bind(reasons)
    .bind(kills)
    .execute(connection)
    .await?;
    Ok(())
}

fn usage(row: &PgRow) -> Decoded<Usage> {
    Ok(Usage {
        from: row.try_get("since")?,
        tenant: parsed(row, "tenant")?,
        function: parsed(row, "function")?,
        version: small(row, "version")?,
        calls: unsigned(row, "calls")?,
        cpu_ns: unsigned(row, "cpu_ns")?,
        run_ns: unsigned(row, "run_ns")?,
        run_ns_max: unsigned(row, "run_ns_max")?,
        queue_ns: unsigned(row, "queue_ns")?,
        memory_bytes_max: unsigned(row, "memory_bytes_max")?,
        kills: crate::decode::json(row, "kills")?,
    })
}

#[cfg(test)]
mod tests;
