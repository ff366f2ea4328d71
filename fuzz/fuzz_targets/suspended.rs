//! Any bytes for `mfaas_readers::suspended`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::suspended(input));
