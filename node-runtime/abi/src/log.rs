//! Log records of one invocation: a run of `level u8 · bytes u16 little-endian · text`.
//!
//! Written by the executor into a fixed buffer, read by the node from a worker it does not trust, so
//! the reader stops at the first record that does not fit.

/// How loud a log line is.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Details for the developer.
    Debug = 0,
    /// `mfaas::log!` and standard output.
    Info = 1,
    /// Something to look at.
    Warn = 2,
    /// Standard error, and failures.
    Error = 3,
}

impl Level {
    /// The level with this number; unknown numbers read as [`Level::Info`], since a wrong level
    /// loses nothing.
    pub fn from_u32(number: u32) -> Self {
        match number {
            0 => Self::Debug,
            2 => Self::Warn,
            3 => Self::Error,
            _ => Self::Info,
        }
    }

    /// The name in logs and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// One line that a function logged. The text is the tenant's: bounded, not sanitised, maybe not
/// UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// How loud it is.
    pub level: Level,
    /// The line without its end.
    pub text: &'a [u8],
}

/// The header that stands before `bytes` bytes of text. Longer text must be cut to `u16::MAX`.
pub fn log_entry_header(level: Level, bytes: u16) -> [u8; 3] {
    let [low, high] = bytes.to_le_bytes();
    [level as u8, low, high]
}

/// Reads records one by one; ends at the first that is cut short.
#[derive(Debug, Clone)]
pub struct LogReader<'a> {
    rest: &'a [u8],
}

impl<'a> LogReader<'a> {
    /// Reads the records in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for LogReader<'a> {
    type Item = LogEntry<'a>;

    fn next(&mut self) -> Option<LogEntry<'a>> {
        let (&[level, low, high], rest) = self.rest.split_first_chunk::<3>()?;
        let bytes = usize::from(u16::from_le_bytes([low, high]));
        let (text, rest) = rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(LogEntry { level: Level::from_u32(u32::from(level)), text })
    }
}
