//! Toolchain and dependency cache of the tests, once for all of them.

use std::sync::OnceLock;

use mfaas_harness::Installed;

/// The first use takes a minute on a cold machine. Cargo builds the builder for these tests;
/// `mfaas-worker` and `mfaas-rewriter` belong beside it.
pub fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(|| Installed::make(&["mfaas-worker", "mfaas-rewriter"]))
}
