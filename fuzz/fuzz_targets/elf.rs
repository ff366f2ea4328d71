//! Any bytes for `mfaas_readers::elf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mfaas_readers::elf(input));
