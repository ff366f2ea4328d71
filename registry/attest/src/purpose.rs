//! What a key is called, and what it may sign.

use mfaas_ident::Digest;

/// The name of a key: SHA-256 of the 32 bytes of the public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct KeyId(pub Digest);

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What a key may sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The list of keys; never listed for that among the keys, but in the list's root.
    Root,
    /// Artifact statements.
    Artifact,
    /// Serving sets.
    ServingSet,
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Root => "root",
            Self::Artifact => "artifact",
            Self::ServingSet => "serving set",
        })
    }
}
