//! Temperatures, by way of kelvin.
#[derive(Debug, Clone, Copy)]
pub(in crate::units) enum Temperature {
    Kelvin,
    Celsius,
    Fahrenheit,
}

use Temperature::{Celsius, Fahrenheit, Kelvin};

const ZERO_C: f64 = 273.15;

impl Temperature {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kelvin => "K",
            Celsius => "C",
            Fahrenheit => "F",
        }
    }

    pub(super) fn to_kelvin(self, value: f64) -> f64 {
        match self {
            Kelvin => value,
            Celsius => value + ZERO_C,
            Fahrenheit => (value - 32.0) / 1.8 + ZERO_C,
        }
    }

    pub(super) fn of_kelvin(self, value: f64) -> f64 {
        match self {
            Kelvin => value,
            Celsius => value - ZERO_C,
            Fahrenheit => (value - ZERO_C) * 1.8 + 32.0,
        }
    }
}

pub(super) fn by_name(name: &str) -> Option<Temperature> {
    [Kelvin, Celsius, Fahrenheit].into_iter().find(|unit| unit.name() == name)
}
