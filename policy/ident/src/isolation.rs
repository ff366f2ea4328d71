//! What a function's calls share a process with.

use crate::ParseError;

/// With whom a function shares the worker processes that run its calls.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// With every tenant that asks for nothing else.
    #[default]
    Shared,
    /// With functions of its own tenant alone.
    Process,
}

impl Isolation {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Shared, Self::Process];

    /// The word in the manifest, on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Process => "process",
        }
    }

    /// The isolation of that word.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|isolation| isolation.as_str() == text)
            .ok_or_else(|| ParseError::new("isolation", text, "one of shared, process"))
    }
}

impl std::str::FromStr for Isolation {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl std::fmt::Display for Isolation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
