//! Settings under the names that the release before had.

use mfaas_harness::builder;

/// How `serve` ends with these variables and with nothing else of what it needs.
fn served(variables: &[(&str, &str)]) -> String {
    let place = tempfile::tempdir().unwrap();
    let mut command = builder();
    command.arg("serve").envs(variables.iter().copied());
    for name in ["MFAAS_DATABASE_URL", "MFAAS_BLOBS_URL", "MFAAS_TOOLCHAIN_DIR", "MFAAS_DEPS_DIR"] {
        command.env(name, place.path().join("absent"));
    }
    let output = command.env("MFAAS_WORK_DIR", place.path()).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_least_sandbox_is_read_from_its_older_variable_with_a_warning() {
    const NOW_CALLED: &str = "MFAAS_CAGE_MINIMUM is now called MFAAS_SANDBOX_MINIMUM";
    let old = served(&[("MFAAS_CAGE_MINIMUM", "none")]);
    assert!(old.contains("expected full or landlock") && old.contains(NOW_CALLED), "{old}");
    let accepted = served(&[("MFAAS_CAGE_MINIMUM", "landlock")]);
    assert!(!accepted.contains("expected full or landlock") && accepted.contains(NOW_CALLED), "{accepted}");
    let new = served(&[("MFAAS_SANDBOX_MINIMUM", "none"), ("MFAAS_CAGE_MINIMUM", "full")]);
    assert!(new.contains("MFAAS_SANDBOX_MINIMUM") && !new.contains("MFAAS_CAGE_MINIMUM"), "{new}");
}
