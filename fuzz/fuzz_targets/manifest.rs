//! Any bytes for `mfaas_readers::manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::manifest(input));
