//! Schedules: at which times the site calls a function by itself, and what came of the last call.
//!
//! A time belongs to whoever claims it first, in a transaction of its own that ends before the call begins: a time is never
//! called for twice, and a server that is lost with its call leaves one that has no end.

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_ident::{FunctionName, ScheduleName, TenantName};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::audit::{self, Entry};
use crate::connection::count_alone;
use crate::decode::{Decoded, parsed, small_opt, unsigned, word};
use crate::functions::{Room, lock_function};
use crate::{Actor, Catalog, CatalogError};

/// Schedules of one function, at most.
pub const FUNCTION_SCHEDULES_MAX: i64 = 16;
/// Schedules of all functions of a tenant, at most.
pub const TENANT_SCHEDULES_MAX: i64 = 256;

const ROOM: Room = Room {
    what: "schedules",
    count: "SELECT count(*) AS of_tenant, count(*) FILTER (WHERE function = $2) AS of_function
            FROM schedules WHERE tenant = $1 AND NOT (function = $2 AND name = $3)",
    of_function_max: FUNCTION_SCHEDULES_MAX,
    of_tenant_max: TENANT_SCHEDULES_MAX,
};

/// The lock under which schedules of one tenant are counted; any number that nobody else takes.
const COUNTING_LOCKS: i32 = 0x6D66_7363;

/// When a function is called, and what came of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Its name, unique within the function.
    pub name: ScheduleName,
    /// When, as it was written.
    pub cron: String,
    /// What the function is sent.
    pub body: String,
    /// When that was said last.
    pub set_at: DateTime<Utc>,
    /// Who said it, as audit rows name them.
    pub set_by: String,
    /// When the function is called next, if ever.
    pub due_at: Option<DateTime<Utc>>,
    /// Calls that were begun.
    pub runs: u64,
    /// Times that passed while a call was under way.
    pub skipped: u64,
    /// Calls that were not answered well, those that were lost with their server included.
    pub failures: u64,
    /// The last call.
    pub last: Option<LastRun>,
}

/// A schedule as it is to be.
#[derive(Debug, Clone, Copy)]
pub struct NewSchedule<'a> {
    /// Its name.
    pub name: &'a ScheduleName,
    /// When, as it was written.
    pub cron: &'a str,
    /// What the function is sent.
    pub body: &'a str,
}

/// A call that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRun {
    /// For which time.
    pub due_at: DateTime<Utc>,
    /// When it began.
    pub begun_at: DateTime<Utc>,
    /// What came of it, and when; nothing while it is under way, and of one that was lost.
    pub end: Option<(DateTime<Utc>, RunOutcome)>,
    /// The status of the answer.
    pub status: Option<u16>,
    /// The code of what went wrong, where there is one.
    pub code: Option<String>,
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// The function answered with a status below 400.
    Answered,
    /// It answered with another one, or its node did.
    Failed,
    /// No node took the call, or none answered.
    Unreachable,
    /// The server that made it stopped meanwhile.
    Lost,
}

impl RunOutcome {
    const ALL: [Self; 4] = [Self::Answered, Self::Failed, Self::Unreachable, Self::Lost];

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text)
    }
}

/// A time that was claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRun {
    /// Whose function is to be called.
    pub tenant: TenantName,
    /// The function.
    pub function: FunctionName,
    /// By which schedule.
    pub name: ScheduleName,
    /// What it is sent.
    pub body: String,
    /// For which time.
    pub due_at: DateTime<Utc>,
    /// When it was claimed, by the database's clock: no other claim of the schedule has the same.
    pub begun_at: DateTime<Utc>,
}

/// What was found due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// A call that the caller has to make, and nobody else does.
    Run(ClaimedRun),
    /// A time that has passed: the call before is still under way.
    Skipped,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// Well or not.
    pub outcome: RunOutcome,
    /// The status of the answer.
    pub status: Option<u16>,
    /// The code of what went wrong, where there is one.
    pub code: Option<String>,
}

const COLUMNS: &str = "name, cron, body, set_at, set_by, due_at, runs, skipped, failures, run_due_at, begun_at, ended_at, \
                       outcome, status, code";

impl Catalog {
    /// Says when a function is called, with its audit record; what the schedule of that name said before does not count any more.
    /// When that is first, `next` says by the database's time; a time that is due already stays if it is of the same expression.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such function, [`CatalogError::Conflict`] for one schedule more than the
    /// function or the tenant may have.
    pub async fn set_schedule(
        &self,
        actor: &Actor,
        tenant: &TenantName,
        function: &FunctionName,
        new: NewSchedule<'_>,
        next: impl Fn(&str, DateTime<Utc>) -> Option<DateTime<Utc>> + Send,
    ) -> Result<Schedule, CatalogError> {
        let mut tx = self.begin().await?;
        let now = sqlx::query_scalar("SELECT now()").fetch_one(&mut *tx).await?;
        count_alone(&mut tx, COUNTING_LOCKS, tenant.as_str()).await?;
        lock_function(&mut tx, tenant, function).await?;
        ROOM.demand(&mut tx, tenant, function, new.name.as_str()).await?;
        let sql = format!(
            "INSERT INTO schedules (tenant, function, name, cron, body, set_by, due_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT ON CONSTRAINT schedules_pkey
             DO UPDATE SET cron = $4, body = $5, set_at = now(), set_by = $6,
                 due_at = CASE WHEN schedules.cron = $4 THEN coalesce(schedules.due_at, $7) ELSE $7 END
             RETURNING {COLUMNS}"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant.as_str())
            .bind(function.as_str())
            .bind(new.name.as_str())
            .bind(new.cron)
            .bind(new.body)
            .bind(actor.as_str())
            .bind(next(new.cron, now))
            .fetch_one(&mut *tx)
            .await?;
        let detail = serde_json::json!({"cron": new.cron, "body_bytes": new.body.len()});
        let subject = format!("{tenant}/{function}/{}", new.name);
        let (tenant, subject) = (tenant.as_str(), subject.as_str());
        audit::append(&mut tx, Entry { actor, action: "schedule.set", tenant, subject, detail }).await?;
        tx.commit().await?;
        Ok(schedule(&row)?)
    }

    /// The schedules of a function, by name.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such function.
    pub async fn schedules(
        &self,
        tenant: &TenantName,
        function: &FunctionName,
    ) -> Result<Vec<Schedule>, CatalogError> {
        // Says that there is no such function.
        self.function(tenant, function).await?;
        let sql =
            format!("SELECT {COLUMNS} FROM schedules WHERE tenant = $1 AND function = $2 ORDER BY name");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant.as_str())
            .bind(function.as_str())
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.iter().map(schedule).collect::<Result<_, _>>()?)
    }

    /// Removes a schedule, with its audit record. A call that has begun goes on.
    ///
    /// # Errors
    /// [`CatalogError::NotFound`] when there is no such schedule.
    pub async fn delete_schedule(
        &self,
        actor: &Actor,
        tenant: &TenantName,
        function: &FunctionName,
        name: &ScheduleName,
    ) -> Result<(), CatalogError> {
        let mut tx = self.begin().await?;
        let gone = sqlx::query("DELETE FROM schedules WHERE tenant = $1 AND function = $2 AND name = $3")
            .bind(tenant.as_str())
            .bind(function.as_str())
            .bind(name.as_str())
            .execute(&mut *tx)
            .await?;
        if gone.rows_affected() == 0 {
            return Err(CatalogError::NotFound { what: "schedule" });
        }
        let (tenant, subject) = (tenant.as_str(), format!("{tenant}/{function}/{name}"));
        let (subject, detail) = (subject.as_str(), serde_json::json!({}));
        audit::append(&mut tx, Entry { actor, action: "schedule.deleted", tenant, subject, detail }).await?;
        Ok(tx.commit().await?)
    }

    /// Claims the time that is due longest, of a tenant that is not among the `busy`. What is due next, `next` says by what the
    /// schedule says and the database's time; times between the claimed one and now are left out. A call that began more than
    /// `lost_after` ago and has no end is over.
    pub async fn claim_schedule(
        &self,
        busy: &[TenantName],
        lost_after: TimeDelta,
        next: impl Fn(&str, DateTime<Utc>) -> Option<DateTime<Utc>> + Send,
    ) -> Result<Option<Claim>, CatalogError> {
        let busy: Vec<&str> = busy.iter().map(TenantName::as_str).collect();
        let mut tx = self.begin().await?;
        let row = sqlx::query(
            "SELECT tenant, function, name, cron, body, due_at, now() AS now,
                    begun_at IS NOT NULL AND ended_at IS NULL AS has_no_end,
                    begun_at > now() - make_interval(secs => $2) AS is_recent
             FROM schedules WHERE due_at <= now() AND tenant <> ALL ($1)
             ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED",
        )
        .bind(&busy)
        .bind(lost_after.as_seconds_f64())
        .fetch_optional(&mut *tx)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let (cron, now): (String, _) = (row.try_get("cron")?, row.try_get("now")?);
        let has_no_end: bool = row.try_get("has_no_end")?;
        let is_running = has_no_end && row.try_get::<Option<bool>, _>("is_recent")?.unwrap_or(false);
        let change = if is_running {
            "UPDATE schedules SET due_at = $4, skipped = skipped + 1 WHERE tenant = $1 AND function = $2 AND name = $3"
        } else {
            "UPDATE schedules SET due_at = $4, runs = runs + 1, run_due_at = due_at, begun_at = now(), ended_at = NULL,
                 outcome = NULL, status = NULL, code = NULL,
                 failures = failures + CASE WHEN begun_at IS NOT NULL AND ended_at IS NULL THEN 1 ELSE 0 END
             WHERE tenant = $1 AND function = $2 AND name = $3"
        };
        // As they stand there: also a row that cannot be read has to make room for others.
        let text = |column: &str| row.try_get::<String, _>(column);
        sqlx::query(change)
            .bind(text("tenant")?)
            .bind(text("function")?)
            .bind(text("name")?)
            .bind(next(&cron, now))
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Some(if is_running { Claim::Skipped } else { Claim::Run(claimed(&row)?) }))
    }

    /// Tells how a claimed call ended; of one that counts as lost by now, nothing.
    pub async fn end_run(&self, run: &ClaimedRun, end: &RunEnd) -> Result<(), CatalogError> {
        sqlx::query(
            "UPDATE schedules SET ended_at = now(), outcome = $5, status = $6, code = $7,
                 failures = failures + CASE WHEN $5 = 'answered' THEN 0 ELSE 1 END
             WHERE tenant = $1 AND function = $2 AND name = $3 AND begun_at = $4 AND ended_at IS NULL",
        )
        .bind(run.tenant.as_str())
        .bind(run.function.as_str())
        .bind(run.name.as_str())
        .bind(run.begun_at)
        .bind(end.outcome.as_str())
        .bind(end.status.map(i32::from))
        .bind(end.code.as_deref())
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

fn schedule(row: &PgRow) -> Decoded<Schedule> {
    Ok(Schedule {
        name: parsed(row, "name")?,
        cron: row.try_get("cron")?,
        body: row.try_get("body")?,
        set_at: row.try_get("set_at")?,
        set_by: row.try_get("set_by")?,
        due_at: row.try_get("due_at")?,
        runs: unsigned(row, "runs")?,
        skipped: unsigned(row, "skipped")?,
        failures: unsigned(row, "failures")?,
        last: last_run(row)?,
    })
}

fn last_run(row: &PgRow) -> Decoded<Option<LastRun>> {
    let (due_at, begun_at): (Option<DateTime<Utc>>, Option<DateTime<Utc>>) =
        (row.try_get("run_due_at")?, row.try_get("begun_at")?);
    let Some((due_at, begun_at)) = due_at.zip(begun_at) else { return Ok(None) };
    let ended_at: Option<DateTime<Utc>> = row.try_get("ended_at")?;
    let end = match ended_at {
        Some(at) => Some((at, word(row, "outcome", RunOutcome::parse)?)),
        None => None,
    };
    Ok(Some(LastRun { due_at, begun_at, end, status: small_opt(row, "status")?, code: row.try_get("code")? }))
}

fn claimed(row: &PgRow) -> Decoded<ClaimedRun> {
    Ok(ClaimedRun {
        tenant: parsed(row, "tenant")?,
        function: parsed(row, "function")?,
        name: parsed(row, "name")?,
        body: row.try_get("body")?,
        due_at: row.try_get("due_at")?,
        begun_at: row.try_get("now")?,
    })
}
