#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_wire::{IsolationView, SiteIsolationView};
use serde_json::json;

use super::{Minute, axis, facts, minutes};

fn sample(at: DateTime<Utc>, primary: Option<f64>, secondary: Option<f64>) -> IsolationView {
    let controller = json!({
        "mode": "blind", "off": false, "cores": 8, "buffer_cores": 2, "secondary_cores": 0, "killed": 3,
        "primary_used_cores": primary, "secondary_used_cores": secondary,
    });
    IsolationView { at, controller: Some(serde_json::from_value(controller).unwrap()), refused: None }
}

#[test]
fn a_minute_is_the_mean_of_its_reports() {
    let now = DateTime::from_timestamp(1_800_000_030, 0).unwrap();
    let axis = axis(now);
    assert_eq!((axis.at.len(), axis.step_s), (60, 60));
    assert!(axis.at[59] <= now && now - axis.at[59] < TimeDelta::minutes(1));
    let before = |seconds| now - TimeDelta::seconds(seconds);
    let silent = IsolationView { at: before(70), controller: None, refused: None };
    let samples = [
        // Older than the chart; the first report of a life; a silent controller.
        sample(before(3_700), Some(8.0), Some(8.0)),
        sample(before(65), None, None),
        silent,
        sample(before(10), Some(0.5), Some(2.0)),
        sample(now, Some(1.5), Some(4.0)),
    ];
    let drawn = minutes(&axis, &samples);
    assert_eq!(drawn[59], Minute { primary_cores: Some(1.0), secondary_cores: Some(3.0) });
    assert!(drawn[..59].iter().all(|minute| *minute == Minute::default()), "{drawn:?}");
}

#[test]
fn what_is_not_known_is_not_nothing() {
    let site = SiteIsolationView { revision: 0, settings: Default::default(), set_by: None, set_at: None };
    let text = |last: Option<&IsolationView>| {
        let facts = facts(last, &site);
        facts
            .into_iter()
            .map(|fact| format!("{}: {} | {}\n", fact.name, fact.here, fact.site))
            .collect::<String>()
    };
    assert!(text(None).contains("Heard: no controller was heard"), "{}", text(None));
    assert!(text(None).contains("Mode: – | –"), "{}", text(None));
    let now = Utc::now();
    let heard = text(Some(&sample(now, None, None)));
    for row in
        ["Mode: blind | –", "Kill switch: not pulled", "secondary: none: it stands still", "memory: 3 |"]
    {
        assert!(heard.contains(row), "{row}:\n{heard}");
    }
    let silent = text(Some(&IsolationView { at: now, controller: None, refused: None }));
    assert!(silent.contains("the controller is silent") && silent.contains("Mode: –"), "{silent}");
}
