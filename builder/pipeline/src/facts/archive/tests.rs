use super::*;

#[test]
fn binaries_are_recognised_by_their_bytes() {
    let mut pe = vec![0; 0x80];
    pe[..2].copy_from_slice(b"MZ");
    pe[PE_OFFSET].copy_from_slice(&0x40_u32.to_le_bytes());
    pe[0x40..0x44].copy_from_slice(b"PE\0\0");
    for (content, kind) in [
        (&b"\x7fELF\x02\x01"[..], Some(BinaryKind::Elf)),
        (&pe, Some(BinaryKind::Pe)),
        (b"\xcf\xfa\xed\xfe", Some(BinaryKind::MachO)),
        (b"\xca\xfe\xba\xbe", Some(BinaryKind::MachO)),
        (b"\0asm\x01", Some(BinaryKind::Wasm)),
        (b"!<arch>\nx", Some(BinaryKind::Ar)),
        (b"\x89PNG\r\n", Some(BinaryKind::Unknown)),
        (b"text with a \0", Some(BinaryKind::Unknown)),
        (b"\xe4 in latin 1", Some(BinaryKind::Unknown)),
        (b"MZ is text", None),
        (b"fn main() {}", None),
        (b"", None),
    ] {
        assert_eq!(binary_kind(content), kind, "{content:?}");
    }
}

#[test]
fn sources_for_other_compilers_are_recognised_by_their_endings() {
    for path in ["src/a.c", "asm/x.S", "lib/libx.so.1", "x.a", "pregenerated/aes.o", "include/x.H"] {
        assert!(is_native(path), "{path}");
    }
    for path in ["src/a.rs", "README.md", "c", "src/c.rs", "x.c.rs", "build.rs", "a.cargo"] {
        assert!(!is_native(path), "{path}");
    }
}
