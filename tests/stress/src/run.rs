//! One stress input in the real builder, and how it ended.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::input::{Expect, StressInput};
use crate::installed::Installed;
use crate::watch::{Seen, watch};

/// How a stress input ended.
#[derive(Debug)]
pub struct Ending {
    /// What `check` says: `refused`, `compile_error`, …
    pub outcome: String,
    /// The stage that it reached.
    pub stage: String,
    /// Codes of the errors, in order.
    pub codes: Vec<String>,
    /// The expected limit that the answer names, and what it says of its value.
    pub limit: Option<(String, String)>,
    /// The first error's message.
    pub message: String,
    /// From start to end.
    pub wall: Duration,
    /// What was used.
    pub seen: Seen,
    /// Files that were left in the scratch directory.
    pub files_left: usize,
    /// Processes that outlived the builder.
    pub processes_left: Vec<u32>,
}

/// Checks a stress input; `lowered` are limits as `name=value`.
pub fn run(input: &StressInput, installed: &Installed, lowered: &[&str]) -> anyhow::Result<Ending> {
    let place = tempfile::Builder::new().prefix("stress-").tempdir()?;
    let package = input.write_into(place.path())?;
    let scratch = place.path().join("scratch");
    std::fs::create_dir(&scratch)?;
    let mut command = installed.check(&package, &scratch);
    command.args(lowered.iter().flat_map(|limit| ["--limit", limit]));
    let start = Instant::now();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("the builder")?;
    let (root, ended) = (child.id(), AtomicBool::new(false));
    let (output, seen) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(root, &ended));
        let output = child.wait_with_output();
        ended.store(true, Ordering::Release);
        (output, watcher.join())
    });
    let (output, wall) = (output?, start.elapsed());
    let Ok(seen) = seen else { bail!("watching panicked") };
    let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else {
        bail!("{}: the builder is lost: {}", input.name, String::from_utf8_lossy(&output.stderr));
    };
    Ok(read(&report, &input.expect, wall, seen, count(&scratch)?))
}

fn count(directory: &Path) -> anyhow::Result<usize> {
    Ok(std::fs::read_dir(directory)?.count())
}

fn read(report: &Value, expect: &Expect, wall: Duration, seen: Seen, files_left: usize) -> Ending {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = report["diagnostics"].as_array().map(Vec::as_slice).unwrap_or_default();
    let errors: Vec<&Value> = all.iter().filter(|item| item["level"] == "error").collect();
    let messages: Vec<String> = errors.iter().map(|error| text(&error["message"])).collect();
    let stages = report["stages"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ending {
        outcome: text(&report["outcome"]),
        stage: stages.last().map(|stage| text(&stage["stage"])).unwrap_or_default(),
        codes: errors.iter().map(|error| text(&error["code"])).collect(),
        limit: expect.limits.iter().find_map(|name| Some((name.clone(), value_of(name, &messages)?))),
        message: messages.first().cloned().unwrap_or_default(),
        wall,
        processes_left: seen.left(),
        seen,
        files_left,
    }
}

/// What the messages say about a limit: `` `name` (value) `` or `name: n where at most value is …`.
fn value_of(name: &str, messages: &[String]) -> Option<String> {
    messages.iter().find_map(|message| {
        if let Some((_, rest)) = message.split_once(&format!("`{name}` (")) {
            return rest.split_once(')').map(|(value, _)| value.to_owned());
        }
        let (_, rest) = message.split_once(&format!("{name}: "))?;
        let (_, value) = rest.split_once(" where at most ")?;
        value.split_once(' ').map(|(value, _)| value.to_owned())
    })
}

impl Ending {
    /// What is wrong with it; nothing, if a limit that may end this stress input did and nothing is left.
    pub fn faults(&self, expect: &Expect) -> Vec<String> {
        let mut faults = Vec::new();
        if self.limit.is_none() {
            faults.push(format!("no expected limit is named: {} {:?}", self.outcome, self.message));
        }
        match self.codes.first() {
            Some(code) if expect.codes.contains(code) => {}
            code => faults.push(format!("the first code is {code:?}, not one of {:?}", expect.codes)),
        }
        if self.files_left > 0 {
            faults.push(format!("{} files are left behind", self.files_left));
        }
        if !self.processes_left.is_empty() {
            faults.push(format!("processes are left behind: {:?}", self.processes_left));
        }
        faults
    }
}

#[cfg(test)]
mod tests;
