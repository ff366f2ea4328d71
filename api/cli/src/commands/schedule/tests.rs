#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn a_schedule_is_a_line_with_its_last_call() {
    let function = FunctionName::parse("report").unwrap();
    assert!(text(&function, &[]).contains("report has no schedule"));
    let item = |more: serde_json::Value| -> ScheduleView {
        let mut json = serde_json::json!({
            "function": "report", "name": "nightly", "cron": "0 3 * * *", "body": "", "set_at": "2027-01-02T03:04:05Z",
            "set_by": "token:x", "runs": 7, "failures": 2, "skipped": 1,
        });
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json).unwrap()
    };
    let failed = item(serde_json::json!({"due_at": "2027-01-03T03:00:00Z", "last": {
        "due_at": "2027-01-02T03:00:00Z", "begun_at": "2027-01-02T03:00:01Z", "ended_at": "2027-01-02T03:00:02Z",
        "outcome": "failed", "status": 500, "code": "MF0805",
    }}));
    let shown = text(&function, &[failed, item(serde_json::json!({}))]);
    let lines: Vec<&str> = shown.lines().collect();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(
        words(lines[1]),
        "nightly 0 3 * * * 2027-01-03 03:00 UTC 7 2 1 2027-01-02 03:00:01 failed 500 MF0805"
    );
    assert_eq!(words(lines[2]), "nightly 0 3 * * * never 7 2 1 -");
}
