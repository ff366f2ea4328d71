//! What calls, nodes and builds did over time, in steps that a chart shows: a minute, a quarter of an hour, six hours.
//!
//! Each step is a row that what nodes tell is added to, so a chart reads as many rows as it has points and nothing is
//! rolled up later. Rows are few because only what was called has any, because they are kept for 160 steps, and because
//! of one report only some versions get rows; what the others did is counted, too. Nothing is charged by these rows.

mod add;

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_ident::{FunctionName, NodeName, TenantName, VersionNumber};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::decode::{Decoded, bad, parsed, small, unsigned};
use crate::functions::int4;
use crate::{Catalog, CatalogError};

pub(crate) use add::{Called, add};

/// Steps of one answer.
pub const SERIES_STEPS_MAX: u32 = 150;
/// Steps that rows are kept for. The database lets nothing go that is within [`SERIES_STEPS_MAX`].
const STEPS_KEPT: u32 = 160;
/// Versions of a function, or tenants, that are shown by themselves: those with the most calls or CPU time.
pub const SERIES_SHOWN_MAX: usize = 5;
/// Versions of one report that get rows: of each tenant those with the most calls, by turns.
pub const SERIES_VERSIONS_MAX: usize = 1_000;
/// Rows of one kind and step that are forgotten at once.
const FORGET_ROWS_MAX: i64 = 10_000;
/// Nodes of one answer, by name.
pub const SERIES_NODES_MAX: usize = 200;
/// Upper edges of the buckets of builds' times, in milliseconds, as the database counts them.
pub const BUILD_EDGES_MS: [u64; 15] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_200_000,
    3_600_000,
];

const CALL_STEPS: &str = "SELECT at, least(sum(calls), 9223372036854775807)::bigint AS calls,
            least(sum(cpu_ns), 9223372036854775807)::bigint AS cpu_ns, max(memory_bytes_max) AS memory_bytes_max
     FROM series_calls
     WHERE step_s = $1 AND at >= $2 AND at < $3 AND tenant = $4 AND function = $5
       AND ($6::integer IS NULL OR version = $6)
     GROUP BY at";
const CALL_RUNS: &str = "SELECT at, bucket, least(sum(told), 9223372036854775807)::bigint AS runs
     FROM series_calls CROSS JOIN LATERAL unnest(runs) WITH ORDINALITY AS r (told, bucket)
     WHERE step_s = $1 AND at >= $2 AND at < $3 AND tenant = $4 AND function = $5
       AND ($6::integer IS NULL OR version = $6)
     GROUP BY at, bucket ORDER BY at, bucket";
const CALL_VERSIONS: &str = "WITH asked AS (
         SELECT at, version, calls FROM series_calls
         WHERE step_s = $1 AND at >= $2 AND at < $3 AND tenant = $4 AND function = $5
           AND ($6::integer IS NULL OR version = $6)
     ), most AS (
         SELECT version FROM asked GROUP BY version ORDER BY sum(calls) DESC, version DESC LIMIT 5
     )
     SELECT at, version, calls FROM asked WHERE version IN (SELECT version FROM most)";
const ONE_TENANT: &str = "SELECT at, calls, cpu_ns, memory_bytes_max, calls_left_out FROM series_tenants
     WHERE step_s = $1 AND at >= $2 AND at < $3 AND tenant = $4";
const ALL_TENANTS: &str = "SELECT at, least(sum(calls), 9223372036854775807)::bigint AS calls,
            least(sum(cpu_ns), 9223372036854775807)::bigint AS cpu_ns, max(memory_bytes_max) AS memory_bytes_max,
            least(sum(calls_left_out), 9223372036854775807)::bigint AS calls_left_out
     FROM series_tenants WHERE step_s = $1 AND at >= $2 AND at < $3 GROUP BY at";
const BUSIEST_TENANTS: &str = "WITH most AS (
         SELECT tenant FROM series_tenants WHERE step_s = $1 AND at >= $2 AND at < $3
         GROUP BY tenant ORDER BY sum(cpu_ns) DESC, tenant LIMIT 5
     )
     SELECT at, tenant, calls, cpu_ns, memory_bytes_max, calls_left_out
     FROM most JOIN series_tenants USING (tenant) WHERE step_s = $1 AND at >= $2 AND at < $3";
const NODES: &str =
    "SELECT at, node, interval_ms, cpu_ns, cores, running_max, waiting_max, processes_max, pools_max,
            pools_busy_max, resident_max, resident_bytes_max
     FROM series_nodes WHERE step_s = $1 AND at >= $2 AND at < $3";
const BUILDS: &str = "SELECT at, builds, queue_counts, build_counts FROM series_builds
     WHERE step_s = $1 AND at >= $2 AND at < $3";
const HEARD: &str =
    "SELECT g.at FROM generate_series($2::timestamptz, $3, make_interval(secs => $1)) AS g (at)
     CROSS JOIN LATERAL (SELECT 1 FROM series_nodes n WHERE n.step_s = $1 AND n.at = g.at LIMIT 1) heard
     WHERE g.at < $3";

/// Without an audit row: nothing here is a record, and what was charged stays in the hours of usage.
const FORGETTING: [&str; 4] = [
    "DELETE FROM series_calls WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM series_calls WHERE step_s = $1 AND at < now() - make_interval(secs => $2)
         ORDER BY at LIMIT $3))",
    "DELETE FROM series_tenants WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM series_tenants WHERE step_s = $1 AND at < now() - make_interval(secs => $2)
         ORDER BY at LIMIT $3))",
    "DELETE FROM series_nodes WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM series_nodes WHERE step_s = $1 AND at < now() - make_interval(secs => $2)
         ORDER BY at LIMIT $3))",
    "DELETE FROM series_builds WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM series_builds WHERE step_s = $1 AND at < now() - make_interval(secs => $2)
         ORDER BY at LIMIT $3))",
];

/// How long one point of a chart is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// For an hour.
    Minute,
    /// For a day.
    QuarterHour,
    /// For a month.
    SixHours,
}

impl Step {
    /// All, the finest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::QuarterHour, Self::SixHours];

    /// Its length.
    pub fn seconds(self) -> u32 {
        match self {
            Self::Minute => 60,
            Self::QuarterHour => 900,
            Self::SixHours => 21_600,
        }
    }

    fn times(self, number: u32) -> TimeDelta {
        TimeDelta::seconds(i64::from(self.seconds()) * i64::from(number))
    }

    /// The beginning of the step that a moment is in. Steps of six hours begin with the days of UTC.
    fn floor(self, at: DateTime<Utc>) -> DateTime<Utc> {
        let into = at.timestamp().rem_euclid(i64::from(self.seconds()));
        DateTime::from_timestamp(at.timestamp() - into, 0).unwrap_or(at)
    }
}

/// The steps of an answer: at most [`SERIES_STEPS_MAX`], all of them kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    step: Step,
    since: DateTime<Utc>,
    until: DateTime<Utc>,
}

impl Range {
    /// The finest steps that cover this time and are still there; `None` when none do, or when it ends before it begins.
    pub fn of(since: DateTime<Utc>, until: DateTime<Utc>, now: DateTime<Utc>) -> Option<Self> {
        let fits = |step: Step| {
            let since = step.floor(since);
            let is_kept = since > now - step.times(SERIES_STEPS_MAX);
            (is_kept && since < until && until - since <= step.times(SERIES_STEPS_MAX)).then_some(Self {
                step,
                since,
                until,
            })
        };
        Step::ALL.into_iter().filter(|_| since <= until).find_map(fits)
    }

    /// How long each is.
    pub fn step(&self) -> Step {
        self.step
    }

    /// The beginning of the first.
    pub fn since(&self) -> DateTime<Utc> {
        self.since
    }

    /// What none of them begins at or after.
    pub fn until(&self) -> DateTime<Utc> {
        self.until
    }

    /// The beginning of each.
    pub fn moments(&self) -> impl Iterator<Item = DateTime<Utc>> + use<> {
        let Self { step, since, until } = *self;
        (0..SERIES_STEPS_MAX).map(move |number| since + step.times(number)).take_while(move |at| *at < until)
    }
}

/// Calls of a function, or of one of its versions, in one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallStep {
    /// Calls that reached a worker.
    pub calls: u64,
    /// CPU time of the handler, in nanoseconds.
    pub cpu_ns: u64,
    /// The most arena bytes that one call had at once.
    pub memory_bytes_max: u64,
    /// Calls by run time, by the edges of [`mfaas_delivery::RUN_EDGES_NS`]; zeros at the end are left out. Of nodes of the
    /// release before there are none.
    pub runs: Vec<u64>,
}

/// A function over time; steps without a call are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallSeries {
    /// All that was asked for together.
    pub steps: BTreeMap<DateTime<Utc>, CallStep>,
    /// The versions with the most calls, at most [`SERIES_SHOWN_MAX`]: calls by step.
    pub versions: BTreeMap<VersionNumber, BTreeMap<DateTime<Utc>, u64>>,
}

/// What a tenant used in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantStep {
    /// Calls that reached a worker.
    pub calls: u64,
    /// CPU time of handlers, in nanoseconds.
    pub cpu_ns: u64,
    /// The most arena bytes that one call had at once.
    pub memory_bytes_max: u64,
    /// Calls of versions without rows of their own in that step.
    pub calls_left_out: u64,
}

/// Tenants over time; steps without a call are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantSeries {
    /// All that were asked for together.
    pub steps: BTreeMap<DateTime<Utc>, TenantStep>,
    /// Those with the most CPU time, at most [`SERIES_SHOWN_MAX`].
    pub tenants: BTreeMap<TenantName, BTreeMap<DateTime<Utc>, TenantStep>>,
}

/// What a node said of itself in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeStep {
    /// The time that its reports cover, in milliseconds.
    pub interval_ms: u64,
    /// CPU time of handlers in that time, in nanoseconds.
    pub cpu_ns: u64,
    /// Cores that run calls.
    pub cores: u32,
    /// The most calls in workers, of the moments at which it reported; and so on.
    pub running_max: u64,
    /// Calls that waited.
    pub waiting_max: u64,
    /// Worker processes.
    pub processes_max: u64,
    /// Pools with workers.
    pub pools_max: u64,
    /// Pools with calls.
    pub pools_busy_max: u64,
    /// Functions in memory.
    pub resident_max: u64,
    /// Their images, in bytes.
    pub resident_bytes_max: u64,
}

/// Builds that ended in one step, by the edges of [`BUILD_EDGES_MS`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BuildStep {
    /// How many.
    pub builds: u64,
    /// By the time from being queued to the first builder. Those that were queued again are in neither.
    pub queue_counts: Vec<u64>,
    /// By the time from the first builder to the end.
    pub build_counts: Vec<u64>,
}

impl Catalog {
    /// A function over time, or one of its versions.
    pub async fn call_series(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
        version: Option<VersionNumber>,
        range: &Range,
    ) -> Result<CallSeries, CatalogError> {
        let mut series = CallSeries::default();
        for row in &self.calls_asked(CALL_STEPS, tenant, function, version, range).await? {
            let step = CallStep {
                calls: unsigned(row, "calls")?,
                cpu_ns: unsigned(row, "cpu_ns")?,
                memory_bytes_max: unsigned(row, "memory_bytes_max")?,
                runs: Vec::new(),
            };
            series.steps.insert(row.try_get("at")?, step);
        }
        for row in &self.calls_asked(CALL_RUNS, tenant, function, version, range).await? {
            // Rows come bucket by bucket, and no array has a hole.
            if let Some(step) = series.steps.get_mut(&row.try_get("at")?) {
                step.runs.push(unsigned(row, "runs")?);
            }
        }
        for row in &self.calls_asked(CALL_VERSIONS, tenant, function, version, range).await? {
            let steps = series.versions.entry(small(row, "version")?).or_default();
            steps.insert(row.try_get("at")?, unsigned(row, "calls")?);
        }
        Ok(series)
    }

    async fn calls_asked(
        &self,
        statement: &'static str,
        tenant: &TenantName,
        function: &FunctionName,
        version: Option<VersionNumber>,
        range: &Range,
    ) -> Result<Vec<PgRow>, CatalogError> {
        let rows = sqlx::query(statement)
            .bind(int4_of(range.step))
            .bind(range.since)
            .bind(range.until)
            .bind(tenant.as_str())
            .bind(function.as_str())
            .bind(version.map(int4));
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// One tenant over time, or all.
    pub async fn tenant_series(
        &self,
        tenant: Option<&TenantName>,
        range: &Range,
    ) -> Result<TenantSeries, CatalogError> {
        let mut series = TenantSeries::default();
        let Some(tenant) = tenant else {
            for row in &self.steps_asked(ALL_TENANTS, range).await? {
                series.steps.insert(row.try_get("at")?, tenant_step(row)?);
            }
            for row in &self.steps_asked(BUSIEST_TENANTS, range).await? {
                let steps = series.tenants.entry(parsed(row, "tenant")?).or_default();
                steps.insert(row.try_get("at")?, tenant_step(row)?);
            }
            return Ok(series);
        };
        let rows = sqlx::query(ONE_TENANT)
            .bind(int4_of(range.step))
            .bind(range.since)
            .bind(range.until)
            .bind(tenant.as_str())
            .fetch_all(&self.pool)
            .await?;
        for row in &rows {
            series.steps.insert(row.try_get("at")?, tenant_step(row)?);
        }
        series.tenants.insert(tenant.clone(), series.steps.clone());
        Ok(series)
    }

    /// The first [`SERIES_NODES_MAX`] nodes over time, and whether there are more.
    pub async fn node_series(
        &self,
        range: &Range,
    ) -> Result<(BTreeMap<NodeName, BTreeMap<DateTime<Utc>, NodeStep>>, bool), CatalogError> {
        let mut nodes = BTreeMap::<NodeName, BTreeMap<_, _>>::new();
        for row in &self.steps_asked(NODES, range).await? {
            nodes.entry(parsed(row, "node")?).or_default().insert(row.try_get("at")?, node_step(row)?);
        }
        let is_cut = nodes.len() > SERIES_NODES_MAX;
        while nodes.len() > SERIES_NODES_MAX {
            nodes.pop_last();
        }
        Ok((nodes, is_cut))
    }

    /// Builds over time.
    pub async fn build_series(
        &self,
        range: &Range,
    ) -> Result<BTreeMap<DateTime<Utc>, BuildStep>, CatalogError> {
        let mut steps = BTreeMap::new();
        for row in &self.steps_asked(BUILDS, range).await? {
            let step = BuildStep {
                builds: unsigned(row, "builds")?,
                queue_counts: counts(row, "queue_counts")?,
                build_counts: counts(row, "build_counts")?,
            };
            steps.insert(row.try_get("at")?, step);
        }
        Ok(steps)
    }

    /// The steps in which any node said how busy it is: in others, no calls means that nobody knows.
    pub async fn steps_heard(&self, range: &Range) -> Result<Vec<DateTime<Utc>>, CatalogError> {
        let rows = self.steps_asked(HEARD, range).await?;
        Ok(rows.iter().map(|row| row.try_get("at")).collect::<Result<_, _>>()?)
    }

    async fn steps_asked(&self, statement: &'static str, range: &Range) -> Result<Vec<PgRow>, CatalogError> {
        let rows = sqlx::query(statement).bind(int4_of(range.step)).bind(range.since).bind(range.until);
        Ok(rows.fetch_all(&self.pool).await?)
    }

    /// Deletes some of what no chart shows any more; answers how many rows it was.
    pub(crate) async fn forget_series(&self) -> Result<u64, CatalogError> {
        let mut rows = 0;
        for statement in FORGETTING {
            for step in Step::ALL {
                let kept = f64::from(STEPS_KEPT * step.seconds());
                let gone = sqlx::query(statement).bind(int4_of(step)).bind(kept).bind(FORGET_ROWS_MAX);
                rows += gone.execute(&self.pool).await?.rows_affected();
            }
        }
        Ok(rows)
    }
}

fn int4_of(step: Step) -> i32 {
    i32::try_from(step.seconds()).unwrap_or(i32::MAX)
}

fn tenant_step(row: &PgRow) -> Decoded<TenantStep> {
    Ok(TenantStep {
        calls: unsigned(row, "calls")?,
        cpu_ns: unsigned(row, "cpu_ns")?,
        memory_bytes_max: unsigned(row, "memory_bytes_max")?,
        calls_left_out: unsigned(row, "calls_left_out")?,
    })
}

fn node_step(row: &PgRow) -> Decoded<NodeStep> {
    Ok(NodeStep {
        interval_ms: unsigned(row, "interval_ms")?,
        cpu_ns: unsigned(row, "cpu_ns")?,
        cores: small(row, "cores")?,
        running_max: unsigned(row, "running_max")?,
        waiting_max: unsigned(row, "waiting_max")?,
        processes_max: unsigned(row, "processes_max")?,
        pools_max: unsigned(row, "pools_max")?,
        pools_busy_max: unsigned(row, "pools_busy_max")?,
        resident_max: unsigned(row, "resident_max")?,
        resident_bytes_max: unsigned(row, "resident_bytes_max")?,
    })
}

fn counts(row: &PgRow, column: &str) -> Decoded<Vec<u64>> {
    let stored: Vec<i64> = row.try_get(column)?;
    stored.into_iter().map(|count| u64::try_from(count).map_err(|e| bad(column, e))).collect()
}

#[cfg(test)]
mod tests;
