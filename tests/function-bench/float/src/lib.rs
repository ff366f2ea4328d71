//! Sines, cosines and square roots of the first whole numbers.

use mfaas::Json;
use serde::{Deserialize, Serialize};

/// How many numbers.
#[derive(Debug, Deserialize)]
pub struct Query {
    n: u32,
}

/// The sum of each.
#[derive(Debug, Default, Serialize)]
pub struct Sums {
    sines: f64,
    cosines: f64,
    roots: f64,
}

/// Takes `{"n": 1000}`.
pub fn handle(Json(query): Json<Query>) -> Json<Sums> {
    let mut sums = Sums::default();
    for number in (0..query.n).map(f64::from) {
        sums.sines += number.sin();
        sums.cosines += number.cos();
        sums.roots += number.sqrt();
    }
    Json(sums)
}
