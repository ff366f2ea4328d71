//! What kind of calls a function has: short ones, or long ones with much memory.

use crate::{Budget, MemoryLimit, ParseError};

/// Bytes of an asset, at most: as many as the window of a worker has room for.
pub const ASSET_BYTES_MAX: u64 = 254 << 20;

/// The kind of a function's calls, which decides what it may ask for and which workers run it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Calls that are over in micro- or milliseconds, in workers that answer at once.
    #[default]
    Micro,
    /// Calls that take seconds or minutes and much memory, in workers of their own that yield to all others.
    Bulk,
}

impl Class {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Micro, Self::Bulk];

    /// The word in the manifest, in statements, on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Micro => "micro",
            Self::Bulk => "bulk",
        }
    }

    /// The class of that word.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|class| class.as_str() == text)
            .ok_or_else(|| ParseError::new("class", text, "one of micro, bulk"))
    }

    /// Whether it is the class of a function that names none.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The most CPU time that a function of it may ask for.
    pub const fn budget_max(self) -> Budget {
        match self {
            Self::Micro => Budget::MICRO_MAX,
            Self::Bulk => Budget::MAX,
        }
    }

    /// The most memory that a function of it may ask for.
    pub const fn memory_max(self) -> MemoryLimit {
        match self {
            Self::Micro => MemoryLimit::MICRO_MAX,
            Self::Bulk => MemoryLimit::MAX,
        }
    }

    /// The most bytes that the assets of a function of it may have together.
    pub const fn asset_bytes_max(self) -> u64 {
        match self {
            Self::Micro => 64 << 20,
            Self::Bulk => ASSET_BYTES_MAX,
        }
    }
}

impl std::str::FromStr for Class {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
