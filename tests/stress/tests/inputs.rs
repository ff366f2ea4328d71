//! The stress inputs that end quickly, and each limit of the sandbox with a lowered value. All of them, with
//! the values in force, are run by the program `mfaas-stress`.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::OnceLock;

use mfaas_stress::input::StressInput;
use mfaas_stress::installed::Installed;
use mfaas_stress::run::run;

fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(|| Installed::get(None).unwrap())
}

#[test]
fn quick_inputs_are_ended_by_a_limit_that_the_answer_names() {
    let quick: Vec<StressInput> =
        StressInput::all().unwrap().into_iter().filter(|input| input.expect.quick).collect();
    assert!(quick.len() >= 15, "{} inputs are quick", quick.len());
    for input in quick {
        let ending = run(&input, installed(), &[]).unwrap();
        let faults = ending.faults(&input.expect);
        assert!(faults.is_empty(), "{}: {faults:?}", input.name);
    }
}

#[test]
fn each_limit_of_the_sandbox_is_named_with_its_value() {
    let rows = [
        ("const-copies", "cpu_seconds_max=1", "1 s", "MF0402"),
        ("const-copies", "wall_seconds_max=2", "2 s", "MF0403"),
        ("format-doubling", "memory_bytes_max=402653184", "384 MiB", "MF0404"),
        ("error-flood", "output_bytes_max=65536", "64 KiB", "MF0405"),
        ("data-200-mib", "file_bytes_max=8388608", "8 MiB", "MF0405"),
    ];
    for (name, lowered, value, code) in rows {
        let limit = lowered.split_once('=').unwrap().0;
        let input = StressInput::named(name).unwrap().expecting(limit, code);
        let ending = run(&input, installed(), &[lowered]).unwrap();
        let faults = ending.faults(&input.expect);
        assert!(faults.is_empty(), "{name} with {lowered}: {faults:?}");
        assert_eq!(ending.limit, Some((limit.to_owned(), value.to_owned())));
    }
}

#[test]
fn there_are_thirty_inputs_and_no_file_is_large() {
    let inputs = StressInput::all().unwrap();
    assert!(inputs.len() >= 32, "{} inputs", inputs.len());
    for input in &inputs {
        assert!(!input.source().unwrap().is_empty(), "{}", input.name);
        assert!(!input.expect.what.is_empty(), "{}", input.name);
    }
}
