#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{Asked, drawn};
use crate::limits;

#[test]
fn the_connection_and_the_token_are_not_the_persons_to_say() {
    let with = |headers: &str| Asked { headers: headers.to_owned(), ..Asked::default() };
    let passed = with("Accept: text/plain\n\nx-a: 1\nX-A: 2\n").headers().unwrap();
    assert_eq!((passed.len(), passed.get_all("x-a").iter().count()), (3, 2));
    for bad in [
        "Authorization: Bearer x",
        "HOST: other",
        "Transfer-Encoding: chunked",
        "no colon",
        "a b: c",
        "a: \u{1b}",
    ] {
        assert!(with(bad).headers().is_err(), "{bad}");
    }
    let lines = "x: 1\n".repeat(limits::CONSOLE_CALL_HEADERS_MAX);
    assert!(with(&lines).headers().is_ok());
    assert!(with(&(lines + "x: 1")).headers().is_err());
}

#[test]
fn fields_have_bounds() {
    let method = |method: &str| Asked { method: method.to_owned(), ..Asked::default() }.method();
    assert!(method("PUT").is_ok());
    assert!(method("CONNECT").is_err() && method("put").is_err() && method("").is_err());
    let version = |version: &str| Asked { version: version.to_owned(), ..Asked::default() }.selector();
    assert!(version("").unwrap().is_none() && version("3").unwrap().is_some() && version("next").is_ok());
    assert!(version("../../metrics").is_err());
    let query = |bytes| Asked { query: "q".repeat(bytes), ..Asked::default() }.query().is_ok();
    assert!(query(limits::CONSOLE_CALL_QUERY_BYTES_MAX) && !query(limits::CONSOLE_CALL_QUERY_BYTES_MAX + 1));
}

#[test]
fn text_is_shown_as_text_and_the_rest_as_digits() {
    let text = drawn("a\u{202e}\u{1b}b\n".as_bytes(), false);
    assert_eq!(text.shown, "a\\u{202e}\\u{1b}b\n");
    assert_eq!(text.what, "7 bytes of text");
    // The limit has cut a character.
    let cut = drawn(&"aé".as_bytes()[..2], true);
    assert_eq!((cut.shown.as_str(), cut.what.as_str()), ("a", "1 bytes of text, the rest is left out"));
    assert_eq!(drawn(&"aé".as_bytes()[..2], false).shown, "61c3");
    let binary = drawn(&[0xff; 600], false);
    assert_eq!(binary.what, "600 bytes that are no text; the first 512 in hexadecimal");
    assert_eq!(binary.shown.matches('f').count(), 1_024);
}
