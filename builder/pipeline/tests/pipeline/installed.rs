//! Toolchain and dependency cache of the tests, once for all of them.

use std::sync::OnceLock;

use mfaas_harness::Installed;

/// The first use takes a minute on a cold machine.
pub fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(Installed::make)
}
