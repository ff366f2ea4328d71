//! Learns a logistic regression by gradient descent over all samples.

use mfaas::{Error, Json};
use serde::{Deserialize, Serialize};

/// What is learnt from.
#[derive(Debug, Deserialize)]
pub struct Training {
    samples: Vec<Sample>,
    /// Passes over all samples.
    passes: u32,
    /// How far each of them goes.
    rate: f64,
}

/// What was seen together.
#[derive(Debug, Deserialize)]
pub struct Sample {
    features: Vec<f64>,
    /// What is to be told from them.
    is_so: bool,
}

/// What was learnt.
#[derive(Debug, Serialize)]
pub struct Model {
    weights: Vec<f64>,
    bias: f64,
    /// The part of the samples that it tells right.
    right: f64,
}

/// Takes samples with equally many features each.
pub fn handle(Json(training): Json<Training>) -> Result<Json<Model>, Error> {
    let Training { samples, passes, rate } = training;
    let features = samples.first().map_or(0, |sample| sample.features.len());
    if samples.iter().any(|sample| sample.features.len() != features) {
        return Err(Error::new("samples have different numbers of features"));
    }
    let mut model = Model { weights: vec![0.0; features], bias: 0.0, right: 0.0 };
    let step = rate / samples.len().max(1) as f64;
    for _ in 0..passes {
        let (mut slope, mut bias_slope) = (vec![0.0; features], 0.0);
        for sample in &samples {
            let error = model.probability(&sample.features) - f64::from(u8::from(sample.is_so));
            slope.iter_mut().zip(&sample.features).for_each(|(slope, feature)| *slope += error * feature);
            bias_slope += error;
        }
        model.weights.iter_mut().zip(&slope).for_each(|(weight, slope)| *weight -= step * slope);
        model.bias -= step * bias_slope;
    }
    let right = samples.iter().filter(|sample| (model.probability(&sample.features) > 0.5) == sample.is_so);
    model.right = right.count() as f64 / samples.len().max(1) as f64;
    Ok(Json(model))
}

impl Model {
    fn probability(&self, features: &[f64]) -> f64 {
        let sum: f64 = self.weights.iter().zip(features).map(|(weight, feature)| weight * feature).sum();
        1.0 / (1.0 + (-(sum + self.bias)).exp())
    }
}
