//! Any bytes for `mfaas_readers::expansion`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::expansion(input));
