#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{SOURCES, abi_version};

/// A source file that is added to one of the three crates must be added to the bundle, or the
/// builder compiles something else than the workspace does.
#[test]
fn the_bundle_holds_every_source_file_of_its_crates() {
    let runtime = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../node-runtime");
    let mut found = Vec::new();
    for part in ["abi", "sdk", "shim"] {
        collect(&runtime, &format!("{part}/src"), &mut found);
    }
    found.sort();
    let bundled: Vec<String> = SOURCES.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(found, bundled);
}

fn collect(root: &std::path::Path, relative: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(relative)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{relative}/{name}");
        if entry.file_type().unwrap().is_dir() {
            if name != "tests" {
                collect(root, &path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_bundle_names_its_abi_version() {
    assert_eq!(abi_version().unwrap(), 2);
}
