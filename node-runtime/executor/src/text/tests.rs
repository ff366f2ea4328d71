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

/// Of this program the gates alone: a build of all tests is large, and has the bytes by chance now and then,
/// in a distance. A worker that has them says so when it starts.
#[test]
fn gates_and_libraries_have_nothing_but_what_is_known() {
    let program = std::env::current_exe().expect("Linux");
    let gates = crate::keyed::section();
    let mut mappings = maps::all().expect("Linux");
    mappings
        .retain(|mapping| program.to_str() != Some(&mapping.name) || mapping.range.contains(&gates.start));
    for mapping in mappings.iter_mut().filter(|mapping| mapping.range.contains(&gates.start)) {
        mapping.range = gates.clone();
    }
    let findings = look(&mappings).expect("only gates, pkey_set and ld.so");
    assert_ne!(findings, Default::default(), "glibc and ld.so have some");
}
