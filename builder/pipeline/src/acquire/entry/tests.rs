#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::{CrateName, Digest};
use mfaas_rules::limits::INDEX_ENTRY;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::entry;

fn line_of(rest: &str) -> Result<Value, String> {
    let manifest = format!("[package]\nname = \"left-pad\"\nversion = \"1.2.3\"\n{rest}");
    let name = CrateName::parse("left-pad").unwrap();
    entry(manifest.as_bytes(), &name, &semver::Version::new(1, 2, 3), &Digest::of(b"crate"))
}

fn line(rest: &str) -> Value {
    line_of(rest).unwrap()
}

#[test]
fn a_crate_without_anything_is_a_line() {
    assert_eq!(
        line("links = \"pad\"\nrust-version = \"1.60\"\n"),
        json!({
            "name": "left-pad", "vers": "1.2.3", "v": 1, "deps": [], "cksum": Digest::of(b"crate"),
            "features": {}, "yanked": false, "links": "pad", "rust_version": "1.60",
        })
    );
}

#[test]
fn dependencies_are_listed_with_everything_that_a_resolution_needs() {
    let found = line(
        "[dependencies]\nplain = \"1.2\"\n\
         [dependencies.alias]\npackage = \"real_name\"\nversion = \"=0.3.1\"\noptional = true\n\
         default-features = false\nfeatures = [\"std\"]\n\
         [build-dependencies]\ncc = \"1\"\n[dev-dependencies]\nproptest = \"1\"\n\
         [target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n",
    );
    let deps = found["deps"].as_array().unwrap();
    let names: Vec<&str> = deps.iter().map(|dep| dep["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["alias", "plain", "cc", "libc"]);
    assert_eq!(
        deps[0],
        json!({
            "name": "alias", "req": "=0.3.1", "features": ["std"], "optional": true, "default_features": false,
            "target": null, "kind": "normal", "registry": null, "package": "real_name",
        })
    );
    assert_eq!((&deps[1]["req"], &deps[1]["default_features"]), (&json!("^1.2"), &json!(true)));
    assert_eq!((&deps[2]["kind"], &deps[3]["target"]), (&json!("build"), &json!("cfg(unix)")));
}

#[test]
fn features_that_older_cargos_do_not_read_stand_apart() {
    let found = line(
        "[features]\ndefault = [\"std\"]\nstd = [\"a/std\"]\nextra = [\"dep:b\", \"a?/x\"]\n\
         [dependencies]\na = { version = \"1\", optional = true }\nb = { version = \"1\", optional = true }\n",
    );
    assert_eq!(found["v"], 2);
    assert_eq!(found["features"], json!({"default": ["std"], "std": ["a/std"]}));
    assert_eq!(found["features2"], json!({"extra": ["dep:b", "a?/x"]}));
}

/// Nobody decides about what another platform alone needs, so no line may ask for it.
#[test]
fn what_other_platforms_need_is_left_out_with_all_that_names_it() {
    let found = line(
        "[features]\nall = [\"dep:winapi\", \"win/full\", \"schannel\", \"log\", \"tester/x\"]\n\
         [dependencies]\nlog = { version = \"0.4\", optional = true }\n\
         [target.'cfg(windows)'.dependencies]\nwin = \"1\"\nwinapi = { version = \"0.3\", optional = true }\n\
         schannel = { version = \"0.1\", optional = true }\n\
         [target.'cfg(any())'.dependencies]\nnever = \"1\"\n\
         [target.x86_64-pc-windows-msvc.dependencies]\nother = \"1\"\n\
         [target.x86_64-unknown-linux-gnu.dependencies]\nours = \"1\"\n\
         [dev-dependencies]\ntester = \"1\"\n",
    );
    let deps: Vec<&str> =
        found["deps"].as_array().unwrap().iter().map(|dep| dep["name"].as_str().unwrap()).collect();
    assert_eq!(deps, ["log", "ours"]);
    assert_eq!(found["features"], json!({"all": ["log"], "schannel": []}));
}

#[test]
fn what_is_uncertain_makes_no_line() {
    let long = format!("[features]\n\"{}\" = []\n", "f".repeat(INDEX_ENTRY.word_bytes_max + 1));
    let many: String =
        (0..=INDEX_ENTRY.dependencies_max).map(|number| format!("d{number} = \"1\"\n")).collect();
    let words = vec!["\"x\""; INDEX_ENTRY.feature_words_max].join(",");
    for bad in [
        "[dependencies]\na = { version = \"1\", registry-index = \"https://example.com\" }\n",
        "[dependencies]\na = \"one\"\n",
        "[dependencies]\n\"../a\" = \"1\"\n",
        "[dependencies]\na = { version = \"1\", package = \"a b\" }\n",
        "[target.'cfg(broken'.dependencies]\na = \"1\"\n",
        "[features]\n\"a\\u202eb\" = []\n",
        "[features]\na = [\"b c\"]\n",
        "links = \"a\\nb\"\n",
        "rust-version = \"1.x\"\n",
        "[dependencies]\na = 1\n",
        &long,
        &format!("[dependencies]\n{many}"),
        &format!("[features]\nx = [{words}]\n"),
        &format!("# {}", "x".repeat(INDEX_ENTRY.manifest_bytes_max)),
    ] {
        let error = line_of(bad).unwrap_err();
        assert!(error.len() <= 400 && !error.contains(['\n', '\u{202e}']), "{error:?}");
    }
    let name = CrateName::parse("left-pad").unwrap();
    let other = b"[package]\nname = \"right-pad\"\nversion = \"1.2.3\"\n";
    assert!(entry(other, &name, &semver::Version::new(1, 2, 3), &Digest::of(b"")).is_err());
    assert!(entry(b"\xff", &name, &semver::Version::new(1, 2, 3), &Digest::of(b"")).is_err());
}

proptest! {
    /// Whatever a manifest holds, there is a bounded line or a bounded reason.
    #[test]
    fn any_manifest_ends_in_a_line_or_a_reason(rest in "(\\[(dependencies|features|target\\.[a-z'()]{0,12}\\.dependencies)\\]\n|[a-z]{1,4} = (\"\\PC{0,8}\"|\\[\"\\PC{0,6}\"\\])\n|\\PC{0,10}\n){0,12}") {
        match line_of(&rest) {
            Ok(line) => prop_assert!(line.to_string().len() <= INDEX_ENTRY.line_bytes_max),
            Err(reason) => prop_assert!(reason.len() <= 400),
        }
    }
}
