#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;

use mfaas_rules::profiles::std_items::Capability;

use super::{Grant, extend_seed};
use crate::acquire::manifest::parse_request;
use crate::deps::Seed;

const HEAD: &str = "version = 4\n\n[[package]]\nname = \"mfaas-seed\"\nversion = \"0.1.0\"\n";

fn package(name: &str, version: &str) -> String {
    format!(
        "\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"registry+https://example.com/index\"\nchecksum = \"aa\"\n"
    )
}

fn seed(root: &Path) {
    let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
    write("Cargo.toml", "[package]\nname = \"mfaas-seed\"\nversion = \"0.1.0\"\n[dependencies]\na = \"1\"\n");
    write("Cargo.lock", &format!("{HEAD}dependencies = [\"a\"]\n{}", package("a", "1.4.0")));
    write(
        "capabilities.toml",
        "[[grant]]\ncrate = \"a\"\ncapabilities = [\"abort\"]\nreason = \"it does\"\n",
    );
}

fn grants(name: &str) -> Vec<Grant> {
    let capabilities = vec![Capability::MachineCode];
    vec![Grant { name: name.parse().unwrap(), capabilities, reason: "it \"searches\"".to_owned() }]
}

#[test]
fn an_extended_seed_is_a_seed_with_both_versions_and_all_grants() {
    let directory = tempfile::tempdir().unwrap();
    seed(directory.path());
    let lock = format!(
        "{HEAD}dependencies = [\"a 0.9.1\", \"a 1.4.0\", \"b\"]\n{}{}{}",
        package("a", "0.9.1"),
        package("a", "1.4.0"),
        package("b", "2.0.0")
    );
    let approved = ["a@0.9.1", "b@2.0.0"].map(|text| parse_request(text, Vec::new(), true).unwrap());
    let into = directory.path().join("next");
    let made = extend_seed(directory.path(), &approved, &lock, &grants("b"), &into).unwrap();
    let read = Seed::read(&made).unwrap();
    let direct: Vec<String> = read.direct.iter().map(|(name, version)| format!("{name} {version}")).collect();
    assert_eq!(direct, ["a 0.9.1", "a 1.4.0", "b 2.0.0"]);
    assert_eq!(read.grants.of(&"b".parse().unwrap()), [Capability::MachineCode]);
    assert_eq!(read.grants.of(&"a".parse().unwrap()), [Capability::Abort]);
    let anew = directory.path().join("anew");
    let made = extend_seed(directory.path(), &approved, &lock, &grants("a"), &anew).unwrap();
    let granted = Seed::read(&made).unwrap().grants;
    assert_eq!(
        granted.of(&"a".parse().unwrap()),
        [Capability::MachineCode],
        "in place of what the seed grants"
    );
}

#[test]
fn what_is_not_in_the_resolution_is_not_offered() {
    let directory = tempfile::tempdir().unwrap();
    seed(directory.path());
    let lock = std::fs::read_to_string(directory.path().join("Cargo.lock")).unwrap();
    let approved = [parse_request("b@2.0.0", Vec::new(), true).unwrap()];
    assert!(extend_seed(directory.path(), &approved, &lock, &[], &directory.path().join("next")).is_err());
}

/// A version that only comes along is nobody's to name.
#[test]
fn only_what_the_seed_itself_names_is_offered() {
    let directory = tempfile::tempdir().unwrap();
    seed(directory.path());
    let lock = format!(
        "{HEAD}dependencies = [\"a 1.4.0\"]\n{}{}",
        package("a", "0.9.1"),
        package("a", "1.4.0") + "dependencies = [\"a 0.9.1\"]\n"
    );
    std::fs::write(directory.path().join("Cargo.lock"), lock).unwrap();
    let direct = Seed::read(directory.path()).unwrap().direct;
    assert_eq!(direct.into_iter().map(|(_, version)| version.to_string()).collect::<Vec<_>>(), ["1.4.0"]);
}
