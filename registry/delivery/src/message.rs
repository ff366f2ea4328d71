//! What all messages between server and node share: protocol numbers, limits, and why one is not taken.

/// The protocol number of this build. 2 added directives, bans, usage and [`crate::Report::condition`]; 3 added shards, and reports
/// that say what is not loaded instead of what is.
pub const NODE_PROTOCOL: u32 = 3;
/// The number of what the server says, whose form has not changed since: nodes of the release before take no other.
pub const SERVER_PROTOCOL: u32 = 2;
/// The oldest number that is still taken.
pub const NODE_PROTOCOL_MIN: u32 = 1;

/// Why a message of a node is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageError {
    /// Another protocol number than ours.
    Protocol {
        /// What the message says.
        found: u32,
    },
    /// More or longer than the limits above.
    TooLarge {
        /// Which part.
        what: &'static str,
    },
    /// Two parts of it cannot both be true.
    Contradiction {
        /// Which part.
        what: &'static str,
    },
}

impl std::fmt::Display for MessageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Protocol { found } => write!(f, "node protocol {found}, this build speaks {NODE_PROTOCOL}"),
            Self::TooLarge { what } => write!(f, "the message of the node is too large: {what}"),
            Self::Contradiction { what } => write!(f, "the message of the node contradicts itself: {what}"),
        }
    }
}

impl std::error::Error for MessageError {}

pub(crate) fn check_protocol(found: u32) -> Result<(), MessageError> {
    let known = NODE_PROTOCOL_MIN..=NODE_PROTOCOL;
    if known.contains(&found) { Ok(()) } else { Err(MessageError::Protocol { found }) }
}

pub(crate) fn bound(what: &'static str, len: usize, max: usize) -> Result<(), MessageError> {
    if len <= max { Ok(()) } else { Err(MessageError::TooLarge { what }) }
}
