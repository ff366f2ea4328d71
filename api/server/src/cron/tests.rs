#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn at(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).unwrap().to_utc()
}

#[test]
fn five_fields_name_the_next_time() {
    let now = at("2026-11-28T06:10:30.5Z");
    for (cron, due) in [
        ("* * * * *", "2026-11-28T06:11:00Z"),
        ("10 6 * * *", "2026-11-29T06:10:00Z"),
        ("*/15 * * * *", "2026-11-28T06:15:00Z"),
        ("0 3 * * 1-5", "2026-11-30T03:00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        // As cron has it: one of the two is enough.
        ("0 0 13 * fri", "2026-12-04T00:00:00Z"),
        ("0 0 1 JAN-mar/2 *", "2027-01-01T00:00:00Z"),
    ] {
        assert_eq!(first(cron, now).unwrap(), at(due), "{cron}");
        assert_eq!(next(cron, now), Some(at(due)), "{cron}");
    }
    assert_eq!(next("* * * * *", at("2026-11-28T06:11:00Z")), Some(at("2026-11-28T06:12:00Z")), "not twice");
}

#[test]
fn what_is_no_time_is_refused() {
    let long = format!("{}1 * * * *", "0,".repeat(60));
    // The last three would keep a reader that takes them busy for seconds.
    for text in [
        "",
        "* * * *",
        "* * * * * *",
        "0 0 0 * * * 2027",
        "60 * * * *",
        "a b c d e",
        "* * * * *\0",
        "@daily",
        "0 0 L * *",
        "0 0 1W * *",
        "0 0 * * 5#2",
        "0 0 ? * *",
        "jan * * * *",
        "0 0 1jan * *",
        long.as_str(),
        "* , * * *",
        "* * , * *",
        ", * * * *",
    ] {
        let error = first(text, at("2026-11-28T06:10:30Z")).unwrap_err();
        assert!(error.contains("`cron`"), "{text}: {error}");
    }
    assert_eq!(
        first("0 0 30 2 *", at("2026-11-28T06:10:30Z")).unwrap_err(),
        "`cron` names a time that never comes."
    );
}
