//! Any bytes for `mfaas_readers::call_token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::call_token(input));
