#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{Exit, Failure};

#[test]
fn every_class_of_code_has_its_exit_code() {
    for (code, exit) in [
        ("MF0101", Exit::Refused),
        ("MF0201", Exit::Refused),
        ("MF0204", Exit::Waiting),
        ("MF0205", Exit::Waiting),
        ("MF0206", Exit::Waiting),
        ("MF0301", Exit::Refused),
        ("MF0401", Exit::CompileError),
        ("MF0501", Exit::Refused),
        ("MF0407", Exit::Refused),
        ("MF0410", Exit::Failed),
        ("MF0412", Exit::Refused),
        ("MF0601", Exit::Unverified),
        ("MF0603", Exit::Failed),
        ("MF0701", Exit::Failed),
        ("MF0801", Exit::FunctionFailed),
        ("MF0901", Exit::Failed),
        ("nonsense", Exit::Failed),
        ("", Exit::Failed),
        ("ÄÖÜ", Exit::Failed),
    ] {
        assert_eq!(Exit::of_code(code), exit, "{code}");
    }
}

#[test]
fn an_io_failure_names_the_path() {
    let failure = Failure::io("cannot read", "/nowhere/at/all")(std::io::Error::from_raw_os_error(2));
    let text = failure.to_string();
    assert!(text.starts_with("cannot read /nowhere/at/all: "), "{text}");
    assert_eq!(failure.exit(), Exit::Failed);
}
