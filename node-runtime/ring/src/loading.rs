//! What a node and its loader say to each other, over a socket that keeps messages apart
//! (`SOCK_SEQPACKET`): one JSON object a message, one answer to each request, in order. Plain data;
//! each side checks what it reads.

use serde::{Deserialize, Serialize};

/// Descriptor of the loader's end of the socket.
pub const FD_LOADER: i32 = 3;
/// One message, at most, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// The sentence of a failure, at most, in bytes.
pub const REASON_BYTES_MAX: usize = 512;

/// From the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoaderRequest {
    /// Link the image behind the one descriptor that comes with the message: a memfd sealed against
    /// writing.
    Load {
        /// `sha256:…` of the image. The loader hashes what it links and refuses anything else.
        digest: String,
    },
    /// Take an image away that no worker runs or will run.
    Unload {
        /// Its slot.
        slot: u32,
    },
}

/// From the loader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoaderAnswer {
    /// The first message, unasked: the slab's memory comes with it as a descriptor.
    Ready {
        /// [`mfaas_abi::ABI_VERSION`] of the loader.
        abi_version: u32,
    },
    /// The image is resident.
    Loaded {
        /// Its slot, which names it in calls.
        slot: u32,
        /// Bytes of the slab that it takes.
        bytes: u64,
        /// `sha256:…` of what stands in the slot: code and pristine data, linked.
        linked: String,
    },
    /// The image is gone, its slot free.
    Unloaded {
        /// The slot.
        slot: u32,
    },
    /// The request was not met, and nothing of it is left.
    Failed {
        /// Whether there is no room for the image now; otherwise something is wrong with it.
        full: bool,
        /// One sentence, at most [`REASON_BYTES_MAX`].
        reason: String,
    },
}
