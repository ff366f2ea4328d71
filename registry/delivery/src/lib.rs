//! Messages that cross from one program to another: the node protocol, and the progress of a
//! deployment as builder and signer tell it and the server passes it on.
//!
//! Pure data with limits. Signed documents are not here: they travel as the bytes that were
//! signed. Must never hold a decision, a socket or a default that means "unlimited".

mod directives;
mod isolation;
mod load;
mod message;
mod node;
mod progress;
pub mod render;
mod usage;

pub use directives::{Availability, Ban, BanAnswer, BanNotice, Condition, DIRECTIVES_BANS_MAX, Directives};
pub use isolation::{
    ControllerReport, CpuUsed, ISOLATION_CORES_MAX, ISOLATION_INTERVAL_MS_MAX, IsolationReport,
    IsolationSettings, SettingsRefused, SiteIsolation,
};
pub use load::{LOAD_CORES_MAX, LOAD_INTERVAL_MS_MAX, LoadReport};
pub use message::{MessageError, NODE_PROTOCOL, NODE_PROTOCOL_MIN, SERVER_PROTOCOL};
pub use node::{
    JoinRequest, JoinResponse, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, LoadedVersion, LogBatch, LogLevel, LogLine,
    NodeProblem, REPORT_PROBLEMS_MAX, REPORT_REFUSED_MAX, RefusedVersion, RenewalRequest, Report, SetState,
};
pub use progress::{DeploymentState, Diagnostic, Event, EventKind, Level, RENDERED_BYTES_MAX, Stage};
pub use usage::{Kill, RUN_BUCKETS, RUN_EDGES_NS, USAGE_NUMBER_MAX, USAGE_ROWS_MAX, UsageReport, UsageRow};

#[cfg(test)]
mod tests;
