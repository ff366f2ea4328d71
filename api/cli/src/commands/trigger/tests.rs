#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use clap::Parser as _;

use super::*;

#[derive(clap::Parser)]
struct Typed {
    #[command(flatten)]
    trigger: Trigger,
}

fn typed(words: &str) -> Result<(String, Vec<Change>), clap::Error> {
    let typed = Typed::try_parse_from(std::iter::once("trigger").chain(words.split_whitespace()))?;
    match typed.trigger.command {
        TriggerCommand::Set { prefix, on, .. } => Ok((prefix, on)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn changes_are_named_with_commas_and_are_both_by_default() {
    let set = "set resize uploads --resource photos";
    assert_eq!(typed(set).unwrap(), (String::new(), vec![Change::Put, Change::Delete]));
    let one = typed(&format!("{set} --prefix in/ --on delete")).unwrap();
    assert_eq!(one, ("in/".to_owned(), vec![Change::Delete]));
    assert!(typed(&format!("{set} --on put,rename")).is_err());
    assert!(typed("set resize uploads").is_err(), "a resource is named");
}

#[test]
fn a_trigger_is_a_line_with_its_last_call() {
    let function = FunctionName::parse("resize").unwrap();
    assert!(text(&function, &[]).contains("resize has no trigger"));
    let item = |more: serde_json::Value| -> TriggerView {
        let mut json = serde_json::json!({
            "function": "resize", "name": "uploads", "resource": "photos", "prefix": "in/", "on": ["put"],
            "set_at": "2027-01-02T03:04:05Z", "set_by": "token:x", "state": "active", "waiting": 4, "delivered": 7,
            "failed": 2, "dropped": 1,
        });
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json).unwrap()
    };
    let failed = item(serde_json::json!({"last": {
        "ended_at": "2027-01-02T03:00:02Z", "outcome": "failed", "status": 500, "code": "MF0805",
    }}));
    let both = item(serde_json::json!({"on": ["put", "delete"], "prefix": "", "state": "not_granted"}));
    let shown = text(&function, &[failed, both]);
    let lines: Vec<&str> = shown.lines().collect();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(
        words(lines[1]),
        "uploads photos/in/* put active 4 7 2 1 2027-01-02 03:00:02 failed 500 MF0805"
    );
    assert_eq!(words(lines[2]), "uploads photos/* put,delete not_granted 4 7 2 1 -");
}
