//! Whole numbers, as the description of the interface means them: in JSON Schema `1.0` and `1e3` are some, too.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// A field that is a whole number and fits its type.
pub(crate) fn required<'de, D: Deserializer<'de>, T: TryFrom<u32, Error: fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let Whole(number) = Whole::deserialize(deserializer)?;
    T::try_from(number).map_err(D::Error::custom)
}

/// A field that is a whole number or null.
pub(crate) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    Ok(Option::<Whole>::deserialize(deserializer)?.map(|Whole(number)| number))
}

struct Whole(u32);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u32(Number).map(Self)
    }
}

struct Number;

impl Visitor<'_> for Number {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {}", u32::MAX)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u32, E> {
        u32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u32, E> {
        let is_whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
        if is_whole { Ok(number as u32) } else { Err(E::invalid_value(Unexpected::Float(number), &self)) }
    }
}
