#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::ffi::OsStr;

use clap::Parser as _;

use super::*;

#[derive(Debug, clap::Parser)]
struct Typed {
    #[command(flatten)]
    bench: BenchIsolation,
}

#[derive(Debug, clap::Parser)]
struct TypedBufferCores {
    #[command(flatten)]
    bench: BenchBufferCores,
}

fn typed(words: &str) -> Result<BenchIsolation, clap::Error> {
    Typed::try_parse_from(format!("bench {words}").split_whitespace()).map(|typed| typed.bench)
}

fn asked(bench: &BenchIsolation, json: bool) -> String {
    bench.arguments(json).join(OsStr::new(" ")).into_string().unwrap()
}

#[test]
fn the_simulation_is_asked_for_what_was_typed_and_nothing_else() {
    let bench = typed("--simulation").unwrap();
    assert_eq!((bench.program(), asked(&bench, false)), ("mfaas-bench-isolation", String::new()));
    assert_eq!(asked(&bench, true), "--json -");
    let words = "--seconds 5 --cluster-seconds 2 --seed 9 --json-file j --svg s --quick";
    let full = typed(&format!("--simulation {words}")).unwrap();
    assert_eq!(asked(&full, true), words.replace("--json-file", "--json"));
    let refused = typed("--seconds 5").unwrap_err().to_string();
    assert!(refused.contains("--simulation"), "a machine has no simulated seconds: {refused}");
}

#[test]
fn without_a_simulation_this_machine_is_measured() {
    let bench = typed("").unwrap();
    assert_eq!((bench.program(), asked(&bench, false)), ("mfaas-bench-node", "isolation".to_owned()));
    let words = "--rows builds --buffer-cores 0 --policies blind --rounds 20 --workers polling --json-file j --svg s --quick";
    let full = typed(words).unwrap();
    assert_eq!(asked(&full, true), format!("isolation {}", words.replace("--json-file", "--json")));
    let refused = typed("--simulation --workers polling").unwrap_err().to_string();
    assert!(refused.contains("--workers"), "the simulation has no workers: {refused}");
}

#[test]
fn buffer_cores_are_counted_by_the_program_that_measures() {
    let words = ["bench", "--workers", "polling", "--json-file", "j", "--quick"];
    let bench = TypedBufferCores::try_parse_from(words).unwrap().bench;
    let asked = bench.arguments(false).join(OsStr::new(" "));
    assert_eq!(asked, "buffer-cores --workers polling --json j --quick");
}
