//! Every form of the command line, and what is none.

use mfaas_executor::Verification;
use mfaas_ring::preload::SpeculationControls;

use super::{Call, Command};

fn parse(line: &str) -> Option<Command> {
    Command::parse(line.split_whitespace().map(Into::into)).ok()
}

#[test]
fn every_form_is_understood() {
    assert_eq!(parse(""), Some(Command::Serve));
    let controls = serde_json::to_string(&SpeculationControls::NONE).expect("valid");
    assert_eq!(
        parse(&format!("--protection {controls}")),
        Some(Command::Protection(SpeculationControls::NONE))
    );

    assert_eq!(parse("--version"), Some(Command::Version));
    assert_eq!(parse("--probe a.so"), Some(Command::Probe("a.so".into())));
    let call = Call {
        file: "a.so".into(),
        budget: mfaas_ident::Budget::parse("2ms").expect("valid"),
        memory: mfaas_ident::MemoryLimit::parse("1MiB").expect("valid"),
        times: 3,
        verification: Verification::Waived,
        raw: true,
    };
    let line = "--call a.so --budget 2ms --memory 1MiB --times 3 --unverified --raw";
    assert_eq!(parse(line), Some(Command::Call(call)));
}

#[test]
fn anything_else_is_refused() {
    for line in [
        "--protection",
        "--protection a.so",
        "--protection --raw",
        "--version 1",
        "--probe",
        "--probe a.so b.so",
        "--call",
        "--call a.so --budget",
        "--call a.so --budget 5",
        "--call a.so --memory 1GiB",
        "--call a.so --times x",
        "--call a.so --fast",
        "--serve x",
        "a.so",
    ] {
        assert_eq!(parse(line), None, "{line}");
    }
}
