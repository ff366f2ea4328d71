//! What lies in a directory.

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// How many bytes it has; none if it is a directory.
    pub size: Option<u64>,
}

/// A part of a directory, in the order of the names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// Files and directories.
    pub entries: Vec<Entry>,
    /// Whether there are more behind them.
    pub has_more: bool,
}
