//! The product of two square matrices of whole numbers.

use mfaas::{Error, Json};
use serde::{Deserialize, Serialize};

const ROWS_MAX: usize = 300;

/// How many rows and columns.
#[derive(Debug, Deserialize)]
pub struct Query {
    n: usize,
}

/// Of the product.
#[derive(Debug, Serialize)]
pub struct Product {
    trace: f64,
    sum: f64,
}

/// Takes `{"n": 100}`.
pub fn handle(Json(Query { n }): Json<Query>) -> Result<Json<Product>, Error> {
    if n > ROWS_MAX {
        return Err(Error::new(format!("a matrix has at most {ROWS_MAX} rows")));
    }
    let mut numbers = Numbers(1);
    let mut matrix = || -> Vec<f64> { (0..n * n).map(|_| numbers.next()).collect() };
    let (left, right) = (matrix(), matrix());
    let mut product = vec![0.0; n * n];
    for row in 0..n {
        for inner in 0..n {
            let factor = left[row * n + inner];
            for column in 0..n {
                product[row * n + column] += factor * right[inner * n + column];
            }
        }
    }
    let trace = (0..n).map(|at| product[at * n + at]).sum();
    Ok(Json(Product { trace, sum: product.iter().sum() }))
}

/// Whole numbers from 0 to 15, the same ones each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 60) as f64
    }
}
