//! Quantities with their unit and their bounds: CPU budgets, memory, epochs, fencing tokens.

use crate::ParseError;

/// CPU time that one invocation may use, 10 µs to 10 minutes, in microseconds. What a function may ask for is its
/// [class](crate::Class)'s to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Budget(u64);

impl Budget {
    /// The smallest, 10 µs.
    pub const MIN: Self = Self(10);
    /// The node's default, 1 ms.
    pub const DEFAULT: Self = Self(1_000);
    /// The largest of a function of class `micro`, 10 s.
    pub const MICRO_MAX: Self = Self(10_000_000);
    /// The largest of any function, 10 minutes.
    pub const MAX: Self = Self(600_000_000);
    const RULE: &'static str = "a whole number with us, ms or s, from 10us to 10s, or to 600s of class bulk";

    /// Checks that `micros` is between 10 µs and [`Self::MAX`].
    pub fn from_micros(micros: u64) -> Result<Self, ParseError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&micros) {
            Ok(Self(micros))
        } else {
            Err(ParseError::new("budget", &format!("{micros}us"), Self::RULE))
        }
    }

    /// Reads `93us`, `10ms` or `2s`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        scaled(text, &[("us", 1), ("ms", 1_000), ("s", 1_000_000)])
            .and_then(|micros| Self::from_micros(micros).ok())
            .ok_or_else(|| ParseError::new("budget", text, Self::RULE))
    }

    /// The budget in microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            micros if micros.is_multiple_of(1_000_000) => write!(f, "{}s", micros / 1_000_000),
            micros if micros.is_multiple_of(1_000) => write!(f, "{}ms", micros / 1_000),
            micros => write!(f, "{micros}us"),
        }
    }
}

impl TryFrom<u64> for Budget {
    type Error = ParseError;
    fn try_from(micros: u64) -> Result<Self, ParseError> {
        Self::from_micros(micros)
    }
}

impl From<Budget> for u64 {
    fn from(budget: Budget) -> u64 {
        budget.0
    }
}

/// The size of a function's arena, 64 KiB to 1 GiB, a multiple of 4 KiB, in bytes. What a function may ask for is its
/// [class](crate::Class)'s to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct MemoryLimit(u64);

impl MemoryLimit {
    /// The node's default, 4 MiB.
    pub const DEFAULT: Self = Self(4 << 20);
    /// The largest of a function of class `micro`, 256 MiB.
    pub const MICRO_MAX: Self = Self(256 << 20);
    /// The largest of any function, 1 GiB.
    pub const MAX: Self = Self(1 << 30);
    const RULE: &'static str = "a whole number with KiB or MiB, from 64KiB to 256MiB, or to 1024MiB of class bulk, a multiple of 4KiB";

    /// Checks the bounds and the page multiple.
    pub fn from_bytes(bytes: u64) -> Result<Self, ParseError> {
        if (64 << 10..=Self::MAX.0).contains(&bytes) && bytes.is_multiple_of(4096) {
            Ok(Self(bytes))
        } else {
            Err(ParseError::new("memory", &format!("{bytes} bytes"), Self::RULE))
        }
    }

    /// Reads `512KiB` or `4MiB`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        scaled(text, &[("KiB", 1 << 10), ("MiB", 1 << 20)])
            .and_then(|bytes| Self::from_bytes(bytes).ok())
            .ok_or_else(|| ParseError::new("memory", text, Self::RULE))
    }

    /// The size in bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_multiple_of(1 << 20) {
            write!(f, "{}MiB", self.0 >> 20)
        } else {
            write!(f, "{}KiB", self.0 >> 10)
        }
    }
}

impl TryFrom<u64> for MemoryLimit {
    type Error = ParseError;
    fn try_from(bytes: u64) -> Result<Self, ParseError> {
        Self::from_bytes(bytes)
    }
}

impl From<MemoryLimit> for u64 {
    fn from(limit: MemoryLimit) -> u64 {
        limit.0
    }
}

/// `digits unit` with the unit from `units`; `None` for anything else, overflow included.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(split);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

/// The number of a serving set. It only grows; a rollback is a higher epoch with an old digest.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl std::fmt::Display for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The proof that a builder holds the newest lease of a build: the transaction that completes
/// the build checks it, so that a builder that slept past its lease commits nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct FencingToken(pub i64);

impl std::fmt::Display for FencingToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Microseconds since an origin that the caller chose; never decreasing between two calls. What decides takes it as an
/// argument, so that a test or a simulation can be the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// This moment and `us` microseconds more.
    pub fn plus(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }

    /// Microseconds from `earlier` to this moment, 0 when it lies ahead.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
