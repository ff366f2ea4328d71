//! The progress of a deployment: states, stages, events and diagnostics.
//!
//! Builder and signer write these rows, the server passes them on unchanged, people read them.
//! Text of a tenant inside is already sanitised by whoever makes the diagnostic.

use chrono::{DateTime, Utc};
use mfaas_ident::VersionNumber;
use mfaas_rules::{Code, Finding, Layer, Span};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// Bytes of the drawn text of one diagnostic.
pub const RENDERED_BYTES_MAX: usize = 16 << 10;

/// Where a deployment stands. `Admitted`, `Refused` and `Failed` are final; `Waiting` ends when
/// a reviewer decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DeploymentState {
    /// Stored, nobody has looked at it.
    Received,
    /// A builder holds a lease.
    Building,
    /// The builder is done, the signer is next.
    Built,
    /// A version exists.
    Admitted,
    /// Policy said no.
    Refused,
    /// A reviewer has to decide about a dependency.
    Waiting,
    /// We could not finish; not the tenant's fault, or not decidable.
    Failed,
}

impl DeploymentState {
    /// Every state, in the order of the pipeline.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The state of that word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|state| state.as_str() == text)
    }

    /// True when nothing will change any more.
    pub fn is_final(self) -> bool {
        match self {
            Self::Admitted | Self::Refused | Self::Failed => true,
            Self::Received | Self::Building | Self::Built | Self::Waiting => false,
        }
    }

    /// True when an event stream has nothing more to tell for now: final, or waiting for a person.
    pub fn ends_stream(self) -> bool {
        self.is_final() || self == Self::Waiting
    }
}

impl std::fmt::Display for DeploymentState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A stage of the pipeline, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Stage {
    /// The upload is stored.
    Receive,
    /// A lease is granted or lost.
    Claim,
    /// Archive to tree.
    Unpack,
    /// Manifest and lexer.
    Audit,
    /// Allowlist.
    Dependencies,
    /// Macro expansion and the lexer over it.
    Expand,
    /// rustc.
    Compile,
    /// The link against the stub.
    Link,
    /// ELF inspection.
    Inspect,
    /// The throw-away load.
    Load,
    /// The signer.
    Sign,
    /// The serving set.
    Publish,
}

impl Stage {
    /// Every stage, in the order of the pipeline.
    pub const ALL: [Self; 12] = [
        Self::Receive,
        Self::Claim,
        Self::Unpack,
        Self::Audit,
        Self::Dependencies,
        Self::Expand,
        Self::Compile,
        Self::Link,
        Self::Inspect,
        Self::Load,
        Self::Sign,
        Self::Publish,
    ];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The stage of that word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == text)
    }
}

/// What an event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EventKind {
    /// A stage began.
    Started,
    /// A stage ended well.
    Finished,
    /// Diagnostics of a stage, warnings included.
    Diagnostic,
    /// The deployment's state changed.
    State,
}

impl EventKind {
    /// The word on the wire (`event:` of the stream).
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One event. `seq` and `at` are given by the database; a new event leaves them empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Position in the deployment's stream, from 1.
    #[serde(default)]
    pub seq: u64,
    /// When, by the database's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<DateTime<Utc>>,
    /// Which stage.
    pub stage: Stage,
    /// What happened.
    pub kind: EventKind,
    /// Wall time of a finished stage, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// CPU time of a finished stage, children included, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// The new state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeploymentState>,
    /// What was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// The version that came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionNumber>,
}

impl Event {
    fn bare(stage: Stage, kind: EventKind) -> Self {
        Self {
            seq: 0,
            at: None,
            stage,
            kind,
            wall_ms: None,
            cpu_ms: None,
            state: None,
            diagnostics: Vec::new(),
            version: None,
        }
    }

    /// `stage` began.
    pub fn started(stage: Stage) -> Self {
        Self::bare(stage, EventKind::Started)
    }

    /// `stage` ended well after `wall_ms`, having used `cpu_ms`.
    pub fn finished(stage: Stage, wall_ms: u64, cpu_ms: u64) -> Self {
        Self { wall_ms: Some(wall_ms), cpu_ms: Some(cpu_ms), ..Self::bare(stage, EventKind::Finished) }
    }

    /// `stage` has something to say.
    pub fn diagnostics(stage: Stage, diagnostics: Vec<Diagnostic>) -> Self {
        Self { diagnostics, ..Self::bare(stage, EventKind::Diagnostic) }
    }

    /// The deployment is now in `state`.
    pub fn state(stage: Stage, state: DeploymentState) -> Self {
        Self { state: Some(state), ..Self::bare(stage, EventKind::State) }
    }
}

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Level {
    /// It stopped the deployment.
    Error,
    /// It did not.
    Warning,
}

impl Level {
    /// The word that rustc prints.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Something to tell the tenant: our finding or rustc's, in one shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// How bad.
    pub level: Level,
    /// One sentence.
    pub message: String,
    /// What to do instead; may be empty.
    pub hint: String,
    /// rustc's own text with the tenant's paths; empty for a finding of ours, which is drawn by
    /// whoever shows it (`mfaas-wire`).
    pub rendered: String,
    /// Where.
    pub span: Option<Span>,
    /// Who saw it.
    pub layer: Layer,
}

impl From<&Finding> for Diagnostic {
    fn from(finding: &Finding) -> Self {
        Self {
            code: finding.code,
            level: Level::Error,
            message: finding.message.clone(),
            hint: finding.hint.clone(),
            rendered: String::new(),
            span: finding.span.clone(),
            layer: finding.layer,
        }
    }
}
