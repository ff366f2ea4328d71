//! The node's end: submits calls, collects completions, and believes nothing it reads.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use mfaas_abi::Status;

use crate::RingError;
use crate::layout::{FLAG_COLD, Geometry, Header, MAGIC, Part, VERSION, WorkerState, pack, unpack};
use crate::map::Mapping;
use crate::wait::Bell;

/// Makes a ring. The descriptor goes to the worker, which attaches to it with
/// [`crate::WorkerEnd::attach`]; it is close-on-exec here.
pub fn create(geometry: Geometry, generation: u64) -> Result<(OwnedFd, HostEnd), RingError> {
    let (fd, mapping) = Mapping::create(geometry)?;
    let header = mapping.header();
    header.magic.store(MAGIC, Ordering::Relaxed);
    header.version.store(VERSION, Ordering::Relaxed);
    header.generation.store(generation, Ordering::Release);
    let books = Arc::new(Books {
        mapping,
        submitted: AtomicU32::new(0),
        collected: AtomicU32::new(0),
        call_ids: (0..geometry.slots()).map(|_| AtomicU64::new(0)).collect(),
    });
    let submitter = Submitter { books: Arc::clone(&books) };
    Ok((fd, HostEnd { submitter, collector: Collector { books } }))
}

/// One call on its way to a worker.
#[derive(Debug, Clone, Copy)]
pub struct Submission<'a> {
    /// Chosen by the caller, returned with the completion.
    pub call_id: u64,
    /// Index of the function in the worker's preload list.
    pub function: u32,
    /// The request frame ([`mfaas_abi::frame`]).
    pub frame: &'a [u8],
}

/// One answered call. All but `call_id` comes from a worker: bounded, otherwise hostile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// As submitted.
    pub call_id: u64,
    /// How the call ended.
    pub status: Status,
    /// Whether this was the first call of the function in this worker.
    pub cold: bool,
    /// The response frame, still to be decoded; empty unless the status is `Ok` or `HandlerError`.
    pub response: Vec<u8>,
    /// Log records ([`mfaas_abi::LogReader`]).
    pub logs: Vec<u8>,
    /// The panic's text and place, or a sentence about another end; the tenant's bytes.
    pub message: Vec<u8>,
    /// Wall time of the handler, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the handler, in nanoseconds.
    pub cpu_ns: u64,
    /// Most arena bytes in use at once.
    pub memory_bytes: u64,
}

/// What the host knows, in its own memory; the shared counters are only for the worker to read.
#[derive(Debug)]
struct Books {
    mapping: Mapping,
    submitted: AtomicU32,
    collected: AtomicU32,
    call_ids: Box<[AtomicU64]>,
}

impl Books {
    fn header(&self) -> &Header {
        self.mapping.header()
    }

    fn in_flight(&self) -> u32 {
        self.submitted.load(Ordering::Acquire).wrapping_sub(self.collected.load(Ordering::Acquire))
    }

    fn worker_bell(&self) -> Bell<'_> {
        Bell { bell: &self.header().worker_bell.0, sleeps: &self.header().worker_sleeps.0 }
    }

    fn host_bell(&self) -> Bell<'_> {
        Bell { bell: &self.header().host_bell.0, sleeps: &self.header().host_sleeps.0 }
    }
}

/// Both halves of the host's end, for a caller with one thread.
#[derive(Debug)]
pub struct HostEnd {
    submitter: Submitter,
    collector: Collector,
}

impl HostEnd {
    /// See [`Submitter::submit`].
    pub fn submit(&mut self, submission: Submission<'_>) -> Result<(), RingError> {
        self.submitter.submit(submission)
    }

    /// See [`Collector::collect`].
    pub fn collect(&mut self) -> Result<Option<Completion>, RingError> {
        self.collector.collect()
    }

    /// See [`Collector::wait`].
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, RingError> {
        self.collector.wait(timeout)
    }

    /// See [`Collector::worker_state`].
    pub fn worker_state(&self) -> Result<WorkerState, RingError> {
        self.collector.worker_state()
    }

    /// See [`Collector::wait_started`].
    pub fn wait_started(&mut self, timeout: Duration) -> Result<WorkerState, RingError> {
        self.collector.wait_started(timeout)
    }

    /// See [`Collector::oldest_in_flight`].
    pub fn oldest_in_flight(&self) -> Option<u64> {
        self.collector.oldest_in_flight()
    }

    /// See [`Submitter::in_flight`].
    pub fn in_flight(&self) -> u32 {
        self.submitter.in_flight()
    }

    /// See [`Submitter::stop`].
    pub fn stop(&mut self) {
        self.submitter.stop();
    }

    /// Two halves that may live on two threads.
    pub fn split(self) -> (Submitter, Collector) {
        (self.submitter, self.collector)
    }
}

/// The half that sends calls. One per ring.
#[derive(Debug)]
pub struct Submitter {
    books: Arc<Books>,
}

impl Submitter {
    /// Copies the call into the next slot and wakes the worker. [`RingError::Full`] when every slot
    /// holds a call that was not collected.
    pub fn submit(&mut self, submission: Submission<'_>) -> Result<(), RingError> {
        let Submission { call_id, function, frame } = submission;
        let limit = Part::Request.bytes_max();
        if frame.len() > limit {
            return Err(RingError::TooLarge { bytes: frame.len(), limit });
        }
        let mapping = &self.books.mapping;
        if self.books.in_flight() >= mapping.geometry().slots() {
            return Err(RingError::Full);
        }
        let counter = self.books.submitted.load(Ordering::Relaxed);
        self.books.call_ids[mapping.geometry().index(counter)].store(call_id, Ordering::Relaxed);
        mapping.put(counter, Part::Request, frame);
        let record = mapping.record(counter);
        record.call_id.store(call_id, Ordering::Relaxed);
        record.function_and_request.store(pack(function, frame.len() as u32), Ordering::Relaxed);
        let next = counter.wrapping_add(1);
        self.books.submitted.store(next, Ordering::Release);
        self.books.header().submitted.0.store(next, Ordering::SeqCst);
        self.books.worker_bell().ring();
        Ok(())
    }

    /// Calls submitted and not collected.
    pub fn in_flight(&self) -> u32 {
        self.books.in_flight()
    }

    /// Whether another call fits.
    pub fn has_room(&self) -> bool {
        self.in_flight() < self.books.mapping.geometry().slots()
    }

    /// Asks the worker to answer what was submitted and leave. Submit nothing after it.
    pub fn stop(&mut self) {
        self.books.header().stop.0.store(1, Ordering::SeqCst);
        self.books.worker_bell().ring();
    }
}

/// The half that receives completions. One per ring.
#[derive(Debug)]
pub struct Collector {
    books: Arc<Books>,
}

impl Collector {
    /// The next completion, in the order of submission, if there is one.
    pub fn collect(&mut self) -> Result<Option<Completion>, RingError> {
        let counter = self.books.collected.load(Ordering::Relaxed);
        let completed = self.books.header().completed.0.load(Ordering::Acquire);
        let ready = completed.wrapping_sub(counter);
        if ready == 0 {
            return Ok(None);
        }
        if ready > self.books.in_flight() {
            return Err(RingError::Violation("more completions than calls"));
        }
        let completion = self.read(counter)?;
        self.books.collected.store(counter.wrapping_add(1), Ordering::Release);
        Ok(Some(completion))
    }

    /// Sleeps until there is something to collect (`true`) or `timeout` is over (`false`).
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, RingError> {
        let header = self.books.header();
        let counter = self.books.collected.load(Ordering::Relaxed);
        self.books.host_bell().wait(timeout, || header.completed.0.load(Ordering::Acquire) != counter)
    }

    /// Sleeps until the worker is past `Starting` (its new state) or `timeout` is over (`Starting`).
    pub fn wait_started(&mut self, timeout: Duration) -> Result<WorkerState, RingError> {
        let state = &self.books.header().state.0;
        self.books
            .host_bell()
            .wait(timeout, || state.load(Ordering::Acquire) != WorkerState::Starting as u32)?;
        self.worker_state()
    }

    /// What the worker says about itself.
    pub fn worker_state(&self) -> Result<WorkerState, RingError> {
        WorkerState::from_u32(self.books.header().state.0.load(Ordering::Acquire))
            .ok_or(RingError::Violation("unknown worker state"))
    }

    /// Grows whenever the worker wakes or starts a call.
    pub fn heartbeat(&self) -> u64 {
        self.books.header().heartbeat.0.load(Ordering::Relaxed)
    }

    /// Identity of the oldest call that was not collected: what a worker that died was running, or
    /// was about to.
    pub fn oldest_in_flight(&self) -> Option<u64> {
        let counter = self.books.collected.load(Ordering::Acquire);
        let index = self.books.mapping.geometry().index(counter);
        (self.books.in_flight() > 0).then(|| self.books.call_ids[index].load(Ordering::Relaxed))
    }

    /// INV-RING-3: each word is loaded once, and lengths are checked before anything is copied.
    fn read(&self, counter: u32) -> Result<Completion, RingError> {
        let mapping = &self.books.mapping;
        let record = mapping.record(counter);
        let call_id = self.books.call_ids[mapping.geometry().index(counter)].load(Ordering::Relaxed);
        let (status, flags) = unpack(record.status_and_flags.load(Ordering::Relaxed));
        let (response_bytes, log_bytes) = unpack(record.response_and_log.load(Ordering::Relaxed));
        let message_bytes = record.message.load(Ordering::Relaxed);
        let status = Status::from_u32(status).ok_or(RingError::Violation("unknown status"))?;
        Ok(Completion {
            call_id,
            status,
            cold: flags & FLAG_COLD != 0,
            response: self.part(counter, Part::Response, u64::from(response_bytes))?,
            logs: self.part(counter, Part::Log, u64::from(log_bytes))?,
            message: self.part(counter, Part::Message, message_bytes)?,
            wall_ns: record.wall_ns.load(Ordering::Relaxed),
            cpu_ns: record.cpu_ns.load(Ordering::Relaxed),
            memory_bytes: record.memory_bytes.load(Ordering::Relaxed),
        })
    }

    fn part(&self, counter: u32, part: Part, bytes: u64) -> Result<Vec<u8>, RingError> {
        let bytes = usize::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes <= part.bytes_max())
            .ok_or(RingError::Violation("a length beyond its area"))?;
        let mut copy = vec![0; bytes];
        self.books.mapping.take(counter, part, &mut copy);
        Ok(copy)
    }
}
