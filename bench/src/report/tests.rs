#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use serde_json::{Value, json};

use super::*;

fn report(rows: Vec<Row>) -> Report {
    let machine = Machine {
        cpu: "a processor".to_owned(),
        cores: 2,
        memory_mib: 1024,
        virtualised: true,
        protection_keys: false,
        steady_counter: true,
        mitigations: vec!["spectre_v1: Mitigation".to_owned()],
        kernel: "6.1 #1".to_owned(),
        huge_pages: "always [madvise] never".to_owned(),
        commit: "0123456789ab".to_owned(),
    };
    let load = [0.5, 0.25, 0.125];
    Report {
        machine,
        rounds: 9,
        quick: false,
        load_before: load,
        load_after: load,
        rows,
        figures: Figures::default(),
    }
}

fn text(report: &Report) -> String {
    let rows: String = report.rows.iter().map(Row::text).collect();
    report.head() + &rows + &report.tail()
}

fn row() -> Row {
    let mut row = Row::new("warm", "a title");
    row.side("mfaas", "an executor".to_owned());
    row.side("mfaas", "an executor".to_owned());
    row.ratio("mfaas / bare", &[2.0, 3.0, 4.0], &[1.0, 1.0, 1.0]).aim(Bound::AtMost, 2.0);
    row.measure("mfaas", "µs", vec![2.0, 3.0, 4.0]).aim(Bound::Below, 3.5);
    row
}

#[test]
fn the_document_has_its_shape() {
    let document = serde_json::to_value(report(vec![row()])).unwrap();
    let keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected =
        ["load_after", "load_before", "machine", "modes", "quick", "rounds", "rows", "shared"].to_vec();
    expected.sort_unstable();
    assert_eq!(
        {
            let mut keys = keys;
            keys.sort_unstable();
            keys
        },
        expected
    );
    let row = &document["rows"][0];
    assert_eq!(row["name"], "warm");
    assert_eq!(row["sides"], json!([{ "name": "mfaas", "protections": "an executor" }]));
    assert_eq!(
        row["measures"][0],
        json!({
            "what": "mfaas / bare", "unit": "", "rounds": [2.0, 3.0, 4.0],
            "spread": { "p20": 2.0, "median": 3.0, "p80": 4.0 },
            "aim": { "bound": "at_most", "limit": 2.0, "met": false, "of_limit": 1.5 },
        })
    );
    assert_eq!(row["measures"][1]["aim"]["met"], Value::Bool(true));
    assert_eq!(row["missing"], json!([]));
}

#[test]
fn the_text_says_what_was_missed_and_by_how_much() {
    let text = text(&report(vec![row()]));
    assert!(text.contains("MISSED  (aim ≤ 2.00, is 1.50 × that)"), "{text}");
    assert!(text.contains("met     (aim < 3.50)"), "{text}");
    assert!(text.contains("on  mfaas  an executor"), "{text}");
    assert!(text.contains("aims met: 1 of 2; not measured: 0"), "{text}");
}

#[test]
fn nothing_can_be_an_aim() {
    let mut row = Row::new("overload", "a title");
    row.measure("lost", "calls", vec![0.0]).aim(Bound::AtMost, 0.0);
    row.measure("lost, too", "calls", vec![2.0]).aim(Bound::AtMost, 0.0);
    let text = text(&report(vec![row]));
    assert!(text.contains("met     (aim ≤ 0.000)") && text.contains("MISSED  (aim ≤ 0.000)"), "{text}");
}

#[test]
fn what_was_not_measured_meets_no_aim() {
    let mut row = Row::new("cold", "a title");
    row.measure("nothing", "µs", vec![]).aim(Bound::AtMost, 1e9);
    let report_of_nothing = report(vec![row]);
    assert!(!report_of_nothing.all_aims_met());
    assert!(text(&report_of_nothing).contains("none    (aim ≤ 1000000000)"), "{}", text(&report_of_nothing));
    let mut row = Row::new("cold", "a title");
    row.missing("mfaas", &anyhow::anyhow!("no worker"));
    let report = report(vec![row]);
    assert!(!report.all_aims_met());
    assert!(text(&report).contains("not measured  mfaas: no worker"));
}

#[test]
fn slower_is_what_lies_wholly_above_the_bound() {
    let met = |rounds: &[f64]| {
        let mut row = Row::new("tenants", "a title");
        row.measure("ratio", "", rounds.to_vec()).not_slower();
        row.measures[0].aim.unwrap().met
    };
    assert!(met(&[1.04, 1.2, 1.2, 1.2, 1.2]), "the 20th percentile is below");
    assert!(!met(&[1.06, 1.06, 1.06, 1.06, 1.06]));
    assert!(!met(&[]) && !met(&[f64::INFINITY]));
    let mut row = Row::new("tenants", "a title");
    row.measure("ratio", "", vec![2.1]).not_slower();
    assert!(row.text().contains("MISSED  (aim p20 ≤ 1.05, is 2.00 × that)"), "{}", row.text());
}

#[test]
fn numbers_show_three_digits_that_count() {
    assert_eq!([0.1234, 1.234, 12.34, 1234.5, f64::NAN].map(number), ["0.123", "1.23", "12.3", "1234", "-"]);
}
