//! Real functions in a real executor: every end a call can have, and what it leaves behind: nothing.

#![allow(missing_docs, reason = "a test")]
#![allow(unsafe_code, reason = "the watcher sends a signal to one thread")]

mod assets;
mod ends;
mod holes;
mod hostility;
mod hosts;
mod inline;
mod packing;
mod registers;
mod state;
mod suspended;
mod toolchain;
mod watcher;
mod window;

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_abi::{Level, LogReader, Status};
use mfaas_executor::{Executor, Limits, Outcome, Slab, SlabGeometry, SlabWriter, Verification};
use mfaas_ident::{Budget, MemoryLimit};

use crate::watcher::Watcher;

/// An executor over a slab with a few images, and the one that is called.
struct Fixture {
    executor: Executor,
    slot: u32,
    limits: Limits,
    watcher: Watcher,
    /// There is one executor in a process.
    _alone: MutexGuard<'static, ()>,
}

/// An outcome that outlives its call.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: Status,
    body: Vec<u8>,
    logs: Vec<(Level, String)>,
    message: String,
    cpu_ns: u64,
    memory_bytes: u64,
}

impl Fixture {
    fn new(image: &[u8]) -> Self {
        Self::with(&[image])
    }

    /// The images in slots 0, 1, …
    fn with(images: &[&[u8]]) -> Self {
        let alone = Self::alone();
        Self::made(slab(images), alone)
    }

    fn made(slab: Slab, alone: MutexGuard<'static, ()>) -> Self {
        let memory = MemoryLimit::from_bytes(4 << 20).expect("a multiple of a page");
        let budget = Budget::from_micros(50_000).expect("within bounds");
        let executor = Executor::new(slab, memory, watcher::CLOCK).expect("an executor");
        executor.confirm_window().expect("nothing else lies there");
        let limits = Limits { budget, memory };
        Self { executor, slot: 0, limits, watcher: Watcher::start(), _alone: alone }
    }

    /// As long as it is kept, there is no other executor.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_budget_us(mut self, micros: u64) -> Self {
        self.limits.budget = Budget::from_micros(micros).expect("within bounds");
        self
    }

    fn call(&mut self, body: &[u8]) -> Answer {
        let mut frame = Vec::new();
        encode_request(&mut frame, "POST", "/", [], body).expect("a plain request");
        self.executor.request()[..frame.len()].copy_from_slice(&frame);
        let word = self.watcher.word();
        let mut ended = self.executor.call(self.slot, frame.len(), self.limits, word).expect("resident");
        answer(ended.outcome())
    }

    /// Calls and expects a body.
    fn ok(&mut self, body: &str) -> String {
        let answer = self.call(body.as_bytes());
        assert_eq!(answer.status, Status::Ok, "{body}: {answer:?}");
        String::from_utf8(answer.body).expect("text")
    }
}

/// Writes the images for machines without a compiler, into the directory that MFAAS_TEST_IMAGES_INTO
/// names. No test of its own: `scripts/test-keys` asks for it.
#[test]
#[ignore = "writes files for scripts/test-keys"]
fn images_are_written() {
    let directory = std::env::var_os("MFAAS_TEST_IMAGES_INTO").expect("the name of a directory");
    let images = [
        ("tenant", toolchain::tenant()),
        ("hostile", toolchain::hostile()),
        ("jumper", toolchain::jumper()),
        ("services", toolchain::services()),
        ("waiter", toolchain::waiter()),
    ];
    for (name, image) in images {
        let file = std::path::Path::new(&directory).join(name).with_extension("so");
        std::fs::write(file, image).expect("written");
    }
}

/// A slab with these images, which nobody writes any more. The hostile image does not verify.
fn slab(images: &[&[u8]]) -> Slab {
    let geometry = SlabGeometry { bank_bytes: 16 << 20, asset_bytes: 0, slots: 64 };
    let verified = [toolchain::tenant, toolchain::waiter];
    let verify = images.iter().all(|image| verified.iter().any(|one| one() == *image));
    let verification = if verify { Verification::Required } else { Verification::Waived };
    let mut writer = SlabWriter::new(geometry, verification).expect("a slab");
    for (slot, image) in (0..).zip(images) {
        let loaded = writer.load(sealed(image)).expect("the function loads");
        assert_eq!(loaded.slot, slot);
    }
    Slab::map(writer.finish()).expect("the window is free")
}

fn sealed(image: &[u8]) -> OwnedFd {
    mfaas_executor::sealed_copy(image).expect("a memfd")
}

fn answer(outcome: Outcome<'_>) -> Answer {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let body = match outcome.status {
        Status::Ok | Status::HandlerError => {
            ResponseFrame::decode(outcome.response).expect("checked by the executor").body.to_vec()
        }
        _ => Vec::new(),
    };
    Answer {
        status: outcome.status,
        body,
        logs: LogReader::new(outcome.logs).map(|entry| (entry.level, text(entry.text))).collect(),
        message: text(outcome.message),
        cpu_ns: outcome.cpu_ns,
        memory_bytes: outcome.memory_bytes,
    }
}
