//! The real cargo, on disks with room and without.

#![allow(clippy::unwrap_used, reason = "tests")]

use mfaas_harness::SmallDisk;

use super::*;

/// A disk on which a failure says something about crates.
const ROOMY: u64 = 2 * RESOLVE.free_bytes_min;
/// What cargo is asked here; it needs no registry.
const METADATA: [&str; 3] = ["metadata", "--format-version=1", "--offline"];

fn cargo(root: &Path) -> Cargo {
    let (home, scratch) = (root.join("home"), root.join("scratch"));
    for directory in [&home, &scratch] {
        std::fs::create_dir(directory).unwrap();
    }
    // Those that compile this test.
    let program = PathBuf::from(env!("CARGO"));
    let rustc = program.with_file_name("rustc");
    Cargo { program, rustc, home, scratch, config: None }
}

fn package(directory: &Path, dependencies: &str) {
    let manifest = format!(
        "[package]\nname = \"sample\"\nversion = \"0.1.0\"\n[workspace]\n[dependencies]\n{dependencies}"
    );
    std::fs::create_dir(directory.join("src")).unwrap();
    std::fs::write(directory.join("src/lib.rs"), "").unwrap();
    std::fs::write(directory.join("Cargo.toml"), manifest).unwrap();
}

/// Once the disk is cleared, the same run succeeds: what failed was no crate.
#[test]
fn a_full_disk_under_cargo_is_no_verdict_about_crates() {
    let root = tempfile::tempdir().unwrap();
    let cargo = cargo(root.path());
    let Some(disk) = SmallDisk::mount(&cargo.scratch, ROOMY) else { return };
    let workspace = cargo.scratch().unwrap();
    package(workspace.path(), "");
    disk.fill();
    let error = cargo.run(workspace.path(), &METADATA).unwrap_err();
    assert!(error.is_of_the_machine(), "{error}");
    assert!(matches!(&error, BuilderError::Scratch { path, .. } if *path == cargo.scratch), "{error}");
    disk.clear();
    assert!(cargo.run(workspace.path(), &METADATA).unwrap().contains("sample"));
}

/// Where cargo keeps what it downloads is probed as well; with room, the same failure is about the crates.
#[test]
fn a_failure_beside_a_full_home_is_asked_again_later() {
    let root = tempfile::tempdir().unwrap();
    let cargo = cargo(root.path());
    let Some(disk) = SmallDisk::mount(&cargo.home, ROOMY) else { return };
    let workspace = cargo.scratch().unwrap();
    package(workspace.path(), "other = { path = \"../nowhere\" }\n");
    disk.fill();
    let error = cargo.run(workspace.path(), &METADATA).unwrap_err();
    assert!(matches!(&error, BuilderError::Scratch { path, .. } if *path == cargo.home), "{error}");
    disk.clear();
    let error = cargo.run(workspace.path(), &METADATA).unwrap_err();
    assert!(matches!(error, BuilderError::Acquire(AcquireError::Other { .. })), "{error}");
}
