//! Names, identifiers and digests: the vocabulary that every program shares.
//!
//! Each type is a newtype with one `parse`; a value of the type is proof that the text was
//! checked. Nothing here reads a file, a clock or a socket, and nothing here decides anything.

mod access;
mod binding;
mod build_version;
mod class;
mod digest;
mod host;
mod isolation;
mod names;
mod peer;
mod quantity;
mod rights;
mod text;
mod trace_parent;

pub use access::{
    Access, CALLERS_MAX, CallScope, Callers, FUNCTION_CALLER, RESERVED_CALLERS, SCHEDULE_CALLER,
    TRIGGER_CALLER,
};
pub use binding::{
    AssetContent, Assets, BINDINGS_MAX, Binding, Bindings, CalleeName, DataAccess, FunctionBinding,
    ResourceBinding, ResourceKind, asset_bytes,
};
pub use build_version::BuildVersion;
pub use class::{ASSET_BYTES_MAX, Class};
pub use digest::{Digest, ToolchainId};
pub use host::{HostError, requested_host};
pub use isolation::Isolation;
pub use names::{
    AliasName, BindingName, CrateName, DeploymentId, FunctionName, FunctionRef, HandlerPath, NodeName,
    PersonName, ResourceName, ScheduleName, Selector, TenantName, TriggerName, VersionNumber,
};
pub use peer::PeerKey;
pub use quantity::{Budget, Epoch, FencingToken, MemoryLimit, Moment};
pub use rights::{IdentitySource, Role, Scope};
pub use text::{escape_json, sanitise, sanitise_line};
pub use trace_parent::TraceParent;

/// Why a text is not a value of the type it was parsed as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a valid {kind}: {rule}")]
pub struct ParseError {
    /// What was being parsed, for example `function name`.
    pub kind: &'static str,
    /// The offending text, sanitised and cut to 80 bytes.
    pub value: String,
    /// The rule it broke, as a sentence fragment.
    pub rule: &'static str,
}

impl ParseError {
    fn new(kind: &'static str, value: &str, rule: &'static str) -> Self {
        Self { kind, value: sanitise_line(value, 80), rule }
    }
}

/// Gives a newtype over `String` its border: `parse`, `FromStr`, `Display`, `AsRef`, and serde
/// that goes through `parse`, so that no deserialiser can make an unchecked value.
macro_rules! text_newtype {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks `text` against the rule of the type.
            pub fn parse(text: &str) -> Result<Self, $crate::ParseError> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err($crate::ParseError::new($kind, text, $rule))
                }
            }

            /// The checked text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::ParseError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::ParseError;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}
use text_newtype;

#[cfg(test)]
mod tests;
