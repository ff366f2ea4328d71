//! Schedules as the tenant sees them.

use chrono::{DateTime, Utc};
use mfaas_catalog::{LastRun, Schedule};
use mfaas_ident::{FunctionName, sanitise_line};
use mfaas_wire::{ScheduleView, ScheduledCallView};

use crate::limits;

/// The longest name of who set a schedule, in bytes.
const ACTOR_BYTES_MAX: usize = 200;

/// A schedule of a function, as it stands at `now`.
pub(crate) fn schedule_view(function: &FunctionName, row: Schedule, now: DateTime<Utc>) -> ScheduleView {
    ScheduleView {
        function: function.clone(),
        name: row.name,
        cron: row.cron,
        body: row.body,
        set_at: row.set_at,
        set_by: sanitise_line(&row.set_by, ACTOR_BYTES_MAX),
        due_at: row.due_at,
        runs: row.runs,
        failures: row.failures,
        skipped: row.skipped,
        last: row.last.map(|last| call_view(last, now)),
    }
}

fn call_view(last: LastRun, now: DateTime<Utc>) -> ScheduledCallView {
    let outcome = match &last.end {
        Some((_, outcome)) => outcome.as_str(),
        None if now - last.begun_at < limits::SCHEDULED_CALL_LOST_AFTER => "running",
        None => "lost",
    };
    ScheduledCallView {
        due_at: last.due_at,
        begun_at: last.begun_at,
        ended_at: last.end.map(|(at, _)| at),
        outcome: outcome.to_owned(),
        status: last.status,
        code: last.code,
    }
}
