use super::{Mapping, all};

#[test]
fn a_line_is_read() {
    let line = "7f00a000-7f00b000 r-xp 00001000 fe:01 77   /usr/lib/libc.so.6";
    let mapping = Mapping::parse(line).expect("a line");
    assert_eq!((mapping.range.clone(), mapping.access()), (0x7f00_a000..0x7f00_b000, 5));
    assert!(mapping.is_of_program());
    let ring = Mapping::parse("1000-2000 r--s 00000000 00:01 9 /memfd:ring (deleted)").expect("a line");
    assert!(!ring.is_of_program());
    assert!(Mapping::parse("1000 r--s").is_none());
}

#[test]
fn our_own_code_is_in_the_list() {
    let here = all as *const () as usize;
    let found = all().expect("Linux").into_iter().find(|mapping| mapping.range.contains(&here));
    let found = found.expect("mapped");
    assert!(found.execute && !found.write && found.is_of_program(), "{found:?}");
}
