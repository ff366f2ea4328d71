//! How many people a review takes.

use serde::{Deserialize, Serialize};

/// How many people have to agree; a number in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum People {
    /// One.
    One,
    /// Two: some unsafe code, or none that was proven.
    Two,
}

impl People {
    /// As a number.
    pub fn count(self) -> usize {
        usize::from(u8::from(self))
    }
}

impl From<People> for u8 {
    fn from(people: People) -> u8 {
        match people {
            People::One => 1,
            People::Two => 2,
        }
    }
}

impl TryFrom<u8> for People {
    type Error = &'static str;
    fn try_from(number: u8) -> Result<Self, Self::Error> {
        match number {
            1 => Ok(Self::One),
            2 => Ok(Self::Two),
            _ => Err("one or two people decide"),
        }
    }
}
