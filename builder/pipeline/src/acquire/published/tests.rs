use super::*;

#[test]
fn only_a_line_about_these_bytes_gives_a_date() {
    let line = |version: &str, sum: &str, more: &str| {
        format!("\0{version}\0{{\"name\":\"a\",\"vers\":\"{version}\",\"cksum\":\"{sum}\"{more}}}\0")
    };
    let time = ",\"pubtime\":\"2025-08-21T08:46:50Z\"";
    let cache = format!(
        "\u{1}etag: x{}{}{}",
        line("1.0.0", "aa", ""),
        line("1.1.0", "bb", time),
        line("1.2.0", "cc", ",\"pubtime\":\"\u{202e}now\"")
    );
    let at = |version: &str, sum: &str| date(cache.as_bytes(), version, sum).and_then(|found| found.at);
    assert_eq!(at("1.1.0", "bb").as_deref(), Some("2025-08-21T08:46:50Z"));
    assert_eq!(at("1.1.0", "aa"), None, "other bytes");
    assert_eq!(at("1.0.0", "aa"), None, "no date");
    assert_eq!(at("2.0.0", "bb"), None, "no such version");
    assert!(at("1.2.0", "cc").is_some_and(|text| text.starts_with("\\u{202e}")));
    assert_eq!(date(b"{", "1.0.0", "aa"), None);
}

#[test]
fn an_index_has_a_directory_for_each_name() {
    assert_eq!(
        ["a", "ab", "abc", "abcd", "percent-encoding"].map(directory),
        ["1", "2", "3/a", "ab/cd", "pe/rc"]
    );
}
