//! The host's services as safe functions: the only way out of a function.

use mfaas_abi::Level;

#[cfg(feature = "hosted")]
use bound as service;
#[cfg(not(feature = "hosted"))]
use local as service;

/// Logs one line. The host cuts long lines and drops what is over the limit of a call.
pub fn log(level: Level, text: &str) {
    service::log(level, text);
}

/// Nanoseconds since the Unix epoch.
pub fn now() -> u64 {
    service::now()
}

/// Fills `into` with random bytes that are fit for keys.
pub fn random(into: &mut [u8]) {
    service::random(into);
}

/// Ends the invocation as panicked.
#[cfg(feature = "hosted")]
pub(crate) fn panicked(text: &[u8]) -> ! {
    service::panicked(text)
}

/// Ends the invocation as out of memory.
pub(crate) fn out_of_memory(bytes: usize) -> ! {
    service::out_of_memory(bytes)
}

/// The host's symbols, which every artifact imports.
#[cfg(feature = "hosted")]
mod bound {
    use mfaas_abi::Level;

    // The names of `mfaas_abi::symbols::HOST`.
    unsafe extern "C" {
        fn mfaas_host_log(level: u32, text: *const u8, bytes: usize);
        safe fn mfaas_host_now() -> u64;
        fn mfaas_host_random(into: *mut u8, bytes: usize);
        fn mfaas_host_panic(text: *const u8, bytes: usize) -> !;
        safe fn mfaas_host_oom(bytes: usize) -> !;
    }

    pub(super) fn log(level: Level, text: &str) {
        // SAFETY: INV-SHIM-1. The host copies from a slice that we hold.
        unsafe { mfaas_host_log(level as u32, text.as_ptr(), text.len()) }
    }

    pub(super) fn now() -> u64 {
        mfaas_host_now()
    }

    pub(super) fn random(into: &mut [u8]) {
        // SAFETY: INV-SHIM-1. The host fills a slice that we hold.
        unsafe { mfaas_host_random(into.as_mut_ptr(), into.len()) }
    }

    pub(super) fn panicked(text: &[u8]) -> ! {
        // SAFETY: INV-SHIM-1. The host copies from a slice that we hold and never comes back.
        unsafe { mfaas_host_panic(text.as_ptr(), text.len()) }
    }

    pub(super) fn out_of_memory(bytes: usize) -> ! {
        mfaas_host_oom(bytes)
    }
}

/// Stand-ins for a developer's own `cargo test`; never part of an artifact.
#[cfg(not(feature = "hosted"))]
mod local {
    use std::hash::{BuildHasher as _, RandomState};
    use std::io::Write as _;
    use std::time::{SystemTime, UNIX_EPOCH};

    use mfaas_abi::Level;

    pub(super) fn log(level: Level, text: &str) {
        // A closed standard error is no reason to fail a developer's test.
        let _ = writeln!(std::io::stderr(), "[{}] {text}", level.name());
    }

    pub(super) fn now() -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn random(into: &mut [u8]) {
        for (index, chunk) in into.chunks_mut(8).enumerate() {
            let word = RandomState::new().hash_one(index).to_ne_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    pub(super) fn out_of_memory(bytes: usize) -> ! {
        panic!("the arena has no room for {bytes} bytes")
    }
}
