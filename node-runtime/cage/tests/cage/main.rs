//! Real functions in a real cage: every end a call can have, and what it leaves behind: nothing.

#![allow(missing_docs, reason = "a test")]

mod ends;
mod hostility;
mod state;
mod toolchain;

use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_abi::{Level, LogReader, Status};
use mfaas_cage::{Cage, Image, Limits, Outcome};
use mfaas_ident::{Budget, MemoryLimit};

/// A cage with one image in it.
struct Fixture {
    cage: Cage,
    image: Image,
    limits: Limits,
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
        let memory = MemoryLimit::from_bytes(4 << 20).expect("a multiple of a page");
        let budget = Budget::from_micros(50_000).expect("within bounds");
        let cage = Cage::new(memory).expect("a cage");
        let image = load(image);
        Self { cage, image, limits: Limits { budget, memory } }
    }

    fn with_budget_us(mut self, micros: u64) -> Self {
        self.limits.budget = Budget::from_micros(micros).expect("within bounds");
        self
    }

    fn call(&mut self, body: &[u8]) -> Answer {
        let mut frame = Vec::new();
        encode_request(&mut frame, "POST", "/", [], body).expect("a plain request");
        self.cage.call(&mut self.image, &frame, self.limits, answer)
    }

    /// Calls and expects a body.
    fn ok(&mut self, body: &str) -> String {
        let answer = self.call(body.as_bytes());
        assert_eq!(answer.status, Status::Ok, "{body}: {answer:?}");
        String::from_utf8(answer.body).expect("text")
    }
}

fn load(image: &[u8]) -> Image {
    let sealed = mfaas_cage::sealed_copy(image).expect("a memfd");
    Image::load(sealed).expect("the function loads")
}

fn answer(outcome: Outcome<'_>) -> Answer {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let body = match outcome.status {
        Status::Ok | Status::HandlerError => {
            ResponseFrame::decode(outcome.response).expect("checked by the cage").body.to_vec()
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
