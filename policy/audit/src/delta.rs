//! What changed from one version of a crate to another: lines by file, and what two reports say differently.
//!
//! Texts are compared line by line, line ends included, so that a file that differs in them alone differs. A
//! file that is too large to compare, or that takes too long, counts as gone and come again as a whole and says
//! so; it never counts as the same.

mod facts;
mod lines;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use mfaas_rules::crate_facts::{
    CrateDelta, CrateReport, DELTA_REVISION, DeltaSide, FileChange, FileDelta, LineDelta, Role, Volume,
    Volumes,
};

pub use facts::facts;
pub use lines::{Block, LINES_MAX, NotCompared, blocks, line_count};

/// How long one file may take.
pub const FILE_TIME_MAX: Duration = Duration::from_secs(1);
/// How long all files of a crate may take; those that are left then count as a whole.
pub const CRATE_TIME_MAX: Duration = Duration::from_secs(30);

/// The texts of a version, by path.
pub type Texts = BTreeMap<String, String>;

/// Compares two versions, the older one first, each with its report. Time runs from `now` on.
pub fn delta(old: (&CrateReport, &Texts), new: (&CrateReport, &Texts), now: Instant) -> CrateDelta {
    let paths: BTreeSet<&String> = old.1.keys().chain(new.1.keys()).collect();
    let is_code = |path: &str| {
        // What one of the two compiles is compiled; a file that went was compiled by the old one alone.
        let of = |(report, texts): (&CrateReport, &Texts)| texts.contains_key(path) && is_code(report, path);
        of(old) || of(new)
    };
    let files: Vec<FileDelta> = paths
        .into_iter()
        .filter_map(|path| {
            let left = (now + CRATE_TIME_MAX).min(Instant::now() + FILE_TIME_MAX);
            let texts = (old.1.get(path).map(String::as_str), new.1.get(path).map(String::as_str));
            file(path, texts, is_code(path), left)
        })
        .collect();
    CrateDelta {
        revision: DELTA_REVISION,
        from: side(old),
        to: side(new),
        code: sum(files.iter().filter(|file| file.code)),
        other: sum(files.iter().filter(|file| !file.code)),
        files,
        facts: facts(old.0, new.0),
    }
}

/// How much there is to read of a version.
pub fn volumes(report: &CrateReport, texts: &Texts) -> Volumes {
    let mut volumes = Volumes { unkept: unkept(report, texts), ..Volumes::default() };
    for (path, text) in texts {
        let volume = if is_code(report, path) { &mut volumes.code } else { &mut volumes.other };
        *volume = Volume { files: volume.files + 1, lines: volume.lines + line_count(text) };
    }
    volumes
}

/// Whether a text is compiled, run by the build machine, or says what is: whatever the report does not call
/// aside and that a compiler could be pointed at.
fn is_code(report: &CrateReport, path: &str) -> bool {
    if let Some(file) = report.source.files.iter().find(|file| file.path == path) {
        return file.role != Role::Aside;
    }
    path == "Cargo.toml"
        || path.ends_with(".rs")
        || report.archive.native_sources.iter().any(|native| native == path)
}

fn side((report, texts): (&CrateReport, &Texts)) -> DeltaSide {
    DeltaSide {
        version: report.version.clone(),
        checksum: report.checksum,
        features: report.features.clone(),
        unkept: unkept(report, texts),
    }
}

fn unkept(report: &CrateReport, texts: &Texts) -> u64 {
    report.archive.files.saturating_sub(texts.len() as u64)
}

/// One file; `None` when it did not change.
fn file(path: &str, texts: (Option<&str>, Option<&str>), code: bool, deadline: Instant) -> Option<FileDelta> {
    let delta = |change, added, removed, whole: String| {
        Some(FileDelta { path: path.to_owned(), change, code, added, removed, whole })
    };
    match texts {
        (None, None) => None,
        (None, Some(new)) => delta(FileChange::Added, line_count(new), 0, String::new()),
        (Some(old), None) => delta(FileChange::Removed, 0, line_count(old), String::new()),
        (Some(old), Some(new)) if old == new => None,
        (Some(old), Some(new)) => match blocks(old, new, deadline) {
            Ok(blocks) => {
                let (added, removed) = lines::changed(&blocks);
                delta(FileChange::Changed, added, removed, String::new())
            }
            Err(why) => delta(FileChange::Changed, line_count(new), line_count(old), why.to_string()),
        },
    }
}

fn sum<'a>(files: impl Iterator<Item = &'a FileDelta>) -> LineDelta {
    files.fold(LineDelta::default(), |sum, file| LineDelta {
        files: sum.files + 1,
        added: sum.added + file.added,
        removed: sum.removed + file.removed,
    })
}

#[cfg(test)]
mod tests;
