//! Tells by a logistic regression how likely something is.

use mfaas::{Error, Json};
use serde::{Deserialize, Serialize};

/// A model, and what is asked of it.
#[derive(Debug, Deserialize)]
pub struct Query {
    weights: Vec<f64>,
    bias: f64,
    /// Of each thing that is asked about.
    features: Vec<Vec<f64>>,
}

/// How likely each is.
#[derive(Debug, Serialize)]
pub struct Told {
    probabilities: Vec<f64>,
}

/// Takes what `logistic-train` answers, with features of the same number.
pub fn handle(Json(query): Json<Query>) -> Result<Json<Told>, Error> {
    let Query { weights, bias, features } = query;
    if features.iter().any(|features| features.len() != weights.len()) {
        return Err(Error::new(format!("the model has {} features", weights.len())));
    }
    let probability = |features: &Vec<f64>| {
        let sum: f64 = weights.iter().zip(features).map(|(weight, feature)| weight * feature).sum();
        1.0 / (1.0 + (-(sum + bias)).exp())
    };
    Ok(Json(Told { probabilities: features.iter().map(probability).collect() }))
}
