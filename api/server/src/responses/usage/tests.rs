#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::{DateTime, TimeDelta, Utc};

use super::moment;

#[test]
fn a_moment_is_a_name_or_how_long_ago() {
    let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
    let at = |text: &str| -> Option<DateTime<Utc>> { moment(text, now).ok() };
    assert_eq!(at("90m"), Some(now - TimeDelta::minutes(90)));
    assert_eq!(at("24h"), Some(now - TimeDelta::days(1)));
    assert_eq!(at("400d"), Some(now - TimeDelta::days(400)));
    assert_eq!(at(&now.to_rfc3339()), Some(now));
    for wrong in
        ["", "h", "-1h", "1w", "24", "402d", "99999999999d", "4294967295d", "1970-01-01T00:00:00Z", "24ä"]
    {
        assert_eq!(at(wrong), None, "{wrong}");
    }
}
