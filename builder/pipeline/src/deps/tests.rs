#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::index::CrateKind;
use super::lockfile::{Lockfile, PackageKey};
use super::messages;

const LOCK: &str = r#"
version = 4

[[package]]
name = "a"
version = "1.0.0"
source = "registry+https://example.com/index"
checksum = "aa"
dependencies = ["b 2.0.0"]

[[package]]
name = "b"
version = "1.0.0"
source = "registry+https://example.com/index"
checksum = "b1"

[[package]]
name = "b"
version = "2.0.0"
source = "registry+https://example.com/index"
checksum = "b2"
dependencies = ["own"]

[[package]]
name = "own"
version = "0.1.0"
"#;

fn key(name: &str, version: &str) -> PackageKey {
    (name.parse().unwrap(), version.parse().unwrap())
}

#[test]
fn a_closure_follows_the_versions_that_the_lock_names() {
    let lock = Lockfile::parse(LOCK).unwrap();
    let closure: Vec<PackageKey> = lock.closure(&key("a", "1.0.0")).into_iter().collect();
    assert_eq!(closure, [key("b", "2.0.0"), key("own", "0.1.0")]);
    assert_eq!(lock.checksum(&key("b", "2.0.0")), Some("b2"));
    assert_eq!(lock.checksum(&key("own", "0.1.0")), None);
}

#[test]
fn a_package_without_a_reviewed_digest_is_refused() {
    let git = LOCK
        .replace("registry+https://example.com/index\"\nchecksum = \"aa\"", "git+https://example.com/a\"");
    assert!(Lockfile::parse(&git).is_err());
    assert!(Lockfile::parse(&LOCK.replace("checksum = \"b1\"\n", "")).is_err());
    assert!(Lockfile::parse(&LOCK.replace("version = 4", "version = 9")).is_err());
}

#[test]
fn only_what_is_made_for_functions_or_loaded_by_the_compiler_has_a_product() {
    let line = |id: &str, kind: &str, file: &str| {
        format!(
            "{{\"reason\":\"compiler-artifact\",\"package_id\":\"{id}\",\"features\":[\"std\"],\
             \"target\":{{\"name\":\"some-crate\",\"kind\":[\"{kind}\"]}},\"filenames\":[\"{file}\"]}}\n"
        )
    };
    let registry = "registry+https://example.com/index#some-crate@1.2.3";
    let text = [
        line(registry, "lib", "/out/target/triple/release/deps/libsome_crate-1.rlib"),
        line(registry, "lib", "/out/target/release/deps/libsome_crate-2.rlib"),
        line("path+file:///seed/local/own#0.1.0", "proc-macro", "/out/target/release/deps/libown-3.so"),
        line(registry, "custom-build", "/out/target/release/build/some-crate/build-script-build"),
        "{\"reason\":\"build-finished\",\"success\":true}\n".to_owned(),
    ]
    .concat();
    let compiled = messages::parse(text.as_bytes(), "triple").unwrap().compiled;
    let kinds: Vec<Option<CrateKind>> =
        compiled.iter().map(|unit| unit.product.as_ref().map(|(kind, _)| *kind)).collect();
    assert_eq!(kinds, [Some(CrateKind::Library), None, Some(CrateKind::ProcMacro), None]);
    assert_eq!(compiled[0].package, key("some-crate", "1.2.3"));
    assert_eq!(compiled[2].package, key("own", "0.1.0"));
    assert_eq!(compiled[0].extern_name, "some_crate");
}
