#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::{Access, Budget, Class, FunctionName, HandlerPath, Isolation, MemoryLimit};
use mfaas_unpack::SourceTree;

use super::{manifest, write_package};

#[test]
fn the_package_passes_the_first_gate_of_a_deploy_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let name = FunctionName::parse("hello").unwrap();
    write_package(dir.path(), &name).unwrap();
    let tree = SourceTree::from_dir(dir.path()).unwrap();
    assert!(tree.pack().unwrap().unpack().is_ok());
    assert!(tree.get("src/lib.rs").is_some());
    assert!(write_package(dir.path(), &name).is_err());
}

#[test]
fn the_manifest_says_the_defaults() {
    let name = FunctionName::parse("hello").unwrap();
    let document: toml::Table = manifest(&name).parse().unwrap();
    let settings = &document["package"]["metadata"]["mfaas"];
    assert!(HandlerPath::parse(settings["handler"].as_str().unwrap()).is_ok());
    assert_eq!(Budget::parse(settings["budget"].as_str().unwrap()).unwrap(), Budget::DEFAULT);
    assert_eq!(MemoryLimit::parse(settings["memory"].as_str().unwrap()).unwrap(), MemoryLimit::DEFAULT);
    assert_eq!(Isolation::parse(settings["isolation"].as_str().unwrap()).unwrap(), Isolation::default());
    assert_eq!(Class::parse(settings["class"].as_str().unwrap()).unwrap(), Class::default());
    assert_eq!(settings["idempotent"].as_bool(), Some(false));
    assert_eq!(Access::parse(settings["access"].as_str().unwrap()).unwrap(), Access::default());
}
