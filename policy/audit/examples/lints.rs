//! How often the soundness lints speak up in sources of real crates: `lints DIR…`, each the
//! directory of one crate, and its `src` is read. With `MFAAS_SHOW` set, every place is printed.
//! Sources are read without an expansion, so shapes that only macros emit are not counted.
#![allow(clippy::print_stdout, reason = "a tool for people")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mfaas_audit::soundness;
use mfaas_rules::judge_soundness;
use mfaas_rules::profiles::lints;

#[derive(Default)]
struct Tally {
    crates: usize,
    places: usize,
}

fn main() {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let (mut crates, mut lines) = (0, 0);
    for directory in std::env::args().skip(1) {
        let files = sources(Path::new(&directory));
        if files.is_empty() {
            continue;
        }
        crates += 1;
        lines += files.iter().map(|(_, text)| text.lines().count()).sum::<usize>();
        let facts =
            soundness::read_unexpanded(files.iter().map(|(name, text)| (name.as_str(), text.as_str())));
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for finding in judge_soundness(&facts) {
            let lint = finding.message.split(':').next().unwrap_or_default().to_owned();
            if std::env::var_os("MFAAS_SHOW").is_some() {
                let place =
                    finding.span.map_or_else(String::new, |s| format!("{}:{}: {}", s.file, s.line, s.text));
                println!("{}\n    {place}", finding.message);
            }
            *seen.entry(lint).or_default() += 1;
        }
        for (lint, places) in seen {
            let tally = tallies.entry(lint).or_default();
            tally.crates += 1;
            tally.places += places;
        }
    }
    println!("{crates} crates, {lines} lines");
    for row in lints::ROWS {
        let tally = tallies.remove(row.id).unwrap_or_default();
        report(row.id, &tally, crates);
    }
    tallies.iter().for_each(|(lint, tally)| report(lint, tally, crates));
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand crates at most")]
fn report(lint: &str, tally: &Tally, crates: usize) {
    let rate = 100.0 * tally.crates as f64 / crates.max(1) as f64;
    println!("{lint:<34} {:>4} crates {:>5} places {rate:>6.2} %", tally.crates, tally.places);
}

/// Every `.rs` file below `src`, by path.
fn sources(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut pending: Vec<PathBuf> = vec![directory.join("src")];
    while let Some(path) = pending.pop() {
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        for entry in entries.map(|entry| entry.path()) {
            if entry.is_dir() {
                pending.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs")
                && let Ok(text) = std::fs::read_to_string(&entry)
            {
                found.push((entry.display().to_string(), text));
            }
        }
    }
    found.sort();
    found
}
