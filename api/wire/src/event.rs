//! What a deployment tells while it runs: events, and the diagnostics inside them.

use chrono::{DateTime, Utc};
use mfaas_delivery::{DeploymentState, EventKind, Level, render};
use mfaas_rules::{Finding, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// One thing that happened to a deployment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Grows within the deployment; `Last-Event-ID` resumes behind it.
    pub seq: i64,
    /// When it happened, by the database's clock.
    pub at: DateTime<Utc>,
    /// `unpack`, `audit`, `dependencies`, `expand`, `compile`, `link`, `inspect`, `load`, `sign`, `publish`, …
    pub stage: String,
    /// What it is about.
    pub kind: EventKind,
    /// How long the stage took, wall clock, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<f64>,
    /// How much CPU the stage used, children included, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// The new state, on `state` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeploymentState>,
    /// What was found, on `diagnostic` and some `state` events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// The version that came of it, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A place in the caller's own files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceSpan {
    /// Path inside the upload, for example `src/lib.rs`.
    pub file: String,
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters.
    pub column: u32,
    /// 1-based, in characters, the first column behind the place.
    pub end_column: u32,
    /// That line of the file, sanitised.
    pub text: String,
}

impl From<&Span> for SourceSpan {
    fn from(span: &Span) -> Self {
        Self {
            file: span.file.clone(),
            line: span.line,
            column: span.column,
            end_column: span.end_column,
            text: span.text.clone(),
        }
    }
}

/// One finding of ours or one message of rustc.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diagnostic {
    /// The stable code; `MF0401` stands for everything that rustc says.
    #[schema(value_type = schema::ErrorCode)]
    pub code: String,
    /// How bad it is.
    pub level: Level,
    /// One sentence.
    pub message: String,
    /// What to do about it; may be empty.
    #[serde(default)]
    pub hint: String,
    /// The drawing for a terminal, plain text: rustc's own, or ours in the same look.
    pub rendered: String,
    /// The place, where there is one.
    #[serde(default)]
    pub span: Option<SourceSpan>,
    /// Which line of defence spoke, for example `lexer` or `compiler`.
    pub layer: String,
}

impl From<&Finding> for Diagnostic {
    fn from(finding: &Finding) -> Self {
        Self {
            code: finding.code.id().to_owned(),
            level: Level::Error,
            message: finding.message.clone(),
            hint: finding.hint.clone(),
            rendered: render::finding(finding),
            span: finding.span.as_ref().map(SourceSpan::from),
            layer: finding.layer.as_str().to_owned(),
        }
    }
}
