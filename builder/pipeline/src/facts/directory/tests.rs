use super::joined;

#[test]
fn a_path_is_followed_within_the_crate_and_no_further() {
    assert_eq!(joined("src/lib.rs", "table.inc").as_deref(), Some("src/table.inc"));
    assert_eq!(joined("src/a/mod.rs", "./../b.rs").as_deref(), Some("src/b.rs"));
    assert_eq!(joined("Cargo.toml", "src/lib.rs").as_deref(), Some("src/lib.rs"));
    assert_eq!(joined("src/lib.rs", "../../etc/passwd"), None);
    assert_eq!(joined("src/lib.rs", "/etc/passwd"), None);
}
