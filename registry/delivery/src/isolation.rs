//! Performance isolation of a node's machine: what its controller says, and what the site wants of all controllers.
//!
//! Not part of a protocol number, as [`crate::LoadReport`]: a server that does not know the message answers 404. What it answers
//! otherwise can make a machine give builds more or less, and nothing else. Fields that this build does not know are left out.

use mfaas_isolation_client::Mode;
use serde::{Deserialize, Serialize};

use crate::message::{MessageError, bound, check_protocol};

/// The most cores of a machine.
pub const ISOLATION_CORES_MAX: u32 = 1_024;
/// The longest time that one report covers, in milliseconds.
pub const ISOLATION_INTERVAL_MS_MAX: u64 = 3_600_000;
/// CPU time in one report may be so much longer than the time it covers: a process is counted when it ends, with all that it used.
const CPU_BEFORE_US: u64 = 86_400_000_000;
/// A size in bytes that no machine has.
const BYTES_MAX: u64 = 1 << 50;
/// Bytes of a code and of a sentence.
const CODE_BYTES_MAX: usize = 16;
const TEXT_BYTES_MAX: usize = 500;

/// How the machine of a node stands. Sent every ten seconds by nodes that have a controller; one that is lost is lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationReport {
    /// [`crate::NODE_PROTOCOL`].
    pub protocol: u32,
    /// What the controller says; nothing when it did not answer in time.
    #[serde(default)]
    pub controller: Option<ControllerReport>,
    /// The settings of the site that it refused, as long as it does.
    #[serde(default)]
    pub refused: Option<SettingsRefused>,
}

/// What a controller measures and limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerReport {
    /// How the secondary is kept from CPU time.
    pub mode: Mode,
    /// Whether the kill switch is pulled: nothing is limited.
    pub off: bool,
    /// Cores of the machine, at most [`ISOLATION_CORES_MAX`].
    pub cores: u32,
    /// Cores that are kept idle in the mode `blind`.
    pub buffer_cores: u32,
    /// Cores that were idle at the controller's last look, in the mode `blind`.
    #[serde(default)]
    pub idle_cores: Option<u32>,
    /// Cores of the secondary; 0 while it stands still.
    pub secondary_cores: u32,
    /// What was used since the last report; nothing in the first one.
    #[serde(default)]
    pub used: Option<CpuUsed>,
    /// Memory of the secondary in bytes, where a group counts it.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Members of the secondary that were ended for want of memory since the controller's start.
    pub killed: u64,
    /// The number of the site's settings that are in force, or were before a command on the machine.
    #[serde(default)]
    pub revision: Option<u64>,
}

/// CPU time in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuUsed {
    /// How long it was, in milliseconds, at most [`ISOLATION_INTERVAL_MS_MAX`].
    pub interval_ms: u64,
    /// Of the primary, in microseconds.
    pub primary_us: u64,
    /// Of the secondary.
    pub secondary_us: u64,
}

/// Settings of the site that a machine cannot have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsRefused {
    /// Their number.
    pub revision: u64,
    /// The controller's code.
    pub code: String,
    /// One sentence.
    pub message: String,
}

/// What a site wants of every machine with a controller; what is absent is left to each machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct IsolationSettings {
    /// Whether the kill switch is pulled: nothing is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off: Option<bool>,
    /// How the secondary is kept from CPU time: `idle-class`, `real-time` or `blind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub mode: Option<Mode>,
    /// Cores that are kept idle in the mode `blind`, from 1 to 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_cores: Option<u32>,
    /// Bytes of memory that the secondary may have; 0 takes the limit away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// The answer to a report: what the machine's controller is told, once for each number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteIsolation {
    /// [`crate::SERVER_PROTOCOL`].
    pub protocol: u32,
    /// Grows with every change; 0 when the site never had settings.
    pub revision: u64,
    /// All of them.
    pub settings: IsolationSettings,
}

impl IsolationReport {
    /// Checks protocol number, limits, and that no more was used than there was.
    pub fn check(&self) -> Result<(), MessageError> {
        check_protocol(self.protocol)?;
        if let Some(refused) = &self.refused {
            bound("code", refused.code.len(), CODE_BYTES_MAX)?;
            bound("message", refused.message.len(), TEXT_BYTES_MAX)?;
        }
        self.controller.as_ref().map_or(Ok(()), ControllerReport::check)
    }
}

impl ControllerReport {
    fn check(&self) -> Result<(), MessageError> {
        let large = |what| Err(MessageError::TooLarge { what });
        let Self { cores, buffer_cores, secondary_cores, idle_cores, .. } = *self;
        if !(1..=ISOLATION_CORES_MAX).contains(&cores) {
            return large("cores");
        }
        if [buffer_cores, secondary_cores, idle_cores.unwrap_or(0)].into_iter().any(|some| some > cores) {
            return Err(MessageError::Contradiction { what: "more cores than there are" });
        }
        if self.memory_bytes.is_some_and(|bytes| bytes > BYTES_MAX) {
            return large("memory_bytes");
        }
        self.used.map_or(Ok(()), |used| used.check(cores))
    }
}

impl CpuUsed {
    fn check(&self, cores: u32) -> Result<(), MessageError> {
        if !(1..=ISOLATION_INTERVAL_MS_MAX).contains(&self.interval_ms) {
            return Err(MessageError::TooLarge { what: "interval_ms" });
        }
        let most_us = (self.interval_ms * 1_000 + CPU_BEFORE_US) * u64::from(cores);
        if self.primary_us > most_us || self.secondary_us > most_us {
            return Err(MessageError::Contradiction { what: "CPU time" });
        }
        Ok(())
    }

    /// What the primary and the secondary used, in cores.
    pub fn in_cores(&self) -> (f64, f64) {
        let cores = |us: u64| us as f64 / (self.interval_ms.max(1) as f64 * 1_000.0);
        (cores(self.primary_us), cores(self.secondary_us))
    }
}

impl IsolationSettings {
    /// Checks that some machine could have them; what one cannot have its controller refuses.
    pub fn check(&self) -> Result<(), MessageError> {
        if self.buffer_cores.is_some_and(|cores| !(1..=ISOLATION_CORES_MAX).contains(&cores)) {
            return Err(MessageError::TooLarge { what: "buffer_cores" });
        }
        if self.memory_bytes.is_some_and(|bytes| bytes > BYTES_MAX) {
            return Err(MessageError::TooLarge { what: "memory_bytes" });
        }
        Ok(())
    }
}
