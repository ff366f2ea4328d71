//! What the controls over speculation cost a call: round trips through the rings of workers with one control,
//! with all, and with none, in turn.
//!
//! ```console
//! $ cargo bench -p mfaas-worker --bench speculation
//! ```
//! For each control whether it holds here; the median round trip in ns of every side, the median of rounds;
//! and the ratio to the side without controls, taken within a round, with its 20th and 80th percentile.

#![allow(missing_docs, reason = "a benchmark")]

#[path = "../../executor/tests/executor/toolchain.rs"]
#[allow(dead_code, reason = "shared with the tests, of which this needs one function")]
mod toolchain;

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt as _, FdMapping};
use mfaas_abi::Status;
use mfaas_abi::frame::encode_request;
use mfaas_executor::{SlabGeometry, SlabWriter, Verification, sealed_copy};
use mfaas_ring::preload::{
    FD_PRELOAD, FD_REPORT, FD_RING, FD_SLAB, Preload, SpeculationControls, SpeculationLine, StartLine,
};
use mfaas_ring::{Completion, Geometry, HostEnd, Submission, WorkerState, create};

const ROUNDS: usize = 15;
const CALLS: usize = 20_000;
const BUDGET_US: u32 = 50_000;
const SLAB: SlabGeometry = SlabGeometry { bank_bytes: 32 << 20, asset_bytes: 0, slots: 16 };
const WORKER: &str = env!("CARGO_BIN_EXE_mfaas-worker");

struct Side {
    name: &'static str,
    host: HostEnd,
    child: Child,
    says: SpeculationLine,
    frame: Vec<u8>,
    answer: Completion,
    medians: Vec<f64>,
}

fn main() {
    let none = SpeculationControls::NONE;
    let settings = [
        ("none", none),
        ("indirect branches", SpeculationControls { indirect_branches: true, ..none }),
        ("store bypass", SpeculationControls { store_bypass: true, ..none }),
        ("core scheduling", SpeculationControls { core_scheduling: true, ..none }),
        ("all", SpeculationControls::ALL),
    ];
    let mut sides = settings.map(|(name, controls)| Side::start(name, controls));
    let says = &sides[sides.len() - 1].says;
    let lines = [
        ("indirect branches", &says.indirect_branches),
        ("store bypass", &says.store_bypass),
        ("core scheduling", &says.core_scheduling),
    ];
    for (name, line) in lines {
        print(&format!("{name}: {} ({})", if line.holds { "holds" } else { "missing" }, line.reason));
    }
    for round in 0..=ROUNDS {
        let count = sides.len();
        for place in 0..count {
            let place = if round % 2 == 0 { place } else { count - 1 - place };
            let median = sides[place].round();
            // The first round warms up.
            if round > 0 {
                sides[place].medians.push(median);
            }
        }
    }
    let base = sides[0].medians.clone();
    for side in &sides {
        let ratios: Vec<f64> = side.medians.iter().zip(&base).map(|(here, base)| here / base).collect();
        let [low, middle, high] = [0.2, 0.5, 0.8].map(|part| quantile(&ratios, part));
        let median = quantile(&side.medians, 0.5);
        print(&format!("{:<18} {median:>7.0} ns  ratio {middle:.3} ({low:.3} to {high:.3})", side.name));
    }
}

impl Side {
    fn start(name: &'static str, speculation: SpeculationControls) -> Self {
        let (ring, host) = create(Geometry::new(4).expect("a power of two")).expect("a ring");
        let preload = Preload::new(4 << 20, speculation);
        let list = sealed_copy(&serde_json::to_vec(&preload).expect("plain data")).expect("a memfd");
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut slab = SlabWriter::new(SLAB, Verification::Waived).expect("a slab");
        slab.load(sealed_copy(toolchain::tenant()).expect("a memfd")).expect("the function loads");
        let descriptors = [
            (ring, FD_RING),
            (list, FD_PRELOAD),
            (OwnedFd::from(writer), FD_REPORT),
            (slab.finish(), FD_SLAB),
        ];
        let mappings = descriptors.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
        let mut command = Command::new(WORKER);
        command.env_clear().fd_mappings(mappings.into()).expect("distinct descriptors");
        let child = command.spawn().expect("the worker starts");
        drop(command);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("a report");
        let StartLine::Mapped { speculation: says, .. } =
            serde_json::from_str(text.lines().next().expect("a line")).expect("of the report")
        else {
            panic!("{text}")
        };
        let mut frame = Vec::new();
        encode_request(&mut frame, "POST", "/", [], b"hello").expect("a plain request");
        let mut side =
            Self { name, host, child, says, frame, answer: Completion::new(), medians: Vec::new() };
        let state = side.host.wait_started(Duration::from_secs(20)).expect("a known state");
        assert_eq!(state, WorkerState::Ready);
        side
    }

    /// The median of so many round trips, in ns.
    fn round(&mut self) -> f64 {
        let mut times: Vec<f64> = (0..CALLS).map(|number| self.call(number as u64)).collect();
        times.sort_by(f64::total_cmp);
        times[CALLS / 2]
    }

    fn call(&mut self, call_id: u64) -> f64 {
        let begin = Instant::now();
        let (frame, memory_bytes) = (&self.frame, 4 << 20);
        let submission = Submission {
            call_id,
            function: 0,
            budget_us: BUDGET_US,
            memory_bytes,
            frame,
            resumes: false,
            may_ask: false,
            yields: false,
        };
        self.host.submit(submission).expect("room");
        while !self.host.collect(&mut self.answer).expect("a benign worker") {
            std::hint::spin_loop();
        }
        let spent = begin.elapsed();
        assert_eq!(self.answer.status, Status::Ok);
        spent.as_nanos() as f64
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.host.stop();
        let _ = self.child.wait();
    }
}

fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

fn print(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("somebody listens");
}
