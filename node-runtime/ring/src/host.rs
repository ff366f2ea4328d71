//! The node's end: submits calls, collects completions, and believes nothing it reads.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

use mfaas_abi::Status;

use crate::RingError;
use crate::barrier;
use crate::clock::{self, Rate};
use crate::layout::{
    FLAG_COLD, FLAG_MAY_ASK, FLAG_RESUMES, FLAG_WAITS, FLAG_YIELDS, Geometry, Header, INLINE_SHIFT, MAGIC,
    Part, VERSION, WorkerState, pack, unpack,
};
use crate::map::Mapping;
use crate::protocol::{Turn, look, publish, take_question, tell};
use crate::wait::{Bell, Owner, SPIN_ROUNDS, wait_one};

/// Makes a ring. The descriptor goes to the worker, which attaches to it with
/// [`crate::WorkerEnd::attach`]; it is close-on-exec here.
///
/// The first ring of a process takes some milliseconds, in which the clock is measured.
pub fn create(geometry: Geometry) -> Result<(OwnedFd, HostEnd), RingError> {
    let orders = barrier::host_can_order();
    let (fd, mapping) = make(geometry, orders)?;
    Ok((fd, HostEnd::of(mapping, orders)))
}

/// Makes the memory with its header filled in.
pub(crate) fn make(geometry: Geometry, host_orders: bool) -> Result<(OwnedFd, Mapping), RingError> {
    let (fd, mapping) = Mapping::create(geometry)?;
    let header = mapping.header();
    header.version.store(VERSION, Ordering::Relaxed);
    header.clock_source.store(clock::source() as u64, Ordering::Relaxed);
    header.ticks_per_ms.store(Rate::measured().ticks_per_ms(), Ordering::Relaxed);
    header.host_orders.store(u64::from(host_orders), Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Release);
    Ok((fd, mapping))
}

/// One call on its way to a worker.
#[derive(Debug, Clone, Copy)]
pub struct Submission<'a> {
    /// Chosen by the caller, returned with the completion.
    pub call_id: u64,
    /// The function's name in the worker: its slot in the slab.
    pub function: u32,
    /// CPU time that the call may take, in microseconds.
    pub budget_us: u32,
    /// Arena of the call, in bytes.
    pub memory_bytes: u64,
    /// The request frame ([`mfaas_abi::frame`]), or what is resumed ([`mfaas_abi::SuspendedFrame`]).
    pub frame: &'a [u8],
    /// Whether the call goes on that the frame is of.
    pub resumes: bool,
    /// Whether the worker may ask what the call waits for ([`Collector::question`]) before it puts the call aside.
    pub may_ask: bool,
    /// Whether another worker's call goes on when this one is answered, and may want the core on which this worker looks then.
    pub yields: bool,
}

/// One answered call, to be filled again and again. All but `call_id` comes from a worker: bounded, otherwise
/// hostile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// As submitted.
    pub call_id: u64,
    /// How the call ended.
    pub status: Status,
    /// Whether this was the first call of the function in this worker.
    pub cold: bool,
    /// The call has not ended: the response is a [`mfaas_abi::SuspendedFrame`], still to be decoded. With the status `Ok` alone.
    pub waits: bool,
    /// The number of a code (`811` for MF0811) when the call was refused and never ran, otherwise 0. Workers refuse nothing: only a
    /// local API says this to its clients.
    pub refusal: u32,
    /// The response frame, still to be decoded; empty unless the status is `Ok` or `HandlerError`.
    pub response: Vec<u8>,
    /// Log records ([`mfaas_abi::LogReader`]).
    pub logs: Vec<u8>,
    /// The panic's text and place, or a sentence about another end; the tenant's bytes.
    pub message: Vec<u8>,
    /// What was called within the call ([`crate::InlineUse::decode_all`]).
    pub inline: Vec<u8>,
    /// Wall time of the handler, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the handler, in nanoseconds.
    pub cpu_ns: u64,
    /// Most arena bytes in use at once.
    pub memory_bytes: u64,
}

impl Completion {
    /// An empty one, to be filled.
    pub const fn new() -> Self {
        Self {
            call_id: 0,
            status: Status::Aborted,
            cold: false,
            waits: false,
            refusal: 0,
            response: Vec::new(),
            logs: Vec::new(),
            message: Vec::new(),
            inline: Vec::new(),
            wall_ns: 0,
            cpu_ns: 0,
            memory_bytes: 0,
        }
    }
}

impl Default for Completion {
    fn default() -> Self {
        Self::new()
    }
}

/// What the host knows, in its own memory. Positions count calls since the ring was made.
#[derive(Debug)]
struct Ledger {
    mapping: Mapping,
    submitted: AtomicU64,
    collected: AtomicU64,
    /// How many calls were submitted when the worker was woken last.
    rung: AtomicU64,
    call_ids: Box<[AtomicU64]>,
    /// Which of them may ask.
    may_ask: Box<[AtomicBool]>,
    /// Whether this end orders memory for the worker before it sleeps.
    orders: bool,
}

impl Ledger {
    fn header(&self) -> &Header {
        self.mapping.header()
    }

    fn in_flight(&self) -> u32 {
        let collected = self.collected.load(Ordering::Acquire);
        self.submitted.load(Ordering::Acquire).saturating_sub(collected) as u32
    }

    fn worker_bell(&self) -> Bell<'_> {
        Bell::shared(&self.header().worker_bell.0, &self.header().worker_sleeps.0, None)
    }

    fn host_bell(&self) -> Bell<'_> {
        Bell::shared(&self.header().host_bell.0, &self.header().host_sleeps.0, Some(self))
    }

    /// Wakes the worker if it sleeps although there is something for it. Once for each call that it
    /// has not answered, so that one that pretends to sleep costs no more than that.
    fn wake_worker(&self) {
        let submitted = self.submitted.load(Ordering::Relaxed);
        let collected = self.collected.load(Ordering::Relaxed);
        let woken_for_these = self.rung.load(Ordering::Relaxed) > collected;
        if submitted != collected && !woken_for_these && self.worker_bell().ring() {
            self.rung.store(submitted, Ordering::Relaxed);
        }
    }
}

impl Owner for Ledger {
    fn expects(&self) -> bool {
        self.in_flight() > 0 && self.orders
    }

    fn nudge(&self) {
        self.wake_worker();
    }
}

/// Both halves of the host's end, for a caller with one thread.
///
/// After a submission keep collecting or waiting: a worker that fell asleep at just that moment is
/// woken by the next look for its answer, which spares a fence in every submission.
#[derive(Debug)]
pub struct HostEnd {
    submitter: Submitter,
    collector: Collector,
}

impl HostEnd {
    fn of(mapping: Mapping, orders: bool) -> Self {
        let slots = mapping.geometry().slots();
        let ledger = Arc::new(Ledger {
            mapping,
            submitted: AtomicU64::new(0),
            collected: AtomicU64::new(0),
            rung: AtomicU64::new(0),
            call_ids: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            may_ask: (0..slots).map(|_| AtomicBool::new(false)).collect(),
            orders,
        });
        let submitter = Submitter { ledger: Arc::clone(&ledger) };
        Self { submitter, collector: Collector { ledger } }
    }

    /// The submitting end of a ring that the answering end made: see [`crate::client`].
    pub(crate) fn attach(fd: impl AsFd) -> Result<Self, RingError> {
        Ok(Self::of(crate::worker::attach(fd)?, false))
    }

    /// Copies the call into the next slot and wakes the worker if it is known to sleep. [`RingError::Full`] when every slot
    /// holds a call that was not collected.
    pub fn submit(&mut self, submission: Submission<'_>) -> Result<(), RingError> {
        self.submitter.put(submission)?;
        self.submitter.ledger.wake_worker();
        Ok(())
    }

    /// See [`Collector::collect`].
    pub fn collect(&mut self, into: &mut Completion) -> Result<bool, RingError> {
        self.collector.collect(into)
    }

    /// See [`Collector::question`].
    pub fn question(&mut self, into: &mut Vec<u8>) -> Result<Option<u64>, RingError> {
        self.collector.question(into)
    }

    /// See [`Collector::tell`].
    pub fn tell(&mut self, told: Option<&[u8]>) {
        self.collector.tell(told);
    }

    /// See [`Collector::is_ready`].
    pub fn is_ready(&self) -> bool {
        self.collector.is_ready()
    }

    /// See [`Collector::bell`].
    pub fn bell(&self) -> Bell<'_> {
        self.collector.bell()
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

    /// See [`Collector::watch_deadline`].
    pub fn watch_deadline(&self) -> u64 {
        self.collector.watch_deadline()
    }

    /// See [`Collector::oldest_in_flight`].
    pub fn oldest_in_flight(&self) -> Option<u64> {
        self.collector.oldest_in_flight()
    }

    /// See [`Submitter::in_flight`].
    pub fn in_flight(&self) -> u32 {
        self.submitter.in_flight()
    }

    /// See [`Submitter::has_room`].
    pub fn has_room(&self) -> bool {
        self.submitter.has_room()
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
    ledger: Arc<Ledger>,
}

impl Submitter {
    /// As [`HostEnd::submit`], with a fence: the thread that collects may be asleep and cannot look after the worker.
    pub fn submit(&mut self, submission: Submission<'_>) -> Result<(), RingError> {
        self.put(submission)?;
        fence(Ordering::SeqCst);
        self.ledger.wake_worker();
        Ok(())
    }

    fn put(&self, submission: Submission<'_>) -> Result<(), RingError> {
        let Submission { call_id, function, budget_us, memory_bytes, frame, resumes, may_ask, yields } =
            submission;
        let limit = self.ledger.mapping.geometry().part_bytes_max(Part::Request);
        if frame.len() > limit {
            return Err(RingError::TooLarge { bytes: frame.len(), limit });
        }
        if !self.has_room() {
            return Err(RingError::Full);
        }
        let mapping = &self.ledger.mapping;
        let position = self.ledger.submitted.load(Ordering::Relaxed);
        let index = mapping.geometry().index(position);
        self.ledger.call_ids[index].store(call_id, Ordering::Relaxed);
        self.ledger.may_ask[index].store(may_ask, Ordering::Relaxed);
        mapping.put(position, Part::Request, frame);
        let record = mapping.submission(position);
        record.call_id.store(call_id, Ordering::Relaxed);
        record.function_and_budget.store(pack(function, budget_us), Ordering::Relaxed);
        record.memory_bytes.store(memory_bytes, Ordering::Relaxed);
        record.frame_bytes.store(frame.len() as u64, Ordering::Relaxed);
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(resumes, FLAG_RESUMES) | flag(may_ask, FLAG_MAY_ASK) | flag(yields, FLAG_YIELDS);
        record.flags.store(flags, Ordering::Relaxed);
        // Before the worker can answer, so that no answer is taken for one too many.
        self.ledger.submitted.store(position + 1, Ordering::Release);
        publish(&record.sequence, position);
        Ok(())
    }

    /// Calls submitted and not collected.
    pub fn in_flight(&self) -> u32 {
        self.ledger.in_flight()
    }

    /// Whether another call fits.
    pub fn has_room(&self) -> bool {
        self.in_flight() < self.ledger.mapping.geometry().slots()
    }

    /// Asks the worker to answer what was submitted and leave. Submit nothing after it.
    pub fn stop(&mut self) {
        self.ledger.header().stop.0.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        self.ledger.worker_bell().ring();
    }
}

/// The half that receives completions. One per ring.
#[derive(Debug)]
pub struct Collector {
    ledger: Arc<Ledger>,
}

impl Collector {
    /// Fills `into` with the next completion, in the order of submission, and says `true` if there is one. Once the buffers of
    /// `into` have grown, small answers allocate nothing.
    pub fn collect(&mut self, into: &mut Completion) -> Result<bool, RingError> {
        let position = self.ledger.collected.load(Ordering::Relaxed);
        let geometry = self.ledger.mapping.geometry();
        match look(&self.ledger.mapping.completion(position).sequence, position, geometry.slots()) {
            Turn::NotYet => {
                self.ledger.wake_worker();
                return Ok(false);
            }
            Turn::Alien => return Err(RingError::Violation("a completion out of turn")),
            Turn::Published if self.ledger.in_flight() == 0 => {
                return Err(RingError::Violation("more completions than calls"));
            }
            Turn::Published => {}
        }
        self.read(position, into)?;
        if geometry == Geometry::BULK {
            self.ledger.mapping.discard_large(position);
        }
        self.ledger.collected.store(position + 1, Ordering::Release);
        Ok(true)
    }

    /// What the worker asks for the oldest call that was not collected, if that may ask and does, and that call's identity: `into` is
    /// filled with bytes of any origin. The worker waits until [`Self::tell`]. Each time it finds something must be followed by
    /// that before anything is collected. Nobody is woken by a question: who sleeps is not asked.
    pub fn question(&mut self, into: &mut Vec<u8>) -> Result<Option<u64>, RingError> {
        let position = self.ledger.collected.load(Ordering::Relaxed);
        let geometry = self.ledger.mapping.geometry();
        let may_ask = self.ledger.may_ask[geometry.index(position)].load(Ordering::Relaxed);
        let Some(call_id) = self.oldest_in_flight().filter(|_| may_ask) else { return Ok(None) };
        let Some(bytes) = take_question(&self.ledger.mapping.completion(position).question) else {
            return Ok(None);
        };
        if bytes as usize > geometry.question_bytes_max() {
            return Err(RingError::Violation("a question longer than one may be"));
        }
        self.part(position, Part::Response, bytes, into)?;
        Ok(Some(call_id))
    }

    /// Answers the question that was found last; with nothing, and the worker puts its call aside.
    pub fn tell(&mut self, told: Option<&[u8]>) {
        let mapping = &self.ledger.mapping;
        let position = self.ledger.collected.load(Ordering::Relaxed);
        let told = told.filter(|told| told.len() <= mapping.geometry().part_bytes_max(Part::Request));
        if let Some(told) = told {
            mapping.put(position, Part::Request, told);
        }
        tell(&mapping.completion(position).question, told.map(|told| told.len() as u32));
    }

    /// Whether [`Self::collect`] would say something now, be it an error.
    pub fn is_ready(&self) -> bool {
        let position = self.ledger.collected.load(Ordering::Relaxed);
        let slots = self.ledger.mapping.geometry().slots();
        look(&self.ledger.mapping.completion(position).sequence, position, slots) != Turn::NotYet
    }

    /// What to sleep on with [`crate::wait_any`] until [`Self::is_ready`].
    pub fn bell(&self) -> Bell<'_> {
        self.ledger.host_bell()
    }

    /// Sleeps until there is something to collect (`true`) or `timeout` is over (`false`).
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, RingError> {
        wait_one(self.bell(), SPIN_ROUNDS, timeout, || self.is_ready())
    }

    /// Sleeps until the worker is past `Starting` (its new state) or `timeout` is over (`Starting`).
    pub fn wait_started(&mut self, timeout: Duration) -> Result<WorkerState, RingError> {
        let state = &self.ledger.header().state.0;
        let started = || state.load(Ordering::Acquire) != WorkerState::Starting as u32;
        wait_one(self.bell(), SPIN_ROUNDS, timeout, started)?;
        self.worker_state()
    }

    /// What the worker says about itself.
    pub fn worker_state(&self) -> Result<WorkerState, RingError> {
        WorkerState::from_u32(self.ledger.header().state.0.load(Ordering::Acquire))
            .ok_or(RingError::Violation("unknown worker state"))
    }

    /// The wall deadline that the worker set for the call that it runs, in [`crate::clock::ticks`]; 0 when
    /// it runs none. Hostile: good for deciding when to interrupt the worker, and for nothing else.
    pub fn watch_deadline(&self) -> u64 {
        self.ledger.header().watch.0.load(Ordering::Relaxed)
    }

    /// Identity of the oldest call that was not collected: what a worker that died was running, or
    /// was about to.
    pub fn oldest_in_flight(&self) -> Option<u64> {
        let position = self.ledger.collected.load(Ordering::Acquire);
        let index = self.ledger.mapping.geometry().index(position);
        (self.ledger.in_flight() > 0).then(|| self.ledger.call_ids[index].load(Ordering::Relaxed))
    }

    /// INV-RING-3: each word is loaded once, and lengths are checked before anything is copied.
    fn read(&self, position: u64, into: &mut Completion) -> Result<(), RingError> {
        let mapping = &self.ledger.mapping;
        let record = mapping.completion(position);
        let (status, flags) = unpack(record.status_and_flags.load(Ordering::Relaxed));
        let (response_bytes, log_bytes) = unpack(record.response_and_log.load(Ordering::Relaxed));
        let (message_bytes, refusal) = unpack(record.message_and_code.load(Ordering::Relaxed));
        into.status = Status::from_u32(status).ok_or(RingError::Violation("unknown status"))?;
        into.cold = flags & FLAG_COLD != 0;
        into.waits = flags & FLAG_WAITS != 0;
        if into.waits && into.status != Status::Ok {
            return Err(RingError::Violation("a call that waits and has ended"));
        }
        into.refusal = refusal;
        into.wall_ns = record.wall_ns.load(Ordering::Relaxed);
        into.cpu_ns = record.cpu_ns.load(Ordering::Relaxed);
        into.memory_bytes = record.memory_bytes.load(Ordering::Relaxed);
        into.call_id = self.ledger.call_ids[mapping.geometry().index(position)].load(Ordering::Relaxed);
        self.part(position, Part::Response, response_bytes, &mut into.response)?;
        self.part(position, Part::Log, log_bytes, &mut into.logs)?;
        self.part(position, Part::Message, message_bytes, &mut into.message)?;
        self.part(position, Part::Inline, flags >> INLINE_SHIFT, &mut into.inline)
    }

    fn part(&self, position: u64, part: Part, bytes: u32, into: &mut Vec<u8>) -> Result<(), RingError> {
        let bytes = bytes as usize;
        if bytes > self.ledger.mapping.geometry().part_bytes_max(part) {
            return Err(RingError::Violation("a length beyond its area"));
        }
        into.clear();
        into.resize(bytes, 0);
        if bytes > 0 {
            self.ledger.mapping.take(position, part, into);
        }
        Ok(())
    }
}
