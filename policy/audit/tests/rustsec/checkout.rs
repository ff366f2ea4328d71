//! A checkout of the advisory database, read with our reader.

use std::path::{Path, PathBuf};
use std::process::Command;

use mfaas_audit::advisory::read_all;
use mfaas_rules::crate_facts::{Advisory, AdvisoryKind};
use semver::VersionReq;

use super::table::{Row, Table};

/// Every file must be read: one that is not would be missing from the table.
pub(crate) fn read(directory: &Path) -> Table {
    let files: Vec<(String, Vec<u8>)> = files(&directory.join("crates"));
    let set = read_all(files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())));
    assert!(set.unread.is_empty(), "{:#?}", set.unread);
    println!("{} files read", set.advisories.len());
    let mut kinds = std::collections::BTreeMap::<AdvisoryKind, usize>::new();
    set.advisories.iter().for_each(|advisory| *kinds.entry(advisory.kind).or_default() += 1);
    println!("{kinds:?}, {} withdrawn", set.advisories.iter().filter(|one| one.withdrawn).count());
    let refusing = |advisory: &Advisory| match advisory.kind {
        AdvisoryKind::Malicious | AdvisoryKind::Unsound | AdvisoryKind::Vulnerability => true,
        AdvisoryKind::Unmaintained | AdvisoryKind::Notice => false,
    };
    let mut rows: Vec<Row> = set.advisories.into_iter().filter(refusing).map(row).collect();
    rows.sort_by(|a, b| a.advisory.id.cmp(&b.advisory.id));
    Table { snapshot: snapshot(directory), rows }
}

fn row(advisory: Advisory) -> Row {
    let written = |ranges: &[VersionReq]| ranges.iter().map(ToString::to_string).collect();
    Row { patched: written(&advisory.patched), unaffected: written(&advisory.unaffected), advisory }
}

/// Path below `crates/` and content, sorted.
fn files(crates: &Path) -> Vec<(String, Vec<u8>)> {
    let sorted = |directory: &Path| {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let packages = sorted(crates).into_iter().filter(|path| path.is_dir());
    packages
        .flat_map(|package| sorted(&package))
        .map(|path| {
            let below = path.strip_prefix(crates).unwrap().to_str().unwrap().to_owned();
            (below, std::fs::read(&path).unwrap())
        })
        .collect()
}

fn snapshot(directory: &Path) -> String {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "-C"])
        .arg(directory)
        .args(["log", "-1", "--format=%H of %cs"])
        .output()
        .unwrap();
    assert!(output.status.success(), "the checkout has to be git's, to say which commit it is");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
