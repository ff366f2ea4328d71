//! Starts the real programs for tests: a whole installation in a home of its own, on free ports,
//! with its own database, sandbox, signer, node and workers.
//!
//! Nothing is replaced by a double. What costs minutes and cannot change between tests (the
//! toolchain's copy, the vendored sources, the built dependencies) is made once for a target
//! directory and linked into each home.

mod answer;
mod archive;
mod browser;
mod installed;
mod invariants;
mod package;
mod review;
mod seed;
mod small_disk;
mod stack;

pub use answer::{Answer, Run};
pub use archive::{Archive, pack_directory};
pub use browser::{browse, demand_browser, pictures};
pub use installed::{Installed, builder, worker};
pub use package::{Package, package};
pub use small_disk::SmallDisk;
pub use stack::{Program, Stack, wait_for};

use std::path::{Path, PathBuf};

/// The root of the checkout.
pub fn checkout() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// The directory that holds the programs of this build, all of them there.
///
/// # Panics
/// When the test's own executable does not lie in a cargo target directory.
pub fn programs() -> PathBuf {
    let directory = profile_directory();
    assert!(
        directory.join("mfaas").is_file(),
        "{} holds no programs: run `cargo build --workspace` first",
        directory.display()
    );
    directory
}

/// `target/debug` or `target/release`, whichever the running test or program belongs to.
fn profile_directory() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_else(|error| panic!("own executable: {error}"));
    // target/debug/deps/test-0123 is a test, target/release/examples/million an example, target/release/mfaas-stress a program.
    let directory = own.parent().unwrap_or(&own);
    let is_below = directory.file_name().is_some_and(|name| name == "deps" || name == "examples");
    if is_below { directory.parent().unwrap_or(directory).to_path_buf() } else { directory.to_path_buf() }
}
