//! Any bytes for `mfaas_readers::advisory`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::advisory(input));
