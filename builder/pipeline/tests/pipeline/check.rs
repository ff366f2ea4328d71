//! `check`: one package for each way to end.

use std::path::Path;

use mfaas_harness::{SmallDisk, builder};

use crate::installed::installed;
use crate::package::{Package, check};

#[test]
fn the_examples_pass_every_stage() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for example in ["hello", "markdown", "json-summary", "gzip", "image-augmentation"] {
        let checked = check(&examples.join(example));
        assert_eq!(checked.verdict(), (0, "load".to_owned(), vec![]), "{example}: {}", checked.report);
    }
}

/// The source has a dependency with macros and a panic with a place in it: everything that could
/// carry a path.
#[test]
fn two_builds_of_one_source_are_the_same_bytes() {
    let source = "#[derive(serde::Serialize)] struct Answer { n: usize }\n\
                  pub fn handle(request: &[u8]) -> Vec<u8> {\n\
                      assert!(request.len() < 100, \"too long\");\n\
                      serde_json::to_vec(&Answer { n: request.len() }).unwrap_or_default()\n\
                  }\n";
    let dependencies =
        "[dependencies]\nserde = { version = \"1\", features = [\"derive\"] }\nserde_json = \"1\"\n";
    let make = || Package::new(source).manifest(dependencies);
    let (first, second) = (make(), make());
    assert_ne!(first.path(), second.path());
    let digest = first.check().digest().to_owned();
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert_eq!(second.check().digest(), digest);
}

#[test]
fn a_type_error_is_reported_as_the_compiler_prints_it() {
    let checked = Package::new("pub fn handle(request: &[u8]) -> Vec<u8> {\n    request.len()\n}\n").check();
    assert_eq!(checked.verdict(), (5, "compile".to_owned(), vec!["MF0401".to_owned()]));
    let error = checked.errors()[0];
    assert_eq!((&error["span"]["file"], &error["span"]["line"]), (&"src/lib.rs".into(), &2.into()));
    let rendered = error["rendered"].as_str().unwrap();
    assert!(rendered.starts_with("error[E0308]: mismatched types\n --> src/lib.rs:2:5\n"), "{rendered}");
}

#[test]
fn a_crate_without_a_decision_waits() {
    let checked = Package::new("pub fn handle(request: &[u8]) -> Vec<u8> { request.to_vec() }\n")
        .manifest("[dependencies]\nrand = \"0.9\"\n")
        .check();
    assert_eq!(checked.verdict(), (6, "dependencies".to_owned(), vec!["MF0204".to_owned()]));
    assert_eq!(checked.errors()[0]["span"]["file"], "Cargo.toml");
}

#[test]
fn a_trusting_macro_of_an_offered_crate_is_seen_in_the_expansion() {
    let source = "pub fn handle(request: &[u8]) -> Vec<u8> {\n    let at = request.as_ptr();\n    \
                  vec![careless::evaluate!(*at)]\n}\n";
    let checked = Package::new(source).manifest("[dependencies]\ncareless = \"0.1\"\n").check();
    assert_eq!(checked.verdict(), (3, "expand".to_owned(), vec!["MF0308".to_owned()]));
}

/// One trait object with two answers to "what is `Out`": the blanket impl's inside of `hand`, its
/// own outside. Two numbers become a slice without the word `unsafe`.
#[test]
fn the_next_trait_solver_has_to_agree() {
    // The blanket impl is a dependency's, so no lint over the tenant's source sees the shape.
    let source = "use careless::Carry;
        fn hand<T: ?Sized>(x: <T as Carry>::Out) -> &'static [u8] { x }
        fn change(x: (usize, usize)) -> &'static [u8] { hand::<dyn Carry<Out = (usize, usize)>>(x) }
        pub fn handle(request: &[u8]) -> Vec<u8> { change((request.len(), 1)).to_vec() }\n";
    let checked = Package::new(source).manifest("[dependencies]\ncareless = \"0.1\"\n").check();
    let (exit, stage, _) = checked.verdict();
    assert_eq!((exit, stage.as_str()), (5, "compile"), "{}", checked.report);
    assert_eq!(checked.errors()[0]["layer"], "soundness", "{}", checked.report);
    assert!(
        checked.errors()[0]["message"].as_str().unwrap().contains("next trait solver"),
        "{}",
        checked.report
    );
}

#[test]
fn a_missing_symbol_names_the_part_of_std_behind_it() {
    let source = "pub fn handle(_: &[u8]) -> Vec<u8> {\n    \
                  careless::number_of_this_process().to_string().into_bytes()\n}\n";
    let checked = Package::new(source).manifest("[dependencies]\ncareless = \"0.1\"\n").check();
    assert_eq!(checked.verdict(), (3, "link".to_owned(), vec!["MF0407".to_owned()]));
    let message = checked.errors()[0]["message"].as_str().unwrap();
    assert!(message.contains("`getpid`") && message.contains("`std::process::id`"), "{message}");
}

#[test]
fn a_handler_that_does_not_fit_points_at_the_manifest() {
    let named = "[package.metadata.mfaas]\nhandler = \"api::answer\"\n";
    for (source, phrase) in [
        ("pub mod api { pub fn answer(a: u32) -> u32 { a } }\n", "is not a handler"),
        ("pub mod api {}\n", "cannot find"),
        ("mod api { pub fn answer(r: &[u8]) -> Vec<u8> { r.to_vec() } }\n", "private"),
    ] {
        let checked = Package::new(source).manifest(named).check();
        let (exit, stage, codes) = checked.verdict();
        assert_eq!((exit, stage.as_str()), (5, "link"), "{source}");
        assert!(codes.iter().all(|code| code == "MF0408"), "{codes:?}");
        let error = checked.errors()[0];
        assert!(error["message"].as_str().unwrap().contains(phrase), "{error}");
        assert_eq!((&error["span"]["file"], &error["span"]["line"]), (&"Cargo.toml".into(), &6.into()));
    }
}

#[test]
fn what_would_take_for_ever_is_ended_by_a_named_limit() {
    let endless = "const N: u64 = { let mut n = 0; loop { n += 1; if n == u64::MAX { break n } } };\n\
                   pub fn handle(_: &[u8]) -> Vec<u8> { N.to_le_bytes().to_vec() }\n";
    let checked = Package::new(endless).check();
    let (exit, stage, codes) = checked.verdict();
    assert_eq!((exit, stage.as_str()), (5, "compile"), "{}", checked.report);
    assert!(codes.iter().all(|code| code == "MF0401"), "{codes:?}");
    let named = "the compiler stopped at its own limit `long_running_const_eval` (2,000,000 steps)";
    assert!(checked.errors().iter().any(|error| error["message"] == named), "{}", checked.report);
    let huge = "static HUGE: [u8; 1 << 30] = { let mut a = [0; 1 << 30]; a[1] = 1; a };\n\
                pub fn handle(r: &[u8]) -> Vec<u8> { vec![HUGE[r.len()]] }\n";
    let checked = Package::new(huge).check();
    let (exit, stage, codes) = checked.verdict();
    assert_eq!((exit, stage.as_str()), (5, "compile"), "{}", checked.report);
    assert!(["MF0404", "MF0405"].contains(&codes[0].as_str()), "{codes:?}");
    let first = checked.errors()[0]["message"].as_str().unwrap();
    assert!(
        first.contains("`memory_bytes_max` (2 GiB)") || first.contains("`file_bytes_max` (256 MiB)"),
        "{first}"
    );
}

#[test]
fn without_a_toolchain_the_check_lists_what_it_skipped() {
    let package = Package::new("pub fn handle(request: &[u8]) -> Vec<u8> { request.to_vec() }\n");
    let nowhere = tempfile::tempdir().unwrap();
    let empty =
        builder().args(["check", "--json"]).arg(package.path()).env("HOME", nowhere.path()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&empty.stdout).unwrap();
    if Path::new("/var/lib/mfaas/deps").exists() {
        // A machine where `mfaas up` runs as root has a toolchain to offer.
        assert_eq!(report["outcome"], "passed");
        return;
    }
    assert_eq!((empty.status.code(), &report["outcome"]), (Some(1), &"incomplete".into()));
    assert_eq!(report["skipped"].as_array().unwrap().len(), 6);
}

/// What the compiler does not finish on a full disk says nothing about the source.
#[test]
fn a_full_disk_is_no_refusal() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path(), 32 << 10) else { return };
    let package = Package::new("pub fn handle(request: &[u8]) -> Vec<u8> { request.to_vec() }\n");
    let check = || {
        let mut command = installed().builder();
        command.args(["check", "--json"]).arg(package.path()).env("TMPDIR", directory.path());
        command.output().unwrap()
    };
    let output = check();
    let stderr =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the scratch directory") && !stderr.contains("MF04"), "{stderr}");
    disk.resize(1 << 30);
    assert!(check().status.success());
}
