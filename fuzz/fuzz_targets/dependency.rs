//! Any bytes for `mfaas_readers::dependency`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::dependency(input));
