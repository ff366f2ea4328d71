//! Why an operation has not done what it was asked for: a stable code, and a sentence that the function sees.

use mfaas_abi::limits::OUTCOME_BYTES_MAX;
use mfaas_ident::{DataAccess, ResourceName};
use mfaas_kv::KvError;
use mfaas_rules::{Code, codes};

/// Bytes of a sentence.
const MESSAGE_BYTES_MAX: usize = 1 << 10;

/// Why an operation has not done what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Refusal {
    /// A sentence that is too long is cut: it may repeat what a function wrote.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        Self { code, message }
    }

    /// What an operation gives, or why that is too much.
    pub(crate) fn unless_too_long(reply: Vec<u8>) -> Result<Vec<u8>, Self> {
        if reply.len() <= OUTCOME_BYTES_MAX {
            return Ok(reply);
        }
        let message = format!(
            "{} bytes of one operation's outcome, the limit is {OUTCOME_BYTES_MAX}: ask for less at once",
            reply.len()
        );
        Err(Self::new(codes::MF1202, message))
    }

    /// A function changes what it may change.
    pub(crate) fn unless_write(resource: &ResourceName, access: DataAccess) -> Result<(), Self> {
        if access >= DataAccess::Write {
            return Ok(());
        }
        Err(Self::new(codes::MF1201, format!("the function may look at `{resource}`, and not change it")))
    }
}

impl From<KvError> for Refusal {
    fn from(error: KvError) -> Self {
        let code = match &error {
            KvError::Key(_) | KvError::Limit { .. } => codes::MF1202,
            KvError::NotANumber | KvError::Overflow => codes::MF1203,
            KvError::OtherKind => codes::MF1207,
            KvError::Conflict | KvError::Busy => codes::MF1204,
            KvError::Unacknowledged(_) => codes::MF1206,
            KvError::SeveralStores { .. } => codes::MF1218,
            KvError::Unavailable(cause) => {
                // The function learns that it is our fault, and the operator what it is.
                tracing::warn!(%cause, "an operation failed");
                codes::MF1205
            }
            KvError::Elsewhere(_)
            | KvError::File { .. }
            | KvError::Server { .. }
            | KvError::Address(_)
            | KvError::SeveralServers(_)
            | KvError::Schema(_) => codes::MF1205,
        };
        Self::new(code, error.to_string())
    }
}
