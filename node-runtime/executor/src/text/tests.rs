use super::{hits, look};
use crate::maps;

#[test]
fn instructions_are_found_at_any_byte() {
    let found = |code: &[u8]| hits(code).collect::<Vec<_>>();
    assert_eq!(found(&[0x90, 0x0f, 0x01, 0xef, 0x0f]), [1], "wrpkru");
    assert_eq!(found(&[0xb8, 0x0f, 0x01, 0xef, 0x00]), [1], "inside of another instruction");
    assert_eq!(found(&[0x0f, 0xae, 0x6c, 0x24, 0x40]), [0], "xrstor [rsp + 64]");
    assert_eq!(found(&[0x48, 0x0f, 0xae, 0x2f]), [1], "xrstor64 [rdi]");
    assert_eq!(found(&[0x0f, 0xae, 0xe8]), [0; 0], "lfence");
    assert_eq!(found(&[0x0f, 0xae, 0x27, 0x0f, 0x01, 0xee]), [0; 0], "xsave, rdpkru");
}

#[test]
fn this_program_has_nothing_but_what_is_known() {
    look(&maps::all().expect("Linux")).expect("only gates, pkey_set and ld.so");
}
