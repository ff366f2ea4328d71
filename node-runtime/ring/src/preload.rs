//! What node and worker say to each other before the first call: the list of functions to load
//! (descriptor 4) and how loading went (descriptor 5). Plain data; each side checks what it reads.
//!
//! Descriptors that a node gives a worker:
//!
//! | fd | what |
//! | --- | --- |
//! | [`FD_RING`] | the ring's memfd |
//! | [`FD_PRELOAD`] | a memfd sealed against writes with one [`Preload`] as JSON |
//! | [`FD_REPORT`] | the write end of a pipe; the worker writes one [`StartLine`] as JSON a line and closes it before lock-down |
//! | the others | one memfd sealed against writes per image, named by [`PreloadItem::fd`] |

use serde::{Deserialize, Serialize};

/// Descriptor of the ring.
pub const FD_RING: i32 = 3;
/// Descriptor of the preload list.
pub const FD_PRELOAD: i32 = 4;
/// Descriptor of the pipe for [`StartLine`]s.
pub const FD_REPORT: i32 = 5;
/// Functions in one worker, at most.
pub const ITEMS_MAX: usize = 4096;
/// The preload list as JSON, at most, in bytes.
pub const PRELOAD_BYTES_MAX: usize = 2 << 20;
/// The sentence of one failure, at most, in bytes.
pub const ERROR_BYTES_MAX: usize = 512;

/// Everything that one worker generation serves. A function's index in `items` is its name in
/// [`crate::Submission::function`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preload {
    /// [`mfaas_abi::ABI_VERSION`] of the node; the worker refuses another.
    pub abi_version: u32,
    /// Process id of the node. The worker leaves if its parent is another process by then.
    pub node_pid: u32,
    /// The functions, at most [`ITEMS_MAX`].
    pub items: Vec<PreloadItem>,
}

/// One function to load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreloadItem {
    /// Inherited descriptor of the image, 6 or higher.
    pub fd: i32,
    /// The image's digest, for messages.
    pub digest: String,
    /// `tenant/name@version`, for messages.
    pub label: String,
    /// CPU time of one call, in microseconds.
    pub budget_us: u64,
    /// Arena of one call, in bytes.
    pub memory_bytes: u64,
}

/// One line of the report about loading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StartLine {
    /// This function is not served; calls for it end as `Denied`.
    Failed {
        /// Index in [`Preload::items`].
        function: u32,
        /// One sentence, at most [`ERROR_BYTES_MAX`].
        error: String,
    },
    /// Loading is over; lock-down and readiness (in the ring) follow.
    Loaded {
        /// How many functions are served.
        functions: u32,
    },
}
