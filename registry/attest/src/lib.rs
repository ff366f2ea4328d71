//! What is signed, in which bytes, and when a signature counts.
//!
//! Three documents travel in DSSE envelopes (<https://github.com/secure-systems-lab/dsse>), each
//! with its own payload type, so that no signature of one kind can stand in for another:
//! the **artifact statement** ([`Statement`], an in-toto Statement v1 whose predicate is
//! `admission/v4` with the SLSA v1 provenance inside it), the **serving set** ([`ServingSet`])
//! and the root-signed **key list** ([`KeyList`]). Callers show another kind, call tokens ([`CallClaims`]), whose keys the serving set names,
//! as it names the list of those that were revoked ([`RevokedCalls`]).
//!
//! A [`Verified`] value exists only because [`verify`] made it. This crate must never read a
//! clock, a file or a socket: the time is an argument, and bytes come from the caller. It must
//! never accept what it does not know: unknown fields, purposes and payload types are refusals, but for fields that a
//! statement calls optional ([`Fields`]).

mod audit;
mod call;
mod claim;
mod dsse;
mod fields;
mod keylist;
mod keys;
mod purpose;
mod revoked;
mod root;
mod served;
mod serving;
mod shards;
mod slsa;
mod statement;

pub use audit::{AuditArchive, AuditHead};
pub use call::{
    CALL_CLOCK_SKEW, CALL_TOKEN_BYTES_MAX, CALL_TOKEN_LIFE, CALL_TOKEN_LIFE_MAX, CallClaims, CallKey,
    CallTokenError, sign_call, verify_call,
};
pub use claim::BuildClaim;
pub use dsse::{Draft, Envelope, Payload, Verified, sign, verify};
pub use fields::Fields;
pub use keylist::{KeyList, ListedKey, RootKeys};
pub use keys::{PrivateKey, PublicKey, Trust};
pub use purpose::{KeyId, Purpose};
pub use revoked::{CALL_REVOCATIONS_MAX, RevokedCalls};
pub use root::{RootError, TrustedRoot};
pub use served::{ALIASES_MAX, RESOURCES_MAX, REVOKED_VERSIONS_TOLD, ServedFunction, ServedVersion};
pub use serving::{EPOCHS_AHEAD_MAX, SERVING_SET_VALID_HOURS, ServingSet, SetOrder};
pub use shards::{
    Change, HexDigit, SHARD_BYTES_MAX, SHARDS_AT_ONCE_MAX, Shard, ShardPrefix, ShardRef, ShardStore, tree_of,
    update,
};
pub use slsa::{BuildDefinition, BuildMetadata, Builder, Provenance, ResourceDescriptor, RunDetails};
pub use statement::{
    ADMISSION_V1, ADMISSION_V2, ADMISSION_V3, ADMISSION_V4, Admission, Check, Checker, DecisionUsed,
    Declared, SandboxLevel, Statement, Subject,
};

/// Why bytes are not a document that we sign or believe.
#[derive(Debug, thiserror::Error)]
pub enum AttestError {
    /// Larger than the limit of its kind; nothing was parsed.
    #[error("the signed document has {bytes} bytes, the limit is {bytes_max}")]
    TooLarge {
        /// What arrived.
        bytes: usize,
        /// What is accepted.
        bytes_max: usize,
    },
    /// The envelope or the payload is not the JSON that we expect.
    #[error("the signed document cannot be read: {reason}")]
    Malformed {
        /// What is wrong, in words of the parser.
        reason: String,
    },
    /// A document of another kind, for example a key list where a statement belongs.
    #[error("the envelope holds `{found}`, expected `{expected}`")]
    WrongType {
        /// The payload type in the envelope, sanitised.
        found: String,
        /// The payload type of the document that was asked for.
        expected: &'static str,
    },
    /// No signature by a key that is trusted for this purpose.
    #[error("no signature by a trusted {purpose} key")]
    Untrusted {
        /// What the key would have to be good for.
        purpose: Purpose,
    },
    /// A trusted key id with a signature that does not match.
    #[error("the signature by key {key} does not match")]
    BadSignature {
        /// The key that should have signed.
        key: KeyId,
    },
    /// Signed, but contradicting itself: such a document is never used.
    #[error("the signed document contradicts itself: {reason}")]
    Inconsistent {
        /// Which rule it breaks.
        reason: String,
    },
    /// A key file or key text that is not an Ed25519 key.
    #[error("not an Ed25519 key: {reason}")]
    Key {
        /// What is wrong.
        reason: String,
    },
    /// An encrypted key file that the passphrase does not open.
    #[error("the passphrase is wrong, or the key file is damaged")]
    Passphrase,
}

#[cfg(test)]
mod tests;
