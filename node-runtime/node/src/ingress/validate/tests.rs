#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn hosts_are_told_from_what_is_none() {
    for host in ["a", "node-3.example", "10.0.0.1:7800", "[::1]", "[2001:db8::1]:80", "under_score:1"] {
        assert!(is_host(host), "{host}");
        assert!(host.parse::<http::uri::Authority>().is_ok(), "{host}: no authority to anybody else");
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
