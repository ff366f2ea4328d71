//! What has been counted, and the small file from which a run goes on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Counts by name, and how far they go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) seed: u64,
    /// Stands for what mutants are made of: others are others.
    pub(crate) origin: String,
    /// The next mutant.
    pub(crate) next: u64,
    pub(crate) counts: BTreeMap<String, u64>,
    /// Mutants that got out: the index, and what was seen.
    pub(crate) escapes: Vec<(u64, String)>,
}

impl State {
    pub(crate) fn new(seed: u64, origin: String) -> Self {
        Self { seed, origin, next: 0, counts: BTreeMap::new(), escapes: Vec::new() }
    }

    pub(crate) fn count(&mut self, name: &str) {
        match self.counts.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(name.to_owned(), 1)),
        }
    }

    /// How many have names that begin so.
    pub(crate) fn sum(&self, start: &str) -> u64 {
        self.counts.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, count)| count).sum()
    }

    /// What the file says; a new state if there is none.
    ///
    /// # Panics
    /// For a file of another seed or of other mutants: its counts would be no counts of this run.
    pub(crate) fn load(file: &Path, seed: u64, origin: &str) -> Self {
        let mut state = Self::new(seed, origin.to_owned());
        let Ok(text) = std::fs::read_to_string(file) else { return state };
        for line in text.lines() {
            let (name, value) = line.rsplit_once('\t').expect("a name, a tab and a value");
            let number = || value.parse().expect("a number");
            match name {
                "seed" => assert_eq!(number(), seed, "{} is of another seed", file.display()),
                "origin" => assert_eq!(value, origin, "{} is of other mutants", file.display()),
                "next" => state.next = number(),
                name => match name.strip_prefix("escape ") {
                    Some(index) => state.escapes.push((index.parse().expect("a number"), value.to_owned())),
                    None => drop(state.counts.insert(name.to_owned(), number())),
                },
            }
        }
        state
    }

    /// Writes the file anew, whole or not at all.
    pub(crate) fn save(&self, file: &Path) {
        let mut text = format!("seed\t{}\norigin\t{}\nnext\t{}\n", self.seed, self.origin, self.next);
        for (name, count) in &self.counts {
            writeln!(text, "{name}\t{count}").expect("writing to a string");
        }
        for (index, seen) in &self.escapes {
            writeln!(text, "escape {index}\t{seen}").expect("writing to a string");
        }
        let new = file.with_extension("new");
        std::fs::write(&new, text).expect("write the state");
        std::fs::rename(&new, file).expect("put the state in its place");
    }
}
