//! The worker's end: takes calls one by one, answers each, allocates nothing after it attached.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mfaas_abi::Status;

use crate::RingError;
use crate::layout::{FLAG_COLD, Header, MAGIC, Part, VERSION, WorkerState, pack, unpack};
use crate::map::Mapping;
use crate::wait::Bell;

/// The worker's side of a ring.
#[derive(Debug)]
pub struct WorkerEnd {
    mapping: Mapping,
    completed: u32,
    heartbeat: u64,
}

/// What [`WorkerEnd::next`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A call; its frame is in the buffer. It must be answered before the next one is taken.
    Call(Job),
    /// Nothing within the timeout.
    Idle,
    /// Everything is answered and the host wants the worker to leave.
    Stop,
}

/// One call as the worker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The host's name for the call.
    pub call_id: u64,
    /// Index of the function in the preload list; not checked against it.
    pub function: u32,
    /// Length of the frame in the buffer, in bytes.
    pub frame_bytes: usize,
}

/// The answer to the call taken last.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// How the call ended.
    pub status: Status,
    /// Whether this was the function's first call here.
    pub cold: bool,
    /// The response frame, at most [`mfaas_abi::limits::FRAME_BYTES_MAX`].
    pub response: &'a [u8],
    /// Log records, at most [`mfaas_abi::limits::LOG_BYTES_MAX`].
    pub logs: &'a [u8],
    /// Text about the end, at most [`mfaas_abi::limits::PANIC_BYTES_MAX`].
    pub message: &'a [u8],
    /// Wall time of the handler, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the handler, in nanoseconds.
    pub cpu_ns: u64,
    /// Most arena bytes in use at once.
    pub memory_bytes: u64,
}

impl WorkerEnd {
    /// Attaches to the ring behind `fd`, which may be closed afterwards.
    pub fn attach(fd: impl AsFd) -> Result<Self, RingError> {
        let mapping = Mapping::attach(fd)?;
        let header = mapping.header();
        if header.magic.load(Ordering::Acquire) != MAGIC || header.version.load(Ordering::Relaxed) != VERSION
        {
            return Err(RingError::Violation("the memory is not a ring of this version"));
        }
        Ok(Self { mapping, completed: 0, heartbeat: 0 })
    }

    /// Size of the buffer that [`WorkerEnd::next`] needs, in bytes.
    pub const BUFFER_BYTES: usize = Part::Request.bytes_max();

    /// The generation that the host gave the ring.
    pub fn generation(&self) -> u64 {
        self.mapping.header().generation.load(Ordering::Acquire)
    }

    /// Tells the host what the worker is doing.
    pub fn set_state(&mut self, state: WorkerState) {
        self.mapping.header().state.0.store(state as u32, Ordering::SeqCst);
        self.host_bell().ring();
    }

    /// Waits up to `timeout` for a call and copies its frame to the start of `buffer`, which must
    /// hold [`Self::BUFFER_BYTES`].
    pub fn next(&mut self, buffer: &mut [u8], timeout: Duration) -> Result<Next, RingError> {
        let header = self.mapping.header();
        let counter = self.completed;
        let bell = Bell { bell: &header.worker_bell.0, sleeps: &header.worker_sleeps.0 };
        bell.wait(timeout, || pending(header, counter) || stopping(header))?;
        self.heartbeat = self.heartbeat.wrapping_add(1);
        header.heartbeat.0.store(self.heartbeat, Ordering::Relaxed);
        if pending(header, counter) {
            self.take(buffer).map(Next::Call)
        } else if stopping(header) {
            Ok(Next::Stop)
        } else {
            Ok(Next::Idle)
        }
    }

    fn take(&self, buffer: &mut [u8]) -> Result<Job, RingError> {
        let header = self.mapping.header();
        let waiting = header.submitted.0.load(Ordering::Acquire).wrapping_sub(self.completed);
        if waiting > self.mapping.geometry().slots() {
            return Err(RingError::Violation("more calls than slots"));
        }
        let record = self.mapping.record(self.completed);
        let (function, frame_bytes) = unpack(record.function_and_request.load(Ordering::Relaxed));
        let frame_bytes = frame_bytes as usize;
        if frame_bytes > Part::Request.bytes_max() {
            return Err(RingError::Violation("a length beyond its area"));
        }
        let frame = buffer
            .get_mut(..frame_bytes)
            .ok_or(RingError::TooLarge { bytes: frame_bytes, limit: Self::BUFFER_BYTES })?;
        self.mapping.take(self.completed, Part::Request, frame);
        Ok(Job { call_id: record.call_id.load(Ordering::Relaxed), function, frame_bytes })
    }

    /// Answers the call taken last. A part that is too large is an error and answers nothing.
    pub fn reply(&mut self, answer: &Answer<'_>) -> Result<(), RingError> {
        let parts =
            [(Part::Response, answer.response), (Part::Log, answer.logs), (Part::Message, answer.message)];
        for (part, bytes) in parts {
            if bytes.len() > part.bytes_max() {
                return Err(RingError::TooLarge { bytes: bytes.len(), limit: part.bytes_max() });
            }
            self.mapping.put(self.completed, part, bytes);
        }
        let record = self.mapping.record(self.completed);
        let flags = if answer.cold { FLAG_COLD } else { 0 };
        let lengths = pack(answer.response.len() as u32, answer.logs.len() as u32);
        record.status_and_flags.store(pack(answer.status.as_u32(), flags), Ordering::Relaxed);
        record.response_and_log.store(lengths, Ordering::Relaxed);
        record.message.store(answer.message.len() as u64, Ordering::Relaxed);
        record.wall_ns.store(answer.wall_ns, Ordering::Relaxed);
        record.cpu_ns.store(answer.cpu_ns, Ordering::Relaxed);
        record.memory_bytes.store(answer.memory_bytes, Ordering::Relaxed);
        self.completed = self.completed.wrapping_add(1);
        self.mapping.header().completed.0.store(self.completed, Ordering::SeqCst);
        self.host_bell().ring();
        Ok(())
    }

    fn host_bell(&self) -> Bell<'_> {
        let header = self.mapping.header();
        Bell { bell: &header.host_bell.0, sleeps: &header.host_sleeps.0 }
    }
}

fn pending(header: &Header, completed: u32) -> bool {
    header.submitted.0.load(Ordering::Acquire) != completed
}

fn stopping(header: &Header) -> bool {
    header.stop.0.load(Ordering::Acquire) != 0
}
