//! Any bytes for `mfaas_readers::audits`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::audits(input));
