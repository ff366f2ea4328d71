//! Any bytes for `mfaas_readers::statement`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::statement(input));
