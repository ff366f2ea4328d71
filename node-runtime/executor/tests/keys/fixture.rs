//! One executor for all tests, with the images of a tenant, of a hostile function and of one that waits.

use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_abi::{LogReader, Status};
use mfaas_executor::{
    ASK_NOBODY, AskHost, Executor, Limits, Slab, SlabGeometry, SlabWriter, Start, Verification, sealed_copy,
};
use mfaas_ident::{Budget, MemoryLimit};

use crate::toolchain;
use crate::watcher::{CLOCK, Watcher};

pub(crate) const TENANT: u32 = 0;
pub(crate) const HOSTILE: u32 = 1;
const WAITER: u32 = 2;
/// The longest there is: an emulated machine has none of its host's time to itself.
const BUDGET_US: u64 = 10_000_000;

pub(crate) struct Fixture {
    pub(crate) executor: Executor,
    pub(crate) limits: Limits,
    watcher: Option<Watcher>,
}

/// What is looked at of an outcome.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) body: Vec<u8>,
    pub(crate) logs: Vec<String>,
    pub(crate) message: String,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let geometry = SlabGeometry { bank_bytes: 16 << 20, asset_bytes: 0, slots: 64 };
        let mut writer = SlabWriter::new(geometry, Verification::Waived).expect("a slab");
        let images =
            [(TENANT, toolchain::tenant()), (HOSTILE, toolchain::hostile()), (WAITER, toolchain::waiter())];
        for (slot, image) in images {
            let loaded = writer.load(sealed_copy(image).expect("a memfd")).expect("the function loads");
            assert_eq!(loaded.slot, slot);
        }
        let slab = Slab::map(writer.finish()).expect("the window is free");
        let memory = MemoryLimit::from_bytes(4 << 20).expect("a multiple of a page");
        let budget = Budget::from_micros(BUDGET_US).expect("within bounds");
        let executor = Executor::new(slab, memory, CLOCK).expect("an executor");
        Self { executor, limits: Limits { budget, memory }, watcher: None }
    }

    /// From now on budgets are watched.
    pub(crate) fn watch(&mut self) {
        self.watcher = Some(Watcher::start());
    }

    pub(crate) fn tenant(&mut self, body: &str) -> Answer {
        self.call(TENANT, body.as_bytes())
    }

    /// The tenant's call with a budget of its own.
    pub(crate) fn tenant_within(&mut self, micros: u64, body: &str) -> Answer {
        let usual = self.limits.budget;
        self.limits.budget = Budget::from_micros(micros).expect("within bounds");
        let answer = self.tenant(body);
        self.limits.budget = usual;
        answer
    }

    /// The hostile function with a letter and addresses.
    pub(crate) fn hostile(&mut self, what: u8, addresses: &[usize]) -> Answer {
        let mut body = vec![what];
        body.extend(addresses.iter().flat_map(|address| address.to_le_bytes()));
        self.call(HOSTILE, &body)
    }

    /// The hostile function with a few letters.
    pub(crate) fn letters(&mut self, letters: &[u8]) -> Answer {
        self.call(HOSTILE, letters)
    }

    /// The same within so many microseconds.
    pub(crate) fn letters_within(&mut self, micros: u64, letters: &[u8]) -> Answer {
        let usual = self.limits.budget;
        self.limits.budget = Budget::from_micros(micros).expect("within bounds");
        let answer = self.letters(letters);
        self.limits.budget = usual;
        answer
    }

    /// After whatever it was, both functions answer as always.
    pub(crate) fn lives(&mut self, after: &str) {
        let answer = self.tenant("next");
        assert_eq!((answer.status, &*answer.body), (Status::Ok, &b"NEXT"[..]), "after {after}: {answer:?}");
        let answer = self.hostile(b'-', &[]);
        assert_eq!((answer.status, &*answer.body), (Status::Ok, &b"!"[..]), "after {after}: {answer:?}");
    }

    /// A call that waits once, and is answered where it is.
    pub(crate) fn waiter(&mut self, ask: AskHost<'_>) -> Answer {
        const ONCE_WITH_SOME_MEMORY: &[u8] = &[b'w', 1, 184, 11, 0, 0];
        self.enter(WAITER, ONCE_WITH_SOME_MEMORY, ask)
    }

    fn call(&mut self, slot: u32, body: &[u8]) -> Answer {
        self.enter(slot, body, ASK_NOBODY)
    }

    fn enter(&mut self, slot: u32, body: &[u8], ask: AskHost<'_>) -> Answer {
        let frame = request(body);
        self.executor.request()[..frame.len()].copy_from_slice(&frame);
        let unwatched = std::sync::atomic::AtomicU64::new(0);
        let word = self.watcher.as_ref().map_or(&unwatched, Watcher::word);
        let start = Start { slot, frame_bytes: frame.len(), resumes: false, limits: self.limits };
        let mut ended = self.executor.enter(start, word, ask).expect("resident");
        let outcome = ended.outcome();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let response = ResponseFrame::decode(outcome.response);
        Answer {
            status: outcome.status,
            body: response.map(|response| response.body.to_vec()).unwrap_or_default(),
            logs: LogReader::new(outcome.logs).map(|entry| text(entry.text)).collect(),
            message: text(outcome.message),
        }
    }
}

/// The frame of a request with a body.
pub(crate) fn request(body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", [], body).expect("a plain request");
    frame
}
