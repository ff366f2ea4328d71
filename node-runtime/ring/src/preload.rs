//! What node and worker say to each other before the first call: how the worker is to be
//! (descriptor 4) and how its start went (descriptor 5). Plain data; each side checks what it reads.
//!
//! Descriptors that a node gives a worker:
//!
//! | fd | what |
//! | --- | --- |
//! | [`FD_RING`] | the ring's memfd |
//! | [`FD_PRELOAD`] | a memfd sealed against writes with one [`Preload`] as JSON |
//! | [`FD_REPORT`] | the write end of a pipe; the worker writes one [`StartLine`] as JSON a line and closes it before lock-down |
//! | [`FD_SLAB`] | the slab's memfd, sealed against new writable mappings |

use serde::{Deserialize, Serialize};

use crate::worker::ASK_US;

/// Descriptor of the ring.
pub const FD_RING: i32 = 3;
/// Descriptor of the worker's settings.
pub const FD_PRELOAD: i32 = 4;
/// Descriptor of the pipe for [`StartLine`]s.
pub const FD_REPORT: i32 = 5;
/// Descriptor of the slab.
pub const FD_SLAB: i32 = 6;
/// The settings as JSON, at most, in bytes.
pub const PRELOAD_BYTES_MAX: usize = 4 << 10;
/// The sentence of a failure, at most, in bytes.
pub const ERROR_BYTES_MAX: usize = 512;

/// The sentence about a control over speculation, at most, in bytes.
pub const CONTROL_BYTES_MAX: usize = 80;

/// How a worker is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preload {
    /// [`mfaas_abi::ABI_VERSION`] of the node; the worker refuses another.
    pub abi_version: u32,
    /// Process id of the node. The worker leaves if its parent is another process by then.
    pub node_pid: u32,
    /// The largest arena that a call may ask for, in bytes.
    pub memory_bytes_max: u64,
    /// What the worker is to ask of the kernel against speculation.
    pub speculation: SpeculationControls,
    /// How long a call waits for the node to take what it asks, in microseconds, before it is put aside.
    pub ask_us: u64,
}

impl Preload {
    /// For a worker that this process starts.
    pub fn new(memory_bytes_max: u64, speculation: SpeculationControls) -> Self {
        Self {
            abi_version: mfaas_abi::ABI_VERSION,
            node_pid: std::process::id(),
            memory_bytes_max,
            speculation,
            ask_us: ASK_US,
        }
    }
}

/// Controls over speculation that a worker takes before it is locked down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeculationControls {
    /// No training of indirect branches between processes.
    pub indirect_branches: bool,
    /// No load ahead of an older store.
    pub store_bypass: bool,
    /// No other process on a sibling of the worker's core.
    pub core_scheduling: bool,
}

impl SpeculationControls {
    /// What a node asks for unless its operator says otherwise.
    pub const ALL: Self = Self { indirect_branches: true, store_bypass: true, core_scheduling: true };
    /// Nothing.
    pub const NONE: Self = Self { indirect_branches: false, store_bypass: false, core_scheduling: false };
}

/// One line of the report about starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StartLine {
    /// The worker cannot serve and ends.
    Failed {
        /// One sentence, at most [`ERROR_BYTES_MAX`].
        error: String,
    },
    /// Everything is mapped; lock-down and readiness (in the ring) follow.
    Mapped {
        /// How many images the slab can hold.
        slots: u32,
        /// Whether calls run under protection keys.
        keys: KeysLine,
        /// Which controls over speculation hold.
        speculation: SpeculationLine,
    },
}

/// Which controls over speculation hold for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeculationLine {
    /// [`SpeculationControls::indirect_branches`].
    pub indirect_branches: ControlLine,
    /// [`SpeculationControls::store_bypass`].
    pub store_bypass: ControlLine,
    /// [`SpeculationControls::core_scheduling`].
    pub core_scheduling: ControlLine,
}

/// Whether one control over speculation holds, in the kernel's own opinion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlLine {
    /// It does, or the processor needs none.
    pub holds: bool,
    /// Why, or why not: one sentence of at most [`CONTROL_BYTES_MAX`].
    pub reason: String,
}

/// Whether a worker's calls run under protection keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeysLine {
    /// They do.
    pub on: bool,
    /// Why not, one sentence of at most [`ERROR_BYTES_MAX`]; empty if they do.
    pub reason: String,
}
