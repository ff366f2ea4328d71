use super::*;

#[test]
fn hosts_are_told_from_what_is_none() {
    for host in ["a", "node-3.example", "10.0.0.1:7800", "[::1]", "[2001:db8::1]:80", "under_score:1"] {
        assert!(is_host(host), "{host}");
    }
    let long = "a".repeat(HOST_BYTES_MAX + 1);
    for text in [
        "",
        ":80",
        "a b",
        "a@b",
        "a/b",
        "a?b",
        "a#b",
        "a,b",
        "a:",
        "a:b",
        "a:1:2",
        "a:65536",
        "a:+1",
        "[::1",
        "::1",
        "[::1]x",
        "[a]",
        "[]",
        "[::1%25eth0]",
        "a%41",
        "ä",
        "a\\b",
        "\"a\"",
        &long,
    ] {
        assert!(!is_host(text), "{text}");
    }
}

#[test]
fn a_host_is_named_once_or_twice_alike() {
    let of = |authority: Option<&'static str>, header: Option<&'static str>| {
        requested_host(authority, header.map(str::as_bytes))
    };
    assert_eq!(of(None, None), Ok(None));
    assert_eq!(of(Some("a:1"), None), Ok(Some("a:1")));
    assert_eq!(of(None, Some("a:1")), Ok(Some("a:1")));
    assert_eq!(of(Some("A:1"), Some("a:1")), Ok(Some("A:1")));
    for (authority, header) in [("a", "b"), ("a", "a:80"), ("a:1", "a:2")] {
        assert_eq!(of(Some(authority), Some(header)), Err(HostError::Different));
    }
    assert_eq!(of(Some("anna@a"), Some("anna@a")), Err(HostError::NoHost));
    assert_eq!(of(None, Some("")), Err(HostError::NoHost));
    assert_eq!(requested_host(None, Some(b"\xff")), Err(HostError::NoText));
}
