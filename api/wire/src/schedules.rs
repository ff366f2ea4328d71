//! Schedules: when a site calls a function by itself.

use chrono::{DateTime, Utc};
use mfaas_ident::{FunctionName, ScheduleName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// The longest text of a cron expression, in bytes.
pub const CRON_BYTES_MAX: usize = 100;
/// What a scheduled call sends, in bytes.
pub const SCHEDULE_BODY_BYTES_MAX: usize = 16 << 10;

/// Body of the request that says when a function is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSchedule {
    /// Minute, hour, day of the month, month and day of the week, as in crontab(5), in UTC.
    #[schema(min_length = 1, max_length = 100, example = "0 3 * * *")]
    pub cron: String,
    /// What the function is sent, 16 KiB at most; nothing when absent.
    #[serde(default)]
    #[schema(max_length = 16384)]
    pub body: String,
}

/// When a function is called, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleView {
    /// The function.
    #[schema(value_type = schema::FunctionName)]
    pub function: FunctionName,
    /// The schedule's name, unique within the function.
    #[schema(value_type = schema::ScheduleName)]
    pub name: ScheduleName,
    /// When, in UTC.
    pub cron: String,
    /// What the function is sent.
    pub body: String,
    /// When that was said last.
    pub set_at: DateTime<Utc>,
    /// Who said it, as the audit log names them.
    pub set_by: String,
    /// When the function is called next; nothing when never again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<DateTime<Utc>>,
    /// Calls that were begun.
    pub runs: u64,
    /// Of these, those that were not answered with a status below 400.
    pub failures: u64,
    /// Times that passed while the call before was under way.
    pub skipped: u64,
    /// The last call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ScheduledCallView>,
}

/// A call that a schedule has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduledCallView {
    /// For which time.
    pub due_at: DateTime<Utc>,
    /// When it began.
    pub begun_at: DateTime<Utc>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<DateTime<Utc>>,
    /// `running`, `answered`, `failed` (a status of 400 and more), `unreachable` (no node took it), or `lost` with its server.
    pub outcome: String,
    /// The status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The code of what went wrong, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ErrorCode>)]
    pub code: Option<String>,
}

impl ScheduledCallView {
    /// What came of it in a few words, for example `failed 500 MF0805`.
    pub fn words(&self) -> String {
        let status = self.status.map(|status| status.to_string());
        let words = [Some(self.outcome.clone()), status, self.code.clone()];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}
