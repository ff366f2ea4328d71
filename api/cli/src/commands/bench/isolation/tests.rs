#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::ffi::OsStr;

use clap::Parser as _;

use super::*;

#[derive(Debug, clap::Parser)]
struct Typed {
    #[command(flatten)]
    bench: BenchIsolation,
}

#[test]
fn the_program_is_asked_for_what_was_typed_and_nothing_else() {
    let typed = |words: &str| Typed::try_parse_from(format!("bench {words}").split_whitespace());
    assert!(typed("--simulation").unwrap().bench.arguments(false).is_empty());
    assert_eq!(typed("--simulation").unwrap().bench.arguments(true), ["--json", "-"]);
    let words = "--seconds 5 --cluster-seconds 2 --seed 9 --json-file j --svg s --quick";
    let full = typed(&format!("--simulation {words}")).unwrap().bench.arguments(true);
    assert_eq!(full.join(OsStr::new(" ")).to_str().unwrap(), words.replace("--json-file", "--json"));
    let refused = typed(words).unwrap_err().to_string();
    assert!(refused.contains("--simulation"), "nothing else can be measured yet: {refused}");
}
