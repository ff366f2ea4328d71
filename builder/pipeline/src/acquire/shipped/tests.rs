#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::path::Path;

use mfaas_catalog::ShippedFacts;
use mfaas_rules::crate_facts::{CompilerVerdict, FACTS_REVISION};

use crate::acquire::resolve::Workspace;
use crate::deps::{OwnSources, write_own};

const STALE: &str = "builder/toolchain/seed-facts.json is stale. Write it anew: `mfaas-builder deps facts \
                     --seed builder/toolchain/seed > facts.json`, and put facts.json in its place";

#[test]
fn every_source_that_ships_has_a_row_of_facts_and_none_is_of_another() {
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolchain/seed");
    let base = Workspace::of_seed(&seed).unwrap();
    let mut expected = BTreeMap::new();
    for key in base.lock().keys() {
        if let Some(checksum) = base.lock().checksum(key) {
            expected.insert(checksum.to_owned(), key.clone());
        }
    }
    let scratch = tempfile::tempdir().unwrap();
    let OwnSources { name, version, digest, .. } = write_own(scratch.path()).unwrap();
    expected.insert(digest.to_string(), (name, version));
    let table = ShippedFacts::of_release();
    let crates = table.crates.iter();
    let found: BTreeMap<_, _> =
        crates.map(|(checksum, row)| (checksum.clone(), (row.name.clone(), row.version.clone()))).collect();
    assert!(found == expected && table.revision == FACTS_REVISION, "{STALE}");
    // A table that was written where the compiler could not be asked says little.
    let is_asked = |verdict: &CompilerVerdict| !matches!(verdict, CompilerVerdict::NotRun { .. });
    let asked = table.crates.values().filter(|row| is_asked(&row.facts.compiler)).count();
    assert!(asked > expected.len() / 2, "{STALE}");
}
