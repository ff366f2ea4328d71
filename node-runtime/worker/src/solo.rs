//! A developer's tool: a node for one function, which starts this program again as its worker.
//! So what it shows is what a node would get, lock-down included.

use std::io::{PipeReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use command_fds::{CommandFdExt as _, FdMapping};
use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_abi::{LogReader, Status};
use mfaas_executor::sealed_copy;
use mfaas_ring::clock::ticks;
use mfaas_ring::preload::{FD_PRELOAD, FD_REPORT, FD_RING, FD_SLAB, Preload, SpeculationControls, StartLine};
use mfaas_ring::{Completion, Geometry, HostEnd, Submission, WorkerState, create};
use rustix::process::{Pid, Signal};
use serde_json::json;

use crate::arguments::Call;
use crate::probe::{linked, read};

/// How long to wait for the worker to load, and for one answer beyond its budget.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a budget is looked at.
const WATCH: Duration = Duration::from_millis(1);
/// Exit code when the last call did not answer.
const NOT_ANSWERED: u8 = 7;

/// Starts a worker, calls the function, prints each answer.
pub(crate) fn call(call: &Call) -> anyhow::Result<ExitCode> {
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body).context("read the body")?;
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", [], &body).context("make the request")?;
    let (mut host, mut child) = start(call, linked(&read(&call.file)?, call.verification)?)?;
    let mut answered = true;
    for call_id in 0..call.times {
        host.submit(Submission {
            call_id,
            function: 0,
            budget_us: u32::try_from(call.budget.as_micros()).unwrap_or(u32::MAX),
            memory_bytes: call.memory.as_bytes(),
            frame: &frame,
            resumes: false,
            may_ask: false,
            yields: false,
        })?;
        let completion = await_answer(&mut host, &mut child)?;
        answered = matches!(completion.status, Status::Ok | Status::HandlerError);
        print(&completion, call.raw, call_id + 1 == call.times)?;
    }
    host.stop();
    let ended = child.wait().context("wait for the worker")?;
    anyhow::ensure!(ended.success(), "the worker ended with {ended}");
    Ok(if answered { ExitCode::SUCCESS } else { ExitCode::from(NOT_ANSWERED) })
}

/// The worker, ready to be called.
fn start(call: &Call, slab: OwnedFd) -> anyhow::Result<(HostEnd, Child)> {
    let (ring, host) = create(Geometry::new(1)?)?;
    let preload = Preload::new(call.memory.as_bytes(), SpeculationControls::ALL);
    let settings = sealed_copy(&serde_json::to_vec(&preload)?).context("write the settings")?;
    let (reader, writer) = std::io::pipe().context("make a pipe")?;
    let descriptors =
        [(ring, FD_RING), (settings, FD_PRELOAD), (OwnedFd::from(writer), FD_REPORT), (slab, FD_SLAB)];
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command
        .env_clear()
        .fd_mappings(descriptors.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd }).into())
        .context("pass descriptors")?;
    let mut child = command.spawn().context("start the worker")?;
    // The command holds our copies of the descriptors, the pipe's write end among them.
    drop(command);
    expect_mapped(reader)?;
    let host = await_ready(host, &mut child)?;
    Ok((host, child))
}

/// Reads the report to its end; an error if the worker could not map the slab.
fn expect_mapped(mut report: PipeReader) -> anyhow::Result<()> {
    let mut text = String::new();
    report.read_to_string(&mut text).context("read the worker's report")?;
    let first = text.lines().next().context("the worker ended before it had loaded anything")?;
    match serde_json::from_str(first).context("parse the worker's report")? {
        StartLine::Failed { error } => bail!("{error}"),
        StartLine::Mapped { slots: _, keys: _, speculation: _ } => Ok(()),
    }
}

fn await_ready(host: HostEnd, child: &mut Child) -> anyhow::Result<HostEnd> {
    let deadline = Instant::now() + PATIENCE;
    while host.worker_state()? == WorkerState::Starting {
        alive(child)?;
        anyhow::ensure!(Instant::now() < deadline, "the worker did not become ready");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(host)
}

fn await_answer(host: &mut HostEnd, child: &mut Child) -> anyhow::Result<Completion> {
    let deadline = Instant::now() + 2 * PATIENCE;
    let mut completion = Completion::new();
    loop {
        if host.collect(&mut completion)? {
            return Ok(completion);
        }
        alive(child)?;
        anyhow::ensure!(Instant::now() < deadline, "the worker did not answer");
        host.wait(WATCH)?;
        let deadline = host.watch_deadline();
        if deadline != 0 && deadline <= ticks() {
            // It fails for a worker that has ended, which the next look shows.
            let _ = rustix::process::kill_process(Pid::from_child(child), Signal::ALARM);
        }
    }
}

fn alive(child: &mut Child) -> anyhow::Result<()> {
    match child.try_wait().context("look at the worker")? {
        None => Ok(()),
        Some(ended) => bail!("the worker ended with {ended}"),
    }
}

fn print(completion: &Completion, raw: bool, last: bool) -> anyhow::Result<()> {
    let response = ResponseFrame::decode(&completion.response).ok();
    let body = response.map_or(&[][..], |response| response.body);
    let mut out = std::io::stdout();
    if raw {
        if last {
            out.write_all(body).context("write the body")?;
            writeln_stderr(completion);
        }
        return Ok(());
    }
    let logs: Vec<_> = LogReader::new(&completion.logs)
        .map(|entry| json!({ "level": entry.level.name(), "text": String::from_utf8_lossy(entry.text) }))
        .collect();
    let line = json!({
        "status": completion.status.name(),
        "cold": completion.cold,
        "http_status": response.map(|response| response.status),
        "body": std::str::from_utf8(body).ok(),
        "body_base64": base64::engine::general_purpose::STANDARD.encode(body),
        "message": String::from_utf8_lossy(&completion.message),
        "logs": logs,
        "wall_us": completion.wall_ns as f64 / 1e3,
        "cpu_us": completion.cpu_ns as f64 / 1e3,
        "memory_bytes": completion.memory_bytes,
    });
    writeln!(out, "{line}").context("write the answer")
}

/// With `--raw`, what went wrong.
fn writeln_stderr(completion: &Completion) {
    if !completion.message.is_empty() {
        let text = String::from_utf8_lossy(&completion.message);
        // Without a standard error there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "{}: {text}", completion.status);
    }
}
