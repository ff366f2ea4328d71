//! FNV-1a of the text, and its words counted in a map that hashes with it.
use fnv::{FnvHashMap, FnvHasher};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

fn count<'a, S>(words: impl Iterator<Item = &'a str>, into: &mut HashMap<&'a str, usize, S>)
where
    S: BuildHasher,
{
    for word in words {
        *into.entry(word).or_default() += 1;
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let mut counts = FnvHashMap::with_capacity_and_hasher(16, Default::default());
    count(text.split_whitespace(), &mut counts);
    let mut pairs: Vec<(&str, usize)> = counts.into_iter().collect();
    pairs.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let mut out = format!("fnv1a {:016x}\n", digest(text.as_bytes()));
    for (word, n) in pairs {
        out.push_str(&format!("{word} {n}\n"));
    }
    out.into_bytes()
}
