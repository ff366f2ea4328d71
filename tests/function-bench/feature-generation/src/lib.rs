//! Turns documents into features: how much each word says about each of them (term frequency by inverse document frequency).

use std::collections::{BTreeMap, BTreeSet};

use mfaas::{Error, Json};
use regex::Regex;
use serde::Serialize;

/// Shorter words are no features.
const LETTERS_MIN: usize = 2;

/// Of all documents.
#[derive(Debug, Serialize)]
pub struct Features {
    documents: usize,
    words: usize,
    vectors: Vec<Vector>,
}

/// Of one document, whose vector has length 1 if it has a word.
#[derive(Debug, Serialize)]
pub struct Vector {
    words: usize,
    sum: f64,
    largest: f64,
}

/// Takes a document in each line.
pub fn handle(text: String) -> Result<Json<Features>, Error> {
    let others = Regex::new("[^A-Za-z]+")?;
    let documents: Vec<BTreeMap<String, f64>> =
        text.lines().map(|line| frequencies(&others.replace_all(line, " "))).collect();
    let words: BTreeSet<&str> = documents.iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
    let count = documents.len() as f64;
    let rarity: BTreeMap<&str, f64> = words
        .iter()
        .map(|word| {
            let with = documents.iter().filter(|document| document.contains_key(*word)).count() as f64;
            (*word, ((1.0 + count) / (1.0 + with)).ln() + 1.0)
        })
        .collect();
    let vectors = documents.iter().map(|document| vector(document, &rarity)).collect();
    Ok(Json(Features { documents: documents.len(), words: words.len(), vectors }))
}

fn frequencies(line: &str) -> BTreeMap<String, f64> {
    let mut frequencies = BTreeMap::new();
    for word in line.split(' ').filter(|word| word.len() >= LETTERS_MIN) {
        *frequencies.entry(word.to_ascii_lowercase()).or_default() += 1.0;
    }
    frequencies
}

fn vector(document: &BTreeMap<String, f64>, rarity: &BTreeMap<&str, f64>) -> Vector {
    let weights: Vec<f64> =
        document.iter().map(|(word, frequency)| frequency * rarity[word.as_str()]).collect();
    let length = weights.iter().map(|weight| weight * weight).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    let sum = weights.iter().map(|weight| weight / length).sum();
    let largest = weights.iter().fold(0.0, |largest: f64, weight| largest.max(weight / length));
    Vector { words: weights.len(), sum, largest }
}
