//! Any bytes for `mfaas_readers::lexer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::lexer(input));
