//! Both ends of a ring whose memory a third party writes to.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

use mfaas_abi::Status;
use mfaas_abi::limits::FRAME_BYTES_MAX;
use mfaas_ring::{
    Answer, Completion, Geometry, HostEnd, Next, SMALL_BYTES_MAX, Submission, Told, WorkerEnd, create,
    wait_any,
};

const SLOTS: u32 = 4;
/// 64-bit words of header, records and small payloads.
const HOT_WORDS: u64 = 4 * 512;

/// Any bytes as a script: calls, answers, collections, and writes of any word at any place between
/// them.
///
/// # Panics
/// When an end gives a length beyond its limit, more answers than calls, or a call's name that is not the one
/// submitted; and, as long as the script wrote nothing itself, when the ring is not a queue.
pub fn ring(input: &[u8]) {
    let Ok(mut script) = Script::new() else { return };
    let mut input = input;
    while let Some((&step, rest)) = input.split_first() {
        input = rest;
        match step % 4 {
            0 => script.submit(&mut input),
            1 => script.answer(&mut input),
            2 => script.collect(),
            _ => script.scribble(&mut input),
        }
    }
}

struct Script {
    memory: OwnedFd,
    host: HostEnd,
    worker: WorkerEnd,
    done: Completion,
    buffer: Vec<u8>,
    /// Payloads on their way; the answer is the request.
    called: VecDeque<Vec<u8>>,
    submitted: u64,
    collected: u64,
    benign: bool,
}

impl Script {
    fn new() -> Result<Self, mfaas_ring::RingError> {
        let (memory, host) = create(Geometry::new(SLOTS)?)?;
        let mut worker = WorkerEnd::attach(&memory)?;
        worker.set_spin_rounds(0);
        Ok(Self {
            memory,
            host,
            worker,
            done: Completion::new(),
            buffer: vec![0; WorkerEnd::BUFFER_BYTES],
            called: VecDeque::new(),
            submitted: 0,
            collected: 0,
            benign: true,
        })
    }

    fn submit(&mut self, input: &mut &[u8]) {
        let bytes = number(input, 2) as usize % (SMALL_BYTES_MAX + 64);
        let frame = vec![self.submitted as u8 | 1; bytes];
        let call = Submission {
            call_id: self.submitted,
            function: 0,
            budget_us: 0,
            memory_bytes: 0,
            frame: &frame,
            resumes: false,
            may_ask: self.submitted.is_multiple_of(2),
            yields: self.submitted.is_multiple_of(3),
        };
        if self.host.submit(call).is_ok() {
            self.called.push_back(frame);
            self.submitted += 1;
        } else {
            assert_eq!(self.host.in_flight(), SLOTS, "room is refused only when there is none");
        }
    }

    fn answer(&mut self, input: &mut &[u8]) {
        let takes = number(input, 1).is_multiple_of(2) || self.benign;
        let next = self.worker.next(Duration::ZERO);
        assert!(next.is_ok() || !self.benign, "a benign host breaks the protocol");
        let Ok(Next::Call(job)) = next else { return };
        assert!(job.frame_bytes <= FRAME_BYTES_MAX);
        let mut bytes = 0;
        if takes {
            bytes = self.worker.take_frame(&mut self.buffer).expect("the buffer holds every frame");
        }
        // Nobody looks meanwhile, so a benign word is as the worker left it.
        self.worker.set_ask_us(0);
        let told = self.worker.ask(b"question", &mut [0; 64]);
        assert!(matches!(told, Ok(Told::Nothing)) || !self.benign, "nobody has told anything");
        let answer = Answer {
            status: Status::Ok,
            cold: false,
            waits: false,
            response: &self.buffer[..bytes],
            logs: b"",
            message: b"",
            inline: b"",
            wall_ns: 0,
            cpu_ns: 0,
            memory_bytes: 0,
        };
        self.worker.reply(&answer).expect("an answer within the limits");
    }

    fn collect(&mut self) {
        // What is looked at between collections, errors included.
        let _ = (self.host.worker_state(), self.host.watch_deadline(), self.host.oldest_in_flight());
        let ready = wait_any(&[self.host.bell()], Duration::ZERO, || self.host.is_ready());
        assert!(ready.is_ok(), "no time is no error");
        let mut question = Vec::new();
        if let Ok(Some(call_id)) = self.host.question(&mut question) {
            assert!(!self.benign, "every question was withdrawn");
            assert_eq!(call_id, self.collected, "names are the host's own");
            assert!(question.len() <= FRAME_BYTES_MAX);
            self.host.tell(Some(&question));
        }
        let collected = self.host.collect(&mut self.done);
        assert!(collected.is_ok() || !self.benign, "a benign worker breaks the protocol");
        assert!(self.done.response.len() <= FRAME_BYTES_MAX);
        if !matches!(collected, Ok(true)) {
            return;
        }
        assert_eq!(self.done.call_id, self.collected, "names are the host's own");
        self.collected += 1;
        assert!(self.collected <= self.submitted, "more answers than calls");
        let sent = self.called.pop_front();
        assert!(!self.benign || sent.as_deref() == Some(&*self.done.response), "another answer");
    }

    /// Writes a word where it matters.
    fn scribble(&mut self, input: &mut &[u8]) {
        let word = number(input, 2) % HOT_WORDS;
        let bytes = number(input, 1) as usize % 8 + 1;
        let value = number(input, bytes).to_le_bytes();
        self.benign = false;
        // A failure would mean that the memory is gone, which the ends hold mapped.
        let _ = rustix::io::pwrite(&self.memory, &value, word * 8);
    }
}

/// A number of so many bytes; zeros follow the end.
fn number(input: &mut &[u8], bytes: usize) -> u64 {
    let mut filled = [0; 8];
    let (now, rest) = input.split_at(bytes.min(input.len()));
    filled[..now.len()].copy_from_slice(now);
    *input = rest;
    u64::from_le_bytes(filled)
}
