//! One way to lay out the files of a crate: the module `foo` is `foo.rs`, what belongs to it lies in `foo/`, and its unit
//! tests are `foo/tests.rs` (`src/tests.rs` for the crate's own).

use std::collections::BTreeMap;

use mfaas_architecture::{modules::is_for_tests, read, tracked_files};
use syn::{Item, ItemMod};

/// Directories of crates with files named `mod.rs`, and with unit tests somewhere else than in `tests.rs`. The numbers
/// only fall: a crate that has none of both leaves the list.
const OTHERWISE: &[(&str, Found)] = &[
    ("api/cli", Found { mod_rs: 2, tests: 14 }),
    ("api/server", Found { mod_rs: 4, tests: 6 }),
    ("builder/pipeline", Found { mod_rs: 6, tests: 23 }),
    ("node-runtime/executor", Found { mod_rs: 0, tests: 2 }),
    ("node-runtime/node", Found { mod_rs: 4, tests: 2 }),
];

/// What of a crate lies otherwise.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Found {
    mod_rs: usize,
    tests: usize,
}

/// Programs as people write them, and inputs of tests, lie as they like.
fn ours(file: &str) -> bool {
    !["examples/", "tests/hostile/", "tests/benign/"].iter().any(|start| file.starts_with(start))
        && !file.contains("/fixtures/")
}

#[test]
fn modules_and_their_tests_lie_in_one_way() {
    let mut found: BTreeMap<String, (Found, Vec<String>)> = BTreeMap::new();
    for file in tracked_files().into_iter().filter(|file| file.ends_with(".rs") && ours(file)) {
        let Some((directory, _)) = file.split_once("/src/") else { continue };
        let of_file =
            Found { mod_rs: usize::from(file.ends_with("/mod.rs")), tests: tests_in(&file, &read(&file)) };
        let (sum, files) = found.entry(directory.to_owned()).or_default();
        sum.mod_rs += of_file.mod_rs;
        sum.tests += of_file.tests;
        files.extend((of_file != Found::default()).then_some(file));
    }
    for (directory, _) in OTHERWISE {
        assert!(found.contains_key(*directory), "there is no crate {directory}");
    }
    let wrong: Vec<String> =
        found.iter().filter_map(|(directory, (sum, files))| complaint(directory, *sum, files)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn complaint(directory: &str, found: Found, files: &[String]) -> Option<String> {
    let listed = OTHERWISE.iter().find(|(listed, _)| *listed == directory).map(|(_, listed)| *listed);
    let most = listed.unwrap_or_default();
    if found.mod_rs > most.mod_rs || found.tests > most.tests {
        return Some(format!("{directory} has {found:?}, at most {most:?}:\n  {}", files.join("\n  ")));
    }
    match listed {
        Some(_) if found == Found::default() => {
            Some(format!("{directory} lies as all do: take it from the list"))
        }
        Some(_) if found != most => Some(format!("{directory} has {found:?}, not {most:?}: lower the list")),
        _ => None,
    }
}

/// How many modules of tests are written out in the file, or lie in a file that another attribute names.
fn tests_in(file: &str, text: &str) -> usize {
    let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let is_elsewhere = |module: &ItemMod| {
        let is_moved = module.attrs.iter().any(|attribute| attribute.path().is_ident("path"));
        module.attrs.iter().any(is_for_tests) && (module.content.is_some() || is_moved)
    };
    parsed.items.iter().filter(|item| matches!(item, Item::Mod(module) if is_elsewhere(module))).count()
}

#[test]
fn tests_in_the_file_itself_or_under_another_name_count() {
    for text in [
        "#[cfg(test)] mod tests { #[test] fn it() {} }",
        "#[cfg(test)] mod other { }",
        "#[cfg(all(test, unix))] mod tests { }",
        "#[cfg(test)] #[path = \"other.rs\"] mod tests;",
    ] {
        assert_eq!(tests_in("a", text), 1, "{text}");
    }
    for text in ["#[cfg(test)] mod tests;", "mod inner { }", "#[cfg(unix)] mod inner { }"] {
        assert_eq!(tests_in("a", text), 0, "{text}");
    }
}
