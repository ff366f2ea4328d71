#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn texts_are_kept_and_what_is_none_is_not() {
    let large = vec![b'x'; usize::try_from(CRATE_TEXT.file_bytes_max).unwrap() + 1];
    let files: [(&str, &[u8]); 4] = [
        ("empty", b""),
        ("large.txt", &large),
        ("picture.png", b"\x89PNG\r\n"),
        ("src/lib.rs", b"fn f() {}"),
    ];
    let kept: Vec<String> = of_files(files.into_iter()).into_iter().map(|text| text.path).collect();
    assert_eq!(kept, ["empty", "src/lib.rs"]);
}

#[test]
fn more_files_than_the_limit_are_cut_off() {
    let names: Vec<String> = (0..=CRATE_TEXT.files_max).map(|n| format!("f{n}")).collect();
    let kept = of_files(names.iter().map(|name| (name.as_str(), &b"x"[..])));
    assert_eq!(kept.len(), CRATE_TEXT.files_max);
}
