//! The pipeline for one program: admission as a deploy does it, then a worker as a node starts it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mfaas_harness::{Installed, worker};
use serde_json::Value;

use crate::case::Case;
use crate::program::Program;

/// Calls of one case before its end is believed to be its own: each is the first call of a fresh worker, and on
/// a machine that does much else what the kernel does for it can use up a millisecond.
const CALLS_MAX: u32 = 3;

/// How a program ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Admitted, and every answer was right.
    Right { took: Duration, cases: usize },
    /// Admitted, and an answer was wrong.
    Wrong(String),
    /// Not admitted.
    Refused(Vec<Refusal>),
}

/// One finding of a refusal.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) place: String,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// Admits the program and, if that succeeds, calls it with each case.
pub(crate) fn run(installed: &Installed, program: &Program) -> Ended {
    let begin = Instant::now();
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image.so");
    if let Err(refusals) = admit(installed, &program.directory, &image) {
        return Ended::Refused(refusals);
    }
    for (number, case) in program.cases.iter().enumerate() {
        if let Err(reason) = call(&image, program, case) {
            return Ended::Wrong(format!("case {}: {reason}", number + 1));
        }
    }
    Ended::Right { took: begin.elapsed(), cases: program.cases.len() }
}

/// Passes a directory through admission; the artifact goes to `image`.
pub(crate) fn admit(installed: &Installed, directory: &Path, image: &Path) -> Result<(), Vec<Refusal>> {
    let mut check = installed.builder();
    let output = check.args(["check", "--json", "--keep"]).arg(image).arg(directory).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no report: {}", String::from_utf8_lossy(&output.stderr)));
    if output.status.success() && report["outcome"] == "passed" {
        return Ok(());
    }
    let findings = report["diagnostics"].as_array().into_iter().flatten();
    let refusals: Vec<Refusal> =
        findings.filter(|item| item["level"] == "error").map(Refusal::read).collect();
    // A check that did not pass and does not say why would vanish from the list of reasons.
    assert!(!refusals.is_empty(), "{}: {report}", directory.display());
    Err(refusals)
}

/// Calls the artifact once, in a worker of its own.
fn call(image: &Path, program: &Program, case: &Case) -> Result<(), String> {
    for _ in 1..CALLS_MAX {
        let answer = call_once(image, program, case)?;
        if answer["status"] != "over_budget" || case.compare(&answer).is_ok() {
            return case.compare(&answer);
        }
    }
    case.compare(&call_once(image, program, case)?)
}

fn call_once(image: &Path, program: &Program, case: &Case) -> Result<Value, String> {
    let mut worker = worker();
    worker.arg("--call").arg(image);
    for key in ["budget", "memory"] {
        if let Some(value) = program.setting(key) {
            worker.arg(format!("--{key}")).arg(value);
        }
    }
    answer(&mut worker, &case.input.to_vec())
}

fn answer(worker: &mut Command, body: &[u8]) -> Result<Value, String> {
    let mut child =
        worker.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A worker that ends early closes the pipe; its own words say why.
    let _ = child.stdin.take().unwrap().write_all(body);
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("no answer: {} {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

impl Ended {
    /// One line about the program.
    pub(crate) fn line(&self, name: &str) -> String {
        match self {
            Self::Right { took, cases } => {
                format!("admitted  {name}  {cases} cases  {} ms", took.as_millis())
            }
            Self::Wrong(reason) => format!("WRONG     {name}  {reason}"),
            Self::Refused(refusals) => {
                format!("REFUSED   {name}  {}", refusals.first().map_or("", |first| first.code.as_str()))
            }
        }
    }
}

impl Refusal {
    fn read(item: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let span = &item["span"];
        Self {
            code: text(&item["code"]),
            place: span["file"].as_str().map_or_else(String::new, |file| format!("{file}:{}", span["line"])),
            message: text(&item["message"]),
            hint: text(&item["hint"]),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} ({})", self.code, self.place, self.message, self.hint)
    }
}
