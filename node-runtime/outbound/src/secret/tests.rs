#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use super::*;

const FEW: &AsciiSet = &CONTROLS.add(b'/').add(b'"');

fn value(text: &str) -> io::Result<Value> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    std::fs::write(&file, text).unwrap();
    Value::read(&file)
}

#[test]
fn a_secret_is_one_line() {
    assert_eq!(*value("correct horse\r\n").unwrap().0, "correct horse");
    for wrong in ["", "short", "two\nlines here", "na\u{ef}ve secret", "a\tsecret with a tab"] {
        assert_eq!(value(wrong).err().unwrap().kind(), io::ErrorKind::InvalidData, "{wrong:?}");
    }
    assert!(value(&"x".repeat(4096)).is_ok());
    assert!(value(&"x".repeat(4097)).is_err());
}

#[test]
fn a_secret_stands_in_a_header_as_is_asked_for() {
    let value = value("key-of-the-site").unwrap();
    let header = |form| value.header(form).unwrap();
    assert_eq!(header(SecretForm::Bare), "key-of-the-site");
    assert_eq!(header(SecretForm::Bearer), "Bearer key-of-the-site");
    assert_eq!(
        header(SecretForm::Basic("shop")),
        format!("Basic {}", STANDARD.encode("shop:key-of-the-site"))
    );
    assert!(header(SecretForm::Bare).is_sensitive());
    for user in ["a:b", "a\nb"] {
        assert!(matches!(value.header(SecretForm::Basic(user)), Err(SendError::Request(_))), "{user:?}");
    }
}

/// Each of these shows the secret by itself: without any one of the forms one of them is not found.
#[test]
fn a_secret_is_found_as_it_was_written() {
    let secret = "s3cr\"t/of <the> site&co";
    let traces = value(secret).unwrap().traces();
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut shown = vec![
        secret.to_owned(),
        utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string(),
        utf8_percent_encode(secret, FEW).to_string(),
        secret.replace('"', "\\\"").replace('/', "\\/"),
        "s3cr&quot;t/of &lt;the&gt; site&amp;co".to_owned(),
        serde_json::to_string(secret).unwrap(),
        hex.to_uppercase(),
        hex,
    ];
    for user in ["", "a", "ab", "abc"] {
        for end in ["", ";", "; more"] {
            shown.push(STANDARD.encode(format!("{user}:{secret}{end}")));
            shown.push(URL_SAFE_NO_PAD.encode(format!("{user}:{secret}{end}")));
        }
    }
    for shown in shown {
        assert!(shows(format!("you sent {shown}, it says").as_bytes(), &traces), "{shown}");
    }
    for other in ["", "s3cr\"t/of <the> site", "s3cr%22t", &STANDARD.encode("another secret of this site")] {
        assert!(!shows(other.as_bytes(), &traces), "{other}");
    }
}
