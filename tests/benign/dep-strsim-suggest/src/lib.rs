//! "Did you mean": the known word that is nearest.
use mfaas::{Error, Json};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
pub struct Question {
    word: String,
    known: Vec<String>,
}

#[derive(Serialize)]
pub struct Answer {
    suggestion: String,
    distance: usize,
    similarity: f64,
}

const DISTANCE_MAX: usize = 3;

pub fn handle(Json(Question { word, known }): Json<Question>) -> Result<Json<Answer>, Error> {
    known
        .into_iter()
        .map(|candidate| (strsim::levenshtein(&word, &candidate), candidate))
        .filter(|(distance, _)| *distance <= DISTANCE_MAX)
        .min_by_key(|(distance, candidate)| {
            let similarity = strsim::jaro_winkler(&word, candidate);
            (*distance, -(similarity * 1e6) as i64)
        })
        .map(|(distance, suggestion)| {
            let similarity = (strsim::jaro_winkler(&word, &suggestion) * 100.0).round() / 100.0;
            Json(Answer { suggestion, distance, similarity })
        })
        .ok_or_else(|| Error::new(format!("nothing is near {word}")))
}
