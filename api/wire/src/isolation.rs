//! Performance isolation: what the controller of a node's machine says, and what the site wants of all of them.

use chrono::{DateTime, Utc};
use mfaas_delivery::IsolationSettings;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a node said of its machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct IsolationView {
    /// When.
    pub at: DateTime<Utc>,
    /// What the machine's controller says; absent when it did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerView>,
    /// The settings of the site that the machine cannot have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<SettingsRefusedView>,
}

/// What a controller measures and limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ControllerView {
    /// How the secondary is kept from CPU time: `idle-class`, `real-time` or `blind`.
    pub mode: String,
    /// Whether the kill switch is pulled: nothing is limited.
    pub off: bool,
    /// Cores of the machine.
    pub cores: u32,
    /// Cores that are kept idle in the mode `blind`.
    pub buffer_cores: u32,
    /// Cores that were idle at the controller's last look, in the mode `blind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_cores: Option<u32>,
    /// Cores that the secondary may use; 0 while it stands still.
    pub secondary_cores: u32,
    /// CPU time of the primary since the report before, in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_used_cores: Option<f64>,
    /// CPU time of the secondary, in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secondary_used_cores: Option<f64>,
    /// Memory of the secondary in bytes, where a control group counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Sandboxes and workers that were ended for want of memory since the controller's start.
    pub killed: u64,
    /// The revision of the site's settings that was put into force last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// Settings of the site that a machine cannot have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingsRefusedView {
    /// Their revision.
    pub revision: u64,
    /// The controller's code, for example `MF1103`.
    pub code: String,
    /// One sentence, sanitised.
    pub message: String,
}

/// What the site wants of every machine with a controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SiteIsolationView {
    /// Grows with every change; 0 when the site never had settings.
    pub revision: u64,
    /// What is absent is left to each machine.
    pub settings: IsolationSettings,
    /// Who changed it last, as the audit log names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_at: Option<DateTime<Utc>>,
}
