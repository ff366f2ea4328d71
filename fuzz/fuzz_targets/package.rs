//! Any bytes for `mfaas_readers::package`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::package(input));
