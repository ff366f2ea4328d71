#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use super::Round;
use super::cpu::{Clock, parse_times, reaped_children};
use super::deploy::{aims, rows};
use super::package::{names, with_constant};
use super::table::{Sample, Table};

#[test]
fn every_round_has_another_source_and_still_a_function() {
    let source = "//! x\npub fn handle(r: &[u8]) -> Vec<u8> {\n    r.to_vec()\n}\n";
    let first = with_constant(source, "handle", 1).unwrap();
    assert!(first.contains("-> Vec<u8> { std::hint::black_box(1_u128);\n    r.to_vec()"), "{first}");
    assert_ne!(first, with_constant(source, "handle", 2).unwrap());
    assert_eq!(with_constant(source, "other", 1), None);
}

#[test]
fn the_function_and_its_handler_are_named_by_the_manifest() {
    let told = |manifest| names(manifest).map(|(name, handler)| format!("{name} {handler}"));
    assert_eq!(told("[package]\nname = \"hello\"").unwrap(), "bench-hello handle");
    let handler = "[package]\nname = \"hello\"\n[package.metadata.mfaas]\nhandler = \"inner::answer\"";
    assert_eq!(told(handler).unwrap(), "bench-hello answer");
    for unfit in ["", "[package]", "[package]\nname = 7", "[package]\nname = \"a b\"", "["] {
        assert!(told(unfit).is_err(), "{unfit}");
    }
}

#[test]
fn a_command_name_cannot_shift_the_fields_and_work_counts() {
    let line = "12 (a) R b) S 7 12 12 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 5555 1 1";
    assert_eq!(parse_times(line), Some([10, 20, 30, 40]));
    assert_eq!(parse_times("12 (short) S 7"), None);
    let (clock, before) = (Clock::start(std::process::id()).unwrap(), reaped_children().unwrap());
    let spins = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    assert!(std::process::Command::new("sh").args(["-c", spins]).status().unwrap().success());
    assert!(reaped_children().unwrap() > before);
    assert!(clock.elapsed().unwrap() > Duration::ZERO);
}

fn round(deployed_cpu_ms: u64, bare_cpu_ms: u64) -> Round<Sample> {
    let sample = |ms| Sample { wall: Duration::from_millis(ms), cpu: Duration::from_millis(ms) };
    Round { ours: sample(deployed_cpu_ms), bare: sample(bare_cpu_ms) }
}

fn table(packages: &[(&str, &[Round<Sample>])]) -> Table {
    let mut table = Table::default();
    for (name, rounds) in packages {
        table.add((*name).to_owned(), rounds.len(), rows(rounds), aims(name, table.is_empty(), rounds));
    }
    table
}

#[test]
fn a_missed_aim_is_said() {
    let good = table(&[("hello", &[round(500, 300)]), ("markdown", &[round(1300, 1000)])]);
    assert!(good.all_aims_met(), "{}", good.text());
    for (small, large) in [
        (round(600, 300), round(1300, 1000)),
        (round(500, 300), round(1400, 1000)),
        (round(500, 300), round(1, 0)),
    ] {
        let bad = table(&[("hello", &[small]), ("markdown", &[large])]);
        assert!(!bad.all_aims_met(), "{}", bad.text());
        assert!(bad.text().contains("MISSED"));
    }
    assert!(!table(&[("hello", &[])]).all_aims_met());
}

#[test]
fn scripts_get_every_measure_with_its_unit() {
    let document = table(&[("hello", &[round(500, 250), round(520, 260)])]).document();
    let hello = &document["packages"][0];
    assert_eq!((&hello["function"], &hello["rounds"]), (&"hello".into(), &2.into()));
    let measures = hello["measures"].as_object().unwrap();
    assert_eq!(measures.len(), 6);
    let expected = serde_json::json!({ "unit": "", "median": 2.0, "p20": 2.0, "p80": 2.0 });
    assert_eq!(measures["cpu ratio"], expected);
    assert_eq!(document["aims"][0]["aim"], "hello: CPU above bare, ms");
}
