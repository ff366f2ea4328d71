#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::*;

const SECRET: &str = "s3cr+t/of:the-site~01?";

fn value(text: &str) -> io::Result<Value> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    std::fs::write(&file, text).unwrap();
    Value::read(&file)
}

/// A secret of these lines in the operator's file, and its value.
fn secret(lines: &str) -> Result<(Secret, Value), String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    std::fs::write(&file, SECRET).unwrap();
    let entry = toml::from_str(&format!("file = \"{}\"\nhttp = []\n{lines}", file.display())).unwrap();
    Secret::open(entry).map(|secret| (secret, Value::read(&file).unwrap()))
}

#[test]
fn a_secret_is_one_line_that_everybody_writes_alike() {
    assert_eq!(*value("correct-horse-battery\r\n").unwrap().0, "correct-horse-battery");
    for wrong in [
        "",
        "fifteen-bytes-1",
        "two-lines-are\nno-secret",
        "a-na\u{ef}ve-secret-0",
        "with a space 0123",
        " leading-space-01",
        "a\ttab-in-a-secret",
        "a\"quote-in-a-secret",
        "an&-in-a-secret-0",
        "a<b>c-0123456789",
        "a\\backslash-0123",
    ] {
        assert_eq!(value(wrong).err().unwrap().kind(), io::ErrorKind::InvalidData, "{wrong:?}");
    }
    assert!(value(&"x".repeat(16)).is_ok() && value(&"x".repeat(4096)).is_ok());
    assert!(value(&"x".repeat(4097)).is_err());
}

#[test]
fn a_secret_stands_in_a_header_as_the_operator_says() {
    let header = |lines: &str| {
        let (secret, value) = secret(lines).unwrap();
        let (name, value) = secret.header_of(&value).unwrap();
        assert!(value.is_sensitive());
        format!("{name}: {}", value.to_str().unwrap())
    };
    assert_eq!(header(""), format!("authorization: Bearer {SECRET}"));
    assert_eq!(header("scheme = \"token\""), format!("authorization: token {SECRET}"));
    assert_eq!(header("scheme = \"\""), format!("authorization: {SECRET}"));
    assert_eq!(header("header = \"X-Api-Key\""), format!("x-api-key: {SECRET}"));
    let basic = STANDARD.encode(format!("shop:{SECRET}"));
    assert_eq!(header("user = \"shop\""), format!("authorization: Basic {basic}"));
    for (lines, says) in [
        ("user = \"a:b\"", "no `:`"),
        ("user = \"a\"\nscheme = \"b\"", "not both"),
        ("scheme = \"a\\nb\"", "cannot stand"),
        ("header = \"Host\"", "host"),
        ("header = \"a b\"", "no name"),
    ] {
        let error = secret(lines).unwrap_err();
        assert!(error.contains(says), "{lines}: {error}");
    }
}

/// Each of these shows the secret by itself: without any one of the forms one of them is not found.
#[test]
fn a_secret_is_found_as_it_was_written() {
    let traces = value(SECRET).unwrap().traces();
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    let encoded = utf8_percent_encode(SECRET, NON_ALPHANUMERIC).to_string();
    let mut shown = vec![
        SECRET.to_owned(),
        SECRET.to_uppercase(),
        SECRET.replace('/', "\\/"),
        hex.to_uppercase(),
        hex,
        encoded.to_lowercase(),
        utf8_percent_encode(&encoded, NON_ALPHANUMERIC).to_string(),
        encoded,
    ];
    for user in ["", "a", "ab", "abc"] {
        for end in ["", ";", "; more"] {
            shown.push(STANDARD.encode(format!("{user}:{SECRET}{end}")));
            shown.push(URL_SAFE_NO_PAD.encode(format!("{user}:{SECRET}{end}")));
        }
    }
    for shown in shown {
        let text = format!("you sent {shown}, it says");
        assert!(shows(text.as_bytes(), &traces), "{shown}");
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert!(shows(&wide, &traces), "{shown}, in UTF-16");
    }
    for other in ["", &SECRET[1..], "s3cr%2Bt", &STANDARD.encode("another secret of this site")] {
        assert!(!shows(other.as_bytes(), &traces), "{other}");
    }
}
