use super::*;

#[test]
fn a_path_cannot_end_its_address() {
    assert_eq!(file_url(7, "src/lib.rs", 12), "/reviews/7/files/src/lib.rs?line=12#L12");
    assert_eq!(
        file_url(7, "a b?c#d%2e\"<\\u{202e}", 0),
        "/reviews/7/files/a%20b%3Fc%23d%252e%22%3C%5Cu%7B202e%7D"
    );
}
