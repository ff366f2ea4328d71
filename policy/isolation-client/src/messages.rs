//! Requests, and what is answered. A field that a program does not know is passed over, so that either side may be newer.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is asked of a controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Give a process, and what it starts from now on, a role. It is the asker, or a child of the asker.
    Place {
        /// The process.
        pid: u32,
        /// What it is from now on.
        role: Role,
        /// Of the secondary: it may stand still for a while, and be ended when memory runs low. No lease of it runs out,
        /// and whoever started it can do so again.
        #[serde(default)]
        may_stop: bool,
        /// Of the primary: cores that its workers have for themselves, and look for the next call on. They are lent to nobody.
        #[serde(default)]
        own_cores: Vec<usize>,
    },
    /// Say whether the controller ended a child of the asker, which was lost just now.
    Ended {
        /// The process that was.
        pid: u32,
    },
    /// Say what is measured, limited and available.
    Status,
    /// Lift every limit, and keep them lifted.
    Off,
    /// Limit again.
    On,
    /// Change settings from now on, also after a restart.
    Set(Change),
}

/// What a process is to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It answers calls: never restricted.
    Primary,
    /// It may use what the primary leaves.
    Secondary,
}

/// Which of the kernel's mechanisms keep the secondary from the primary's CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The secondary's group runs where nothing else wants to: `cpu.idle`, or the idle class of each process.
    #[default]
    IdleClass,
    /// As `idle-class`, and the primary is in the real-time class. Not for workers that poll: they would keep everything else
    /// from their cores.
    RealTime,
    /// As `idle-class`, and the secondary is kept off a number of buffer cores, which are idle for the primary to wake up on.
    Blind,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::IdleClass, Self::RealTime, Self::Blind];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IdleClass => "idle-class",
            Self::RealTime => "real-time",
            Self::Blind => "blind",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not the name of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected idle-class, real-time or blind")]
pub struct NoSuchMode;

impl FromStr for Mode {
    type Err = NoSuchMode;

    fn from_str(text: &str) -> Result<Self, NoSuchMode> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or(NoSuchMode)
    }
}

/// Settings that are to change; the others stay.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Change {
    /// How the secondary is kept from CPU time.
    pub mode: Option<Mode>,
    /// Cores that are kept idle in the mode `blind`.
    pub buffer_cores: Option<u32>,
    /// Bytes of memory that the secondary may have.
    pub memory_bytes: Option<Limit>,
    /// Whether the kill switch is to be pulled, or put back. No setting: it is not kept with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off: Option<bool>,
    /// The number of the site's settings, if it is them that are handed over.
    pub revision: Option<u64>,
}

/// A number, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// No limit.
    None,
    /// At most so much.
    At(u64),
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum Response {
    /// It was done.
    Done,
    /// Whether it did.
    Ended {
        /// The controller ended it.
        by_us: bool,
    },
    /// What was asked for.
    Status(Box<Status>),
    /// It was not done.
    Refused(Refused),
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {reason}")]
pub struct Refused {
    /// A stable code.
    pub code: String,
    /// One sentence.
    pub reason: String,
}

/// What a controller measures, limits, and can.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Whether the kill switch was pulled: nothing is limited.
    pub off: bool,
    /// How the secondary is kept from CPU time.
    pub mode: Mode,
    /// The number of the site's settings that were put into force last; a command on the machine leaves it.
    pub revision: Option<u64>,
    /// Cores.
    pub cores: Cores,
    /// CPU time that was used; nothing of a controller of the release before.
    pub cpu: Option<CpuTime>,
    /// Bytes of memory that the secondary has, if its group counts them.
    pub memory_bytes: Option<u64>,
    /// Bytes of memory that it may have.
    pub memory_bytes_max: Option<u64>,
    /// Bytes of memory that the machine has left.
    pub available_bytes: u64,
    /// Members of the secondary that were ended for want of memory, since the controller's start.
    pub killed: u64,
    /// Disks that are watched.
    pub disks: Vec<Disk>,
    /// Who is primary and secondary.
    pub members: Vec<Member>,
    /// What the machine offers.
    pub mechanisms: Vec<Mechanism>,
}

/// How the cores of the machine are used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cores {
    /// All that may be used, as the kernel writes lists: `0-3,8`.
    pub all: String,
    /// Those of the secondary; empty while it is stopped.
    pub secondary: String,
    /// How many were idle at the last look, in the mode `blind`.
    pub idle: Option<u32>,
    /// How many are kept idle in the mode `blind`.
    pub buffer: u32,
    /// How often the secondary's cores were changed, since the controller's start.
    pub changes: u64,
}

/// CPU time since something began to count, in microseconds. It begins again with a group or a process that is made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuTime {
    /// Of the primary.
    pub primary_us: u64,
    /// Of the secondary.
    pub secondary_us: u64,
}

/// What the secondary may do with a disk.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Its number, as the kernel writes it: `254:0`.
    pub device: String,
    /// Bytes a second that the secondary read and wrote at the last look.
    pub bytes_per_second: u64,
    /// Bytes a second that it may.
    pub bytes_per_second_max: Option<u64>,
}

/// A process that was placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The process.
    pub pid: u32,
    /// What its program is called.
    pub name: String,
    /// What it is.
    pub role: Role,
}

/// A mechanism of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mechanism {
    /// What it is for, for example `cores`.
    pub name: String,
    /// How it is used here, if it is there.
    pub by: Option<String>,
    /// Why it is not there.
    pub missing: Option<String>,
}
