//! Any bytes for `mfaas_readers::archive`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::archive(input));
