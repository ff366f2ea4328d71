use super::address;

#[test]
fn only_plain_addresses_are_asked() {
    for good in ["http://127.0.0.1:7800/f/a/hello", "https://node.example/f/a/hello"] {
        assert_eq!(address(good).map(String::from).as_deref(), Some(good));
    }
    for bad in [
        "file:///etc/passwd",
        "ftp://node/f/a/hello",
        "http://user@node/f/a/hello",
        "http://:secret@node/f/a/hello",
        "http://node/x?/f/a/hello",
        "http://node/x#/f/a/hello",
        "/f/a/hello",
        "",
    ] {
        assert_eq!(address(bad), None, "{bad}");
    }
}
