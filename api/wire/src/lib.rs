//! What crosses the HTTP border between `mfaas-server` and whoever calls it: request and answer
//! types, the problem document, the one table from error code to HTTP status, and the drawing of
//! a finding.
//!
//! Both programs are built from these types, so neither can drift. Nothing here opens a socket,
//! reads a clock or decides anything. Texts that a client only shows (`code`, `layer`, `stage`)
//! stay plain strings: an older `mfaas` must be able to show a code that it does not know.

mod calls;
mod event;
mod isolation;
mod object;
mod operation;
mod problem;
mod readiness;
pub mod render;
mod resources;
mod reviews;
mod schedules;
pub mod schema;
mod series;
mod status;
mod triggers;
mod views;
mod whole;

pub use calls::{
    CallKeyView, CallTokenCreated, CallTokenView, CallerRevoked, CreateCallToken, RotateCallKey,
};
pub use event::{Diagnostic, Event, SourceSpan};
pub use isolation::{ControllerView, IsolationView, SettingsRefusedView, SiteIsolationView};
pub use mfaas_delivery::{Availability, Condition, DeploymentState, EventKind, IsolationSettings, Level};
pub use object::Object;
pub use operation::{
    BanView, CreateJoinToken, JOIN_TOKEN_HOURS_MAX, JOIN_TOKEN_USES_MAX, JoinTokenCreated, JoinTokenView,
    SetAvailability, UsageRowView, UsageView, duration_text,
};
pub use problem::{PROBLEM_MEDIA_TYPE, Problem};
pub use readiness::{BuilderView, BuildersView, PartStatus, PartView, Readiness};
pub use resources::{
    CreateResource, GrantResource, ResourceGrantView, ResourceView, bindings_text, callers_text,
};
pub use reviews::{
    AdvisoryMatchView, AffectedView, AllowlistView, AuditLink, AuditsImported, CastVote, DeltaSizeView,
    DeltaView, FileDeltaView, HotspotView, ImportAdvisories, ImportView, MarkHotspot, MemberView,
    NearestView, ReadingView, RequestCrate, RequestView, ReviewView, RevocationSeverity, RevocationView,
    RevokeCrate, VolumeView, VoteView,
};
pub use schedules::{CRON_BYTES_MAX, SCHEDULE_BODY_BYTES_MAX, ScheduleView, ScheduledCallView, SetSchedule};
pub use series::{
    BuildPointView, BuildSeriesView, FunctionPointView, FunctionSeriesView, NodePointView, NodeSeriesView,
    OneNodeSeriesView, OneTenantSeriesView, QuantileView, SeriesSteps, TenantPointView, TenantSeriesView,
    VersionSeriesView,
};
pub use status::{STATUSES, status_of};
pub use triggers::{
    EndedCallView, ObjectChange, ObjectEvent, SetTrigger, TRIGGER_PREFIX_BYTES_MAX, TriggerView,
};
pub use views::{
    AliasView, AuditEntry, CrateStatus, CrateView, CreateToken, DeploymentAccepted, DeploymentView, Endpoint,
    FunctionView, LogLine, MoveAlias, NodeRefusal, NodeState, NodeView, Page, Removed, TokenCreated,
    TokenView, VersionView, WhoAmI,
};

/// The header that makes a repeated deploy answer with the first one's deployment.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The header (and the field of a problem) that names one request in the server's log.
pub const REQUEST_ID: &str = "x-request-id";

/// The largest upload, in bytes; a larger one is MF0101 with status 413.
pub const UPLOAD_BYTES_MAX: u64 = 10 << 20;

/// The media type of an upload.
pub const UPLOAD_MEDIA_TYPE: &str = "application/gzip";

#[cfg(test)]
mod tests;
