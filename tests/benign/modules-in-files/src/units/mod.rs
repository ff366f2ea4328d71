//! Units of length and temperature.
pub(crate) mod error;
mod length;
mod temperature;

pub(crate) use error::Problem as Error;
use length::Length;
use temperature::Temperature;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Length(Length),
    Temperature(Temperature),
}

use Unit::*;

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Length(unit) => unit.name(),
            Temperature(unit) => unit.name(),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Length(_) => "length",
            Temperature(_) => "temperature",
        }
    }
}

pub(crate) fn by_name(name: &str) -> Result<Unit, Error<'_>> {
    length::by_name(name).map(Length).or_else(|| temperature::by_name(name).map(Temperature)).ok_or(Error::Unit(name))
}

pub(crate) fn convert(value: f64, from: Unit, to: Unit) -> Result<f64, Error<'static>> {
    match (from, to) {
        (Length(from), Length(to)) => Ok(value * from.metres() / to.metres()),
        (Temperature(from), Temperature(to)) => Ok(to.of_kelvin(from.to_kelvin(value))),
        (from, to) => Err(Error::Kind(from.kind(), to.kind())),
    }
}
