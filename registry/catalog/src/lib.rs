//! What the registry knows, in PostgreSQL: the only crate that speaks SQL through sqlx.
//!
//! Every change that matters is one transaction together with its audit row. A build is committed
//! only by the holder of the highest fencing token. What a role may not do is denied by grants
//! and triggers in `migrations/`, not by this code: a taken-over builder has its own connection.
//! Must never decide policy, hold a transaction while hostile code runs, or return a row of
//! another tenant than the one asked for.

mod acquiring;
mod allowlist;
mod audit;
mod audit_archive;
mod bans;
mod baseline;
mod builders;
mod builds;
mod call_graph;
mod call_keys;
mod call_tokens;
mod certificates;
mod closures;
mod collecting;
mod connection;
mod crate_facts;
mod crate_files;
mod decode;
mod deployments;
mod error;
mod functions;
mod importing;
mod index;
pub mod invariants;
mod isolation;
mod listen;
mod logs;
mod marking;
mod migrating;
mod nodes;
mod object_events;
mod pool;
mod requests;
mod resources;
mod restoring;
mod retention;
mod reviews;
mod revoking;
mod schedules;
mod schema;
mod series;
mod serving;
mod sessions;
mod site_materials;
mod snapshot;
mod stages;
mod tokens;
mod triggers;
mod usage;

pub use acquiring::{
    Acquirer, CacheArchive, DependencyCache, Extra, MemberOutcome, ResolvedMember, ResolvedRequest,
    is_allowed,
};
pub use allowlist::{AllowlistSeed, CrateClosure, CrateRow};
pub use audit::{AuditLink, AuditRow, ChainError};
pub use audit_archive::AuditArchiving;
pub use bans::{BanOutcome, BanRow, NODE_BANS_MAX};
pub use baseline::{Baseline, Comparison, ReviewDelta, Uncompared};
pub use builders::{BuildQueue, Builder};
pub use builds::{BUILD_ATTEMPTS_MAX, ClaimedBuild, Lease, QueuePlace};
pub use call_graph::{CallGraphFunction, DirectCallers};
pub use call_keys::{Before, CALL_KEY_LIFE, CALL_KEY_SETTLE, CallKeyRow};
pub use call_tokens::{CallToken, IssuedCall};
pub use certificates::{CertificateAnswer, CertificateRefusal, Entitlement};
pub use collecting::{BlobHold, CollectError};
pub use connection::{Actor, Catalog, RolePasswords, migrate, migrate_with, schema_version};
pub use crate_facts::{CrateUsers, KnownFacts, ShippedCrate, ShippedFacts};
pub use crate_files::CrateFile;
pub use deployments::{Deployment, NewDeployment, QueueLimits, Recorded, StateCount};
pub use error::CatalogError;
pub use functions::{Alias, Function, Version};
pub use importing::{AdvisoryImport, AdvisoryMatch};
pub use index::{IndexEntry, OfferedArchive, StoredArchive};
pub use isolation::{ISOLATION_SAMPLES_MAX, SiteSettings};
pub use listen::{Channel, Wake, Wakes};
pub use logs::{FUNCTION_LOG_LINES_MAX, StoredLine};
pub use nodes::{JoinToken, JoinedNode, NewJoinToken, NodeRow, NodeStatus, RecordedReport};
pub use object_events::{
    EndedCall, EventEnd, EventsInAll, ObjectEvents, TRIGGER_CALLS_PER_SECOND, TriggerState, WaitingEvent,
};
pub use pool::PoolState;
pub use requests::{NewRequest, Request, RequestMember, RequestStatus};
pub use resources::{Resource, ResourceGrant, SITE_RESOURCES_MAX, TENANT_GRANTS_MAX};
pub use restoring::{RestoreScript, RestoreTarget};
pub use retention::{FORGET_ROWS_MAX, Retention};
pub use reviews::{Asker, HotspotNote, NewVote, ReviewRow, UNREADABLE, Vote};
pub use revoking::{AffectedVersion, Revocation, Severity};
pub use schedules::{
    Claim, ClaimedRun, FUNCTION_SCHEDULES_MAX, LastRun, NewSchedule, RunEnd, RunOutcome, Schedule,
    TENANT_SCHEDULES_MAX,
};
pub use schema::describe as describe_schema;
pub use series::{
    BUILD_EDGES_MS, BuildStep, CallSeries, CallStep, NodeStep, Range, SERIES_NODES_MAX, SERIES_SHOWN_MAX,
    SERIES_STEPS_MAX, SERIES_VERSIONS_MAX, Step, TenantSeries, TenantStep,
};
pub use serving::{Held, SetFunction, StoredServingSet, StoredStatement};
pub use sessions::{SIGN_IN_ANSWERS_MAX, TOKEN_SESSIONS_MAX};
pub use site_materials::{HoldingCache, ToolchainStanding};
pub use snapshot::{ReferredBlob, Snapshot};
pub use stages::{EndedUntil, StageTimes};
pub use tokens::{NewToken, Token};
pub use triggers::{FUNCTION_TRIGGERS_MAX, TENANT_TRIGGERS_MAX, Trigger, WatchedChanges};
pub use usage::{Charged, Period, USAGE_ANSWER_ROWS_MAX, USAGE_DAYS_SHOWN_MAX, Usage, UsageQuery};
