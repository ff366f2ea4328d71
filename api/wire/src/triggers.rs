//! Triggers: for which changes of objects a site calls a function by itself, and what it sends.

use chrono::{DateTime, Utc};
use mfaas_ident::{FunctionName, ResourceName, TriggerName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// The longest prefix, in bytes: the longest name of an object.
pub const TRIGGER_PREFIX_BYTES_MAX: usize = 512;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectChange {
    /// It was put: it is new, or has other bytes.
    Put,
    /// It was deleted.
    Delete,
}

impl ObjectChange {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }
}

/// Body of the request that says for which changes a function is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTrigger {
    /// Whose objects.
    #[schema(value_type = schema::ResourceName)]
    pub resource: ResourceName,
    /// What the names of the objects begin with, 512 bytes at most; all objects when absent.
    #[serde(default)]
    #[schema(max_length = 512, example = "in/")]
    pub prefix: String,
    /// For which changes; for both when absent.
    #[serde(default = "both")]
    #[schema(min_items = 1, max_items = 2)]
    pub on: Vec<ObjectChange>,
}

fn both() -> Vec<ObjectChange> {
    vec![ObjectChange::Put, ObjectChange::Delete]
}

/// For which changes a function is called, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TriggerView {
    /// The function.
    #[schema(value_type = schema::FunctionName)]
    pub function: FunctionName,
    /// The trigger's name, unique within the function.
    #[schema(value_type = schema::TriggerName)]
    pub name: TriggerName,
    /// Whose objects.
    #[schema(value_type = schema::ResourceName)]
    pub resource: ResourceName,
    /// What their names begin with.
    pub prefix: String,
    /// For which changes.
    pub on: Vec<ObjectChange>,
    /// When that was said last.
    pub set_at: DateTime<Utc>,
    /// Who said it, as the audit log names them.
    pub set_by: String,
    /// `active`; `not_granted`: the tenant may not read the resource any more, nothing is called and no event is kept; or `off`: the site
    /// calls nothing for events any more.
    pub state: String,
    /// Events that wait or are being called for, at most 10,000.
    pub waiting: u64,
    /// When the first of these changes was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_at: Option<DateTime<Utc>>,
    /// Events that were answered with a status below 400.
    pub delivered: u64,
    /// Events that the function was called for eight times and did not answer well.
    pub failed: u64,
    /// Events that were given up without a further call: too many waited, or the tenant may not read the resource any more.
    pub dropped: u64,
    /// The last call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<EndedCallView>,
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndedCallView {
    /// When it ended.
    pub ended_at: DateTime<Utc>,
    /// `answered`, `failed` (a status of 400 and more), `unreachable` (no node took it, or none answered), `lost` with its server, or
    /// `dropped`.
    pub outcome: String,
    /// The status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The code of what went wrong, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ErrorCode>)]
    pub code: Option<String>,
}

impl EndedCallView {
    /// What came of it in a few words, for example `failed 500 MF0805`.
    pub fn words(&self) -> String {
        let status = self.status.map(|status| status.to_string());
        let words = [Some(self.outcome.clone()), status, self.code.clone()];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// What a function is sent by a trigger: one change of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectEvent {
    /// The event's number, the same each time the function is called for it. Later changes of an object have larger ones.
    pub id: i64,
    /// Whose object.
    pub resource: ResourceName,
    /// The object's name.
    pub name: String,
    /// What happened to it.
    pub event: String,
    /// How many bytes were put; absent where it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When, by the clock of the database.
    pub changed_at: DateTime<Utc>,
}
