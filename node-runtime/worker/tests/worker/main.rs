//! The real program, started the way a node starts it, with real functions.

#![allow(missing_docs, reason = "a test")]

mod alone;
mod calls;
mod inline;
mod jumps;
mod served;
mod speculation;

/// The same functions as in the executor's tests, so that what passes there is denied here.
#[path = "../../../executor/tests/executor/toolchain.rs"]
mod toolchain;

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt as _, FdMapping};
use mfaas_abi::Status;
use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_executor::{SlabGeometry, SlabWriter, Verification, sealed_copy};
use mfaas_ring::preload::{FD_PRELOAD, FD_REPORT, FD_RING, FD_SLAB, Preload, SpeculationControls, StartLine};
use mfaas_ring::{Completion, Geometry, HostEnd, Submission, WorkerState, create};
use rustix::process::{Pid, Signal};

const PATIENCE: Duration = Duration::from_secs(20);
const WORKER: &str = env!("CARGO_BIN_EXE_mfaas-worker");

/// Takes an image away, while no call runs.
fn leave(writer: &mut SlabWriter, slot: u32) {
    writer.unload(slot).expect("resident");
    writer.reclaim(slot).expect("it left");
}

/// A worker, the node's end of its ring, and the loader's end of its slab.
struct Node {
    host: HostEnd,
    child: Child,
    report: Vec<StartLine>,
    writer: SlabWriter,
}

/// The budget of calls: on an emulated machine the usual one is too small for benign functions.
fn budget_us() -> u32 {
    std::env::var("MFAAS_TEST_BUDGET_US").map_or(5_000, |text| text.parse().expect("a number"))
}

/// Small, so that its memory can be looked through.
const SLAB: SlabGeometry = SlabGeometry { bank_bytes: 32 << 20, asset_bytes: 0, slots: 16 };

/// A host that a busy machine keeps from its core for a while still takes what calls ask.
fn preload() -> Preload {
    let ask_us = PATIENCE.as_micros() as u64;
    Preload { ask_us, ..Preload::new(4 << 20, SpeculationControls::ALL) }
}

impl Node {
    /// Starts a worker with these images and waits until it is ready.
    fn start(images: &[&[u8]]) -> Self {
        Self::start_as(images, &preload())
    }

    /// The same with settings of its own.
    fn start_as(images: &[&[u8]], preload: &Preload) -> Self {
        Self::spawn(images, preload).ready()
    }

    /// A worker whose images verify.
    fn start_verified(images: &[&[u8]]) -> Self {
        Self::spawn_with(images, &preload(), Verification::Required).ready()
    }

    fn ready(mut self) -> Self {
        let node = &mut self;
        let deadline = Instant::now() + PATIENCE;
        while node.host.worker_state().expect("a known state") == WorkerState::Starting {
            assert!(node.child.try_wait().expect("our child").is_none(), "the worker is gone");
            assert!(Instant::now() < deadline, "the worker does not become ready");
            std::thread::sleep(Duration::from_millis(1));
        }
        self
    }

    /// Starts a worker and reads its report to the end.
    fn spawn(images: &[&[u8]], preload: &Preload) -> Self {
        Self::spawn_with(images, preload, Verification::Waived)
    }

    /// The same with a slab that takes these images.
    fn spawn_with(images: &[&[u8]], preload: &Preload, verification: Verification) -> Self {
        let (ring, host) = create(Geometry::new(4).expect("a power of two")).expect("a ring");
        let list = sealed_copy(&serde_json::to_vec(preload).expect("plain data")).expect("a memfd");
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut slab = SlabWriter::new(SLAB, verification).expect("a slab");
        for image in images {
            slab.load(sealed_copy(image).expect("a memfd")).expect("the function loads");
        }
        let memory = slab.fd().try_clone_to_owned().expect("a descriptor");
        let descriptors =
            vec![(ring, FD_RING), (list, FD_PRELOAD), (OwnedFd::from(writer), FD_REPORT), (memory, FD_SLAB)];
        let mappings = descriptors.into_iter().map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
        let mut command = Command::new(WORKER);
        command
            .env_clear()
            .stderr(Stdio::null())
            .fd_mappings(mappings.collect())
            .expect("distinct descriptors");
        let child = command.spawn().expect("the worker starts");
        drop(command);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("a report");
        let report =
            text.lines().map(|line| serde_json::from_str(line).expect("a line of the report")).collect();
        Self { host, child, report, writer: slab }
    }

    /// Calls function `function` with `body`.
    fn call(&mut self, function: u32, body: &str) -> Completion {
        self.call_with(function, body.as_bytes())
    }

    /// Sends a call of function `function` with any body.
    fn submit(&mut self, function: u32, body: &[u8]) {
        self.submit_within(function, body, budget_us());
    }

    /// The same with another budget, in microseconds.
    fn submit_within(&mut self, function: u32, body: &[u8], budget_us: u32) {
        let mut frame = Vec::new();
        encode_request(&mut frame, "POST", "/", [], body).expect("a plain request");
        let submission = Submission {
            call_id: 1,
            function,
            budget_us,
            memory_bytes: 4 << 20,
            frame: &frame,
            resumes: false,
            may_ask: false,
            yields: false,
        };
        self.host.submit(submission).expect("room");
    }

    /// Calls function `function` with any body.
    fn call_with(&mut self, function: u32, body: &[u8]) -> Completion {
        self.submit(function, body);
        self.answer(&body.escape_ascii().to_string())
    }

    /// The answer to what was sent.
    /// How the worker ended, which it does by itself.
    fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(ended) = self.child.try_wait().expect("our child") {
                return ended;
            }
            assert!(Instant::now() < deadline, "the worker goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn answer(&mut self, what: &str) -> Completion {
        let deadline = Instant::now() + PATIENCE;
        let mut completion = Completion::new();
        loop {
            if self.host.collect(&mut completion).expect("a benign worker") {
                return completion;
            }
            let ended = self.child.try_wait().expect("our child");
            assert!(ended.is_none(), "{what}: the worker ended with {ended:?}");
            assert!(Instant::now() < deadline, "{what}: no answer");
            self.host.wait(Duration::from_millis(1)).expect("a wait");
            self.watch();
        }
    }

    /// What a dispatcher does for a call whose budget may be used up.
    fn watch(&self) {
        let deadline = self.host.watch_deadline();
        if deadline != 0 && deadline <= mfaas_ring::clock::ticks() {
            rustix::process::kill_process(Pid::from_child(&self.child), Signal::ALARM).expect("our child");
        }
    }

    /// Calls and expects a body.
    fn ok(&mut self, function: u32, body: &str) -> String {
        let completion = self.call(function, body);
        assert_eq!(completion.status, Status::Ok, "{body}: {completion:?}");
        let response = ResponseFrame::decode(&completion.response).expect("a frame");
        String::from_utf8(response.body.to_vec()).expect("text")
    }

    /// The status after which the worker still serves.
    fn status(&mut self, function: u32, body: &str) -> Status {
        self.call(function, body).status
    }

    /// How the worker ended after it was asked to.
    fn stop(mut self) -> ExitStatus {
        self.host.stop();
        let ended = self.child.wait().expect("our child");
        assert_eq!(self.host.worker_state().expect("a known state"), WorkerState::Stopped);
        ended
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Already gone after `stop`; left over only by a failed test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
