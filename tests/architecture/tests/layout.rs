//! One way to lay out the files of a crate: the module `foo` is `foo.rs`, what belongs to it lies in `foo/`, and its unit
//! tests are `foo/tests.rs` (`src/tests.rs` for the crate's own).

use mfaas_architecture::{modules::is_for_tests, read, tracked_files};
use syn::{Item, ItemMod};

/// Programs as people write them, and inputs of tests, lie as they like.
fn ours(file: &str) -> bool {
    !["examples/", "tests/hostile/", "tests/benign/"].iter().any(|start| file.starts_with(start))
        && !file.contains("/fixtures/")
}

#[test]
fn modules_and_their_tests_lie_in_one_way() {
    let mut wrong = Vec::new();
    for file in tracked_files().into_iter().filter(|file| file.ends_with(".rs") && ours(file)) {
        let Some((directory, _)) = file.split_once("/src/") else { continue };
        if file.ends_with("/mod.rs") {
            wrong.push(format!("{file}: the module lies beside its directory, under the same name"));
        }
        if tests_in(&file, &read(&file)) > 0 {
            wrong.push(format!(
                "{file}: its unit tests lie in tests.rs of {directory} or of the module's directory"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
