//! Counts words by map and reduce: parts of a text are counted each by itself, and the counts brought together.

use std::collections::BTreeMap;

use mfaas::Json;
use serde::Serialize;

const PARTS: usize = 8;
const MOST_FREQUENT: usize = 20;

/// How often each word occurs.
type Counts = BTreeMap<String, u64>;

/// What a text consists of.
#[derive(Debug, Serialize)]
pub struct Words {
    words: u64,
    different: usize,
    most_frequent: Vec<(String, u64)>,
}

/// Takes a text; a word is made of ASCII letters, large or small.
pub fn handle(text: String) -> Json<Words> {
    let lines: Vec<&str> = text.lines().collect();
    let part = lines.len().div_ceil(PARTS).max(1);
    let counts = lines.chunks(part).map(map).fold(Counts::new(), reduce);
    let (words, different) = (counts.values().sum(), counts.len());
    let mut most_frequent: Vec<(String, u64)> = counts.into_iter().collect();
    // Words that are as frequent stay in their order.
    most_frequent.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    most_frequent.truncate(MOST_FREQUENT);
    Json(Words { words, different, most_frequent })
}

fn map(lines: &[&str]) -> Counts {
    let mut counts = Counts::new();
    let words = lines.iter().flat_map(|line| line.split(|letter: char| !letter.is_ascii_alphabetic()));
    for word in words.filter(|word| !word.is_empty()) {
        *counts.entry(word.to_ascii_lowercase()).or_default() += 1;
    }
    counts
}

fn reduce(mut all: Counts, part: Counts) -> Counts {
    for (word, count) in part {
        *all.entry(word).or_default() += count;
    }
    all
}
