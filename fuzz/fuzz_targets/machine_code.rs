//! Any bytes for `mfaas_readers::machine_code`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::machine_code(input));
