#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;

use super::*;

fn package(name: &str, calls: &[&str]) -> (tempfile::TempDir, Package) {
    let directory = tempfile::tempdir().unwrap();
    let mut manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    for callee in calls {
        manifest += &format!("[package.metadata.mfaas.bindings.{callee}]\nkind = \"function\"\n");
    }
    fs::create_dir(directory.path().join("src")).unwrap();
    fs::write(directory.path().join("Cargo.toml"), manifest).unwrap();
    fs::write(directory.path().join("src/lib.rs"), "pub fn handle(_: &[u8]) -> Vec<u8> { vec![] }").unwrap();
    let package = Package::at(directory.path(), None).unwrap();
    (directory, package)
}

fn names_in_order(made: &[(&str, &[&str])]) -> Vec<String> {
    let (_kept, packages): (Vec<_>, Vec<_>) = made.iter().map(|(name, calls)| package(name, calls)).unzip();
    in_order(&packages).into_iter().map(|index| packages[index].name.to_string()).collect()
}

#[test]
fn what_is_called_is_deployed_first() {
    let chain: &[(&str, &[&str])] = &[("a", &["b", "elsewhere"]), ("d", &[]), ("b", &["c"]), ("c", &[])];
    assert_eq!(names_in_order(chain), ["d", "c", "b", "a"]);
    let circle: &[(&str, &[&str])] = &[("a", &["b"]), ("b", &["a"]), ("c", &[])];
    assert_eq!(names_in_order(circle), ["c", "a", "b"], "a circle keeps nothing else from being deployed");
}

#[test]
fn a_package_changes_with_its_files_alone() {
    let screen = Screen::new(false, true, false);
    let (directory, mut package) = package("a", &["b"]);
    let bindings = package.changed_bindings(&screen).unwrap();
    assert_eq!(bindings.len(), 1);
    let lib = directory.path().join("src/lib.rs");
    fs::write(&lib, fs::read(&lib).unwrap()).unwrap();
    assert_eq!(package.changed_bindings(&screen), None, "saved without a change");
    package.forget_upload();
    assert!(package.changed_bindings(&screen).is_some(), "its deployment is tried again");

    std::os::unix::fs::symlink("lib.rs", directory.path().join("src/link.rs")).unwrap();
    assert!(package.changed_bindings(&screen).is_some(), "to be told that it is no upload");
    assert_eq!(package.changed_bindings(&screen), None, "once");
    fs::remove_file(directory.path().join("src/link.rs")).unwrap();
    assert!(package.changed_bindings(&screen).is_some());
}

#[test]
fn two_packages_of_one_name_are_no_choice_of_ours() {
    let (_a, first) = package("a", &[]);
    let (_b, second) = package("a", &[]);
    let (_c, third) = package("c", &[]);
    assert!(demand_one_of_each(&[first, third]).is_ok());
    let (_d, first) = package("a", &[]);
    let error = demand_one_of_each(&[first, second]).unwrap_err();
    assert_eq!(error.to_string(), "two of the packages are called a");
}
