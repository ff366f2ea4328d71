#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn a_program_that_is_not_there_is_said_how_to_build() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("mfaas");
    let Err(Failure::Local(why)) = beside(&own, "mfaas-bench-node") else { panic!("nothing is there") };
    assert!(why.contains("mfaas-bench-node is not beside") && why.contains(BUILD), "{why}");
    std::fs::write(directory.path().join("mfaas-bench-node"), "").unwrap();
    assert_eq!(beside(&own, "mfaas-bench-node").unwrap(), directory.path().join("mfaas-bench-node"));
}
