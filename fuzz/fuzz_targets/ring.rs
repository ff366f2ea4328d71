//! Any bytes for `mfaas_readers::ring`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::ring(input));
