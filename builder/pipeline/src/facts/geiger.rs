//! geiger over many files, in child processes in the build sandbox, whatever becomes of them.
//!
//! A child takes a range of files. Where one dies, the file that it had begun is to blame: it gets
//! a process of its own once, and is unknown if that dies, too. No file is ever zero because it
//! was not counted.

use std::collections::VecDeque;
use std::ops::Range;

use mfaas_rules::crate_facts::GeigerReport;
use mfaas_rules::limits::{CRATE_FACTS, GEIGER};
use mfaas_sandbox::Exit;

use super::child::Line;
use crate::error::BuilderError;
use crate::sandbox::{Filter, Job, Ran, Sandbox};
use crate::toolchain::host_libraries;

/// How the child of `facts` is called.
pub(crate) const GEIGER_COMMAND: &str = "geiger";

/// Counts each text; `None` is a file that is not UTF-8. The answers are in the same order.
pub(super) fn count(texts: &[Option<&str>], sandbox: &Sandbox) -> Result<Vec<GeigerReport>, BuilderError> {
    let scratch = tempfile::tempdir().map_err(BuilderError::io("the directory for temporary files"))?;
    let mut reports: Vec<Option<GeigerReport>> = vec![None; texts.len()];
    for (number, text) in texts.iter().enumerate() {
        match text {
            None => reports[number] = Some(unknown("the file is not UTF-8")),
            Some(text) => {
                let path = scratch.path().join(number.to_string());
                std::fs::write(&path, text).map_err(BuilderError::io(&path))?;
            }
        }
    }
    let mut pending: VecDeque<Range<usize>> = batches(texts).into();
    let mut deaths = 0;
    while let Some(range) = pending.pop_front() {
        if deaths >= CRATE_FACTS.geiger_deaths_max {
            break;
        }
        let ran = run(sandbox, scratch.path(), &range)?;
        let begun = take(&ran.stdout, &range, &mut reports);
        let rest = range.clone().find(|number| reports[*number].is_none());
        let Some(lost) = begun.filter(|number| reports[*number].is_none()).or(rest) else { continue };
        deaths += 1;
        if lost == range.start {
            reports[lost] = Some(unknown(&ending(ran.exit)));
        } else {
            pending.push_front(lost..lost + 1);
        }
        pending.insert(usize::from(lost != range.start), lost + 1..range.end);
        pending.retain(|range| !range.is_empty());
    }
    let given_up = || unknown("it was not reached: too many other files ended the counter");
    Ok(reports.into_iter().map(|report| report.unwrap_or_else(given_up)).collect())
}

fn unknown(reason: &str) -> GeigerReport {
    GeigerReport::Unknown { reason: reason.to_owned() }
}

/// Ranges of readable files within the limits of one process.
fn batches(texts: &[Option<&str>]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (number, text) in texts.iter().enumerate() {
        let Some(text) = text else { continue };
        bytes += text.len();
        match batches.last_mut() {
            Some(last)
                if last.end == number
                    && last.len() < CRATE_FACTS.geiger_files_max
                    && bytes <= CRATE_FACTS.geiger_bytes_max =>
            {
                last.end += 1;
            }
            _ => {
                bytes = text.len();
                batches.push(number..number + 1);
            }
        }
    }
    batches
}

fn run(sandbox: &Sandbox, directory: &std::path::Path, range: &Range<usize>) -> Result<Ran, BuilderError> {
    let own = std::env::current_exe().map_err(BuilderError::io("this program's own file"))?;
    let (program, source) = (sandbox.execute(&own, "/mfaas-builder"), sandbox.read(directory, "/source"));
    let mut views = host_libraries(sandbox);
    let job = Job {
        program: program.inside.clone(),
        arguments: vec![
            GEIGER_COMMAND.to_owned(),
            source.inside.clone(),
            range.start.to_string(),
            range.end.to_string(),
        ],
        environment: Vec::new(),
        directory: source.inside.clone(),
        limits: GEIGER,
        filter: Filter::Compiler,
        views: {
            views.extend([program, source]);
            views
        },
    };
    sandbox.run(job)
}

/// Takes the answers of a child; the file that it began last. A line about a file outside of its
/// range is no line of ours.
fn take(stdout: &[u8], range: &Range<usize>, reports: &mut [Option<GeigerReport>]) -> Option<usize> {
    let mut begun = None;
    for line in stdout.split(|byte| *byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(Line::Begins(file)) if range.contains(&file) => begun = Some(file),
            Ok(Line::Ended { file, report }) if begun == Some(file) => reports[file] = Some(report),
            Ok(_) | Err(_) => {}
        }
    }
    begun
}

/// What a person is told about a child that died.
fn ending(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("its process ended with {code} in the middle of the file"),
        Exit::Signal(signal) => format!("the file crashed it (signal {signal})"),
        Exit::Denied => "the file made it do what it has no use for".to_owned(),
        Exit::CpuLimit => format!("the file takes more than {} s of CPU", GEIGER.cpu_seconds_max),
        Exit::WallLimit => format!("the file takes more than {} s", GEIGER.wall_seconds_max),
        Exit::MemoryLimit => format!("the file takes more than {} bytes", GEIGER.memory_bytes_max),
        Exit::ProcessLimit => format!("the file takes more than {} processes", GEIGER.processes_max),
        Exit::OutputLimit | Exit::FileLimit => "the file made it write more than it may".to_owned(),
        Exit::Cancelled => "it was cancelled".to_owned(),
    }
}

#[cfg(test)]
mod tests;
