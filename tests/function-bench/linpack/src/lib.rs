//! A dense system of linear equations, solved by elimination with the largest pivot of each column.

use mfaas::{Error, Json};
use serde::{Deserialize, Serialize};

const EQUATIONS_MAX: usize = 300;

/// How many equations.
#[derive(Debug, Deserialize)]
pub struct Query {
    n: usize,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Solution {
    /// Each unknown is 1; how far the one that is furthest away is from that, rounded to 9 digits.
    error: f64,
    /// The logarithm of the determinant's size.
    log_determinant: f64,
}

/// Takes `{"n": 100}`.
pub fn handle(Json(Query { n }): Json<Query>) -> Result<Json<Solution>, Error> {
    if n > EQUATIONS_MAX {
        return Err(Error::new(format!("there are at most {EQUATIONS_MAX} equations")));
    }
    let mut numbers = Numbers(1);
    let mut rows: Vec<Vec<f64>> = (0..n)
        .map(|_| {
            let mut row: Vec<f64> = (0..n).map(|_| numbers.next()).collect();
            row.push(row.iter().sum());
            row
        })
        .collect();
    let log_determinant = eliminate(&mut rows)?;
    let found = substitute(&rows);
    let error = found.iter().fold(0.0, |worst: f64, one| worst.max((one - 1.0).abs()));
    Ok(Json(Solution { error: (error * 1e9).round() / 1e9, log_determinant }))
}

/// Leaves zeros below the diagonal.
fn eliminate(rows: &mut [Vec<f64>]) -> Result<f64, Error> {
    let mut log_determinant = 0.0;
    for column in 0..rows.len() {
        let size = |row: &usize| rows[*row][column].abs();
        let pivot = (column..rows.len()).max_by(|one, other| size(one).total_cmp(&size(other)));
        rows.swap(column, pivot.unwrap_or(column));
        let (above, below) = rows.split_at_mut(column + 1);
        let from = &above[column];
        if from[column] == 0.0 {
            return Err(Error::new("the equations have no one solution"));
        }
        log_determinant += from[column].abs().ln();
        for row in below {
            let factor = row[column] / from[column];
            for (to, from) in row.iter_mut().zip(from).skip(column) {
                *to -= factor * from;
            }
        }
    }
    Ok(log_determinant)
}

fn substitute(rows: &[Vec<f64>]) -> Vec<f64> {
    let n = rows.len();
    let mut found = vec![0.0; n];
    for at in (0..n).rev() {
        let known: f64 = (at + 1..n).map(|column| rows[at][column] * found[column]).sum();
        found[at] = (rows[at][n] - known) / rows[at][at];
    }
    found
}

/// Numbers from -0.5 to 0.5, the same ones each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    }
}
