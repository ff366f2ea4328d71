//! The worker's end: takes calls one by one, answers each, allocates nothing after it attached, and makes no system call
//! but `futex` and `sched_yield`.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use mfaas_abi::Status;

use crate::RingError;
use crate::barrier::Order;
use crate::clock::{self, Rate};
use crate::layout::{
    FLAG_COLD, FLAG_MAY_ASK, FLAG_RESUMES, FLAG_WAITS, FLAG_YIELDS, INLINE_SHIFT, MAGIC, Part, VERSION,
    WorkerState, pack, unpack,
};
use crate::map::Mapping;
use crate::protocol::{Heard, Turn, ask, forget, hear, look, publish, withdraw_question};
use crate::wait::{Bell, SPIN_ROUNDS, wait_one};

/// How long a worker looks for the next call before it sleeps, in microseconds, while it is keen: some times what a caller takes
/// that asks again as soon as it is answered, and about what it takes to be woken. A core that is looked on is nobody else's.
const LOOK_US: u64 = 50;
/// Of that, how long a worker keeps its core where others may want it: those that its last call waits for, or that wait for it. Longer
/// than a call of the same worker takes; then it lets them run between two looks. On a machine with fewer cores than take part each
/// step would wait for the end of somebody's looking.
const KEEP_US: u64 = 1;
/// Looks between two readings of the clock, each of which takes as long as a look.
const LOOKS: u32 = 16;
/// A worker is keen when its last wait took no longer, in microseconds: wider than [`LOOK_US`], so that one that
/// had to be woken finds back to callers whom its waking made slow.
const KEEN_US: u64 = 1_000;
/// How long a worker waits for what it asks, in microseconds: some times what a host takes that looks, and less than it takes to put a
/// call aside and go on with it by way of a host that does not.
pub const ASK_US: u64 = 5;
/// And how long for a host that has taken the question, and does nothing else before it answers.
const ANSWER_US_MAX: u64 = 30_000_000;

/// Maps a ring that another process made, if it is one.
pub(crate) fn attach(fd: impl AsFd) -> Result<Mapping, RingError> {
    let mapping = Mapping::attach(fd)?;
    let header = mapping.header();
    if header.magic.load(Ordering::Acquire) != MAGIC || header.version.load(Ordering::Relaxed) != VERSION {
        return Err(RingError::Violation("the memory is not a ring of this version"));
    }
    Ok(mapping)
}

/// The worker's side of a ring.
#[derive(Debug)]
pub struct WorkerEnd {
    ring: Answering,
    rate: Rate,
    spin_rounds: u32,
    ask_us: u64,
    /// The last wait was over within [`KEEN_US`].
    keen: bool,
    /// Others may want the core: the last call waits, or another worker's call waited for it.
    yields: bool,
    /// The call that was taken and not answered.
    current: Option<Job>,
    /// Its frame still lies in the ring.
    frame_waits: bool,
}

/// What [`WorkerEnd::next`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A call. It must be answered before the next one is taken.
    Call(Job),
    /// Nothing within the timeout.
    Idle,
    /// Everything is answered and the host wants the worker to leave.
    Stop,
}

/// What the host says to what a call asks ([`WorkerEnd::ask`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// So many bytes, which stand at the beginning of the place for them.
    Bytes(usize),
    /// That it has no answer, or one for which the place is too small.
    Declined,
    /// Nothing: it does not look, or the call may not ask.
    Nothing,
}

/// One call as the worker sees it: read once, and only the frame's length is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The host's name for the call.
    pub call_id: u64,
    /// The function's slot in the slab; not checked against it.
    pub function: u32,
    /// CPU time that the call may take, in microseconds.
    pub budget_us: u32,
    /// Arena of the call, in bytes.
    pub memory_bytes: u64,
    /// Length of the frame, in bytes, within what the ring's geometry has room for.
    pub frame_bytes: usize,
    /// The call goes on: the frame is a [`mfaas_abi::SuspendedFrame`].
    pub resumes: bool,
    /// Whether it may be asked what the call waits for ([`WorkerEnd::ask`]).
    pub may_ask: bool,
    /// Whether others may want the worker's core once the call is answered.
    pub yields: bool,
}

/// The answer to the call taken last.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// How the call ended.
    pub status: Status,
    /// Whether this was the function's first call here.
    pub cold: bool,
    /// The call has not ended: the response is a [`mfaas_abi::SuspendedFrame`].
    pub waits: bool,
    /// The response frame, within what the ring's geometry has room for.
    pub response: &'a [u8],
    /// Log records, at most [`mfaas_abi::limits::LOG_BYTES_MAX`].
    pub logs: &'a [u8],
    /// Text about the end, at most [`mfaas_abi::limits::PANIC_BYTES_MAX`].
    pub message: &'a [u8],
    /// What was called within the call: [`crate::InlineUse`], one behind the other, at most [`crate::INLINE_CALLEES_MAX`].
    pub inline: &'a [u8],
    /// Wall time of the handler, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the handler, in nanoseconds.
    pub cpu_ns: u64,
    /// Most arena bytes in use at once.
    pub memory_bytes: u64,
}

impl WorkerEnd {
    /// Size of a buffer that takes every frame of a ring that is not for bulk functions, in bytes.
    pub const BUFFER_BYTES: usize = mfaas_abi::limits::FRAME_BYTES_MAX;

    /// Attaches to the ring behind `fd`, which may be closed afterwards. Call it before lock-down: it maps memory and
    /// registers the process for the host's memory barriers.
    pub fn attach(fd: impl AsFd) -> Result<Self, RingError> {
        let mapping = attach(fd)?;
        let header = mapping.header();
        if header.clock_source.load(Ordering::Relaxed) != clock::source() as u64 {
            return Err(RingError::Violation("the host counts time by another clock"));
        }
        let rate = Rate::from_ticks_per_ms(header.ticks_per_ms.load(Ordering::Relaxed))?;
        let order = Order::of_worker(header.host_orders.load(Ordering::Relaxed) != 0);
        Ok(Self {
            ring: Answering::new(mapping, order),
            rate,
            spin_rounds: SPIN_ROUNDS,
            ask_us: ASK_US,
            keen: false,
            yields: false,
            current: None,
            frame_waits: false,
        })
    }

    /// Waits for a call, for the end or for `timeout`; whether it was over soon enough to stay keen.
    fn wait(&self, timeout: Duration) -> Result<bool, RingError> {
        let (ring, rate) = (&self.ring, self.rate);
        let ready = || ring.has_next() || ring.is_stopping();
        let since = clock::ticks();
        let is_within = |us| clock::ticks().saturating_sub(since) < rate.ticks_of_us(us);
        let let_others: Option<fn()> = self.yields.then_some(rustix::thread::sched_yield);
        if self.keen && look_keenly(ready, is_within, let_others) {
            return Ok(true);
        }
        wait_one(ring.worker_bell(), self.spin_rounds, timeout, ready)?;
        Ok(is_within(KEEN_US))
    }

    /// What fits into the body of a frame, in bytes.
    pub fn body_bytes_max(&self) -> usize {
        self.ring.mapping.geometry().body_bytes_max()
    }

    /// How often [`Self::next`] looks before it sleeps; [`SPIN_ROUNDS`] unless set. While calls come fast it looks
    /// for some 50 µs.
    pub fn set_spin_rounds(&mut self, rounds: u32) {
        self.spin_rounds = rounds;
    }

    /// How long [`Self::ask`] waits, in microseconds; [`ASK_US`] unless set.
    pub fn set_ask_us(&mut self, us: u64) {
        self.ask_us = us;
    }

    /// The rate of [`crate::clock::ticks`], as the host measured it.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Tells the host what the worker is doing.
    pub fn set_state(&mut self, state: WorkerState) {
        self.ring.mapping.header().state.0.store(state as u32, Ordering::Release);
        fence(Ordering::SeqCst);
        self.ring.host_bell().ring();
    }

    /// Waits up to `timeout` for a call. While the last one is not answered, it is given again.
    pub fn next(&mut self, timeout: Duration) -> Result<Next, RingError> {
        if let Some(job) = self.current {
            return Ok(Next::Call(job));
        }
        self.keen = self.ring.has_next() || self.wait(timeout)?;
        if let Some(job) = self.ring.take()? {
            self.current = Some(job);
            self.frame_waits = job.frame_bytes > 0;
            return Ok(Next::Call(job));
        }
        Ok(if self.ring.is_stopping() { Next::Stop } else { Next::Idle })
    }

    /// Whether another call waits behind the one that was taken.
    pub fn has_next(&self) -> bool {
        self.ring.has_next()
    }

    /// The function of the call that waits behind the one that was taken, if one does: what a worker may
    /// prepare for. Nothing else may depend on it. The call's own lines are asked for, and those that its
    /// answer will fill.
    pub fn look_ahead(&self) -> Option<u32> {
        self.ring.look_ahead()
    }

    /// Copies the frame of the call that was taken to the start of `into`, wipes it in the ring, and gives its
    /// length. A second time it gives zeros.
    pub fn take_frame(&mut self, into: &mut [u8]) -> Result<usize, RingError> {
        let job = self.current.ok_or(NOTHING_TAKEN)?;
        let limit = into.len();
        let frame =
            into.get_mut(..job.frame_bytes).ok_or(RingError::TooLarge { bytes: job.frame_bytes, limit })?;
        self.ring.frame(self.ring.answered, frame);
        self.frame_waits = false;
        Ok(job.frame_bytes)
    }

    /// Where the worker writes the wall deadline of the call that it runs, in ticks, and 0 when it
    /// runs none. The host reads it at any moment.
    pub fn watch_word(&self) -> &AtomicU64 {
        &self.ring.mapping.header().watch.0
    }

    /// Asks the host what the call taken last waits for, and fills the beginning of `into` with what it is told. A question wakes
    /// nobody: [`Self::host_sleeps`].
    pub fn ask(&self, question: &[u8], into: &mut [u8]) -> Result<Told, RingError> {
        match self.current {
            Some(Job { may_ask: true, .. }) => self.ring.ask(
                question,
                into,
                [self.ask_us, ANSWER_US_MAX].map(|us| self.rate.ticks_of_us(us)),
            ),
            _ => Ok(Told::Nothing),
        }
    }

    /// Whether the host sleeps, and so would not see a question in time.
    pub fn host_sleeps(&self) -> bool {
        self.ring.mapping.header().host_sleeps.0.load(Ordering::Relaxed) != 0
    }

    /// Answers the call taken last. A part that is too large is an error and answers nothing. A frame that was not
    /// taken is wiped.
    pub fn reply(&mut self, answer: &Answer<'_>) -> Result<(), RingError> {
        let job = self.current.ok_or(NOTHING_TAKEN)?;
        if std::mem::take(&mut self.frame_waits) {
            self.ring.wipe_frame(job.frame_bytes);
        }
        self.ring.reply(answer, 0)?;
        self.yields = job.yields || answer.waits;
        self.current = None;
        Ok(())
    }
}

/// Looks until something is there or the time for that is over; whether it is. Between two looks it lets others run, if it is to, once
/// it had the core for [`KEEP_US`].
fn look_keenly(
    ready: impl Fn() -> bool,
    is_within: impl Fn(u64) -> bool,
    let_others: Option<impl Fn()>,
) -> bool {
    while is_within(LOOK_US) {
        for _ in 0..LOOKS {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        if let Some(let_others) = &let_others
            && !is_within(KEEP_US)
        {
            let_others();
        }
    }
    false
}

/// What a usual answer takes, in bytes: so much of its place is asked for ahead.
const ANSWER_BYTES: usize = 128;

const NOTHING_TAKEN: RingError = RingError::Misuse("no call is taken");

/// The answering side of a ring, for a worker and for the local API: calls are taken in their order and answered in
/// that order, several at a time if the caller wants.
#[derive(Debug)]
pub(crate) struct Answering {
    mapping: Mapping,
    order: Order,
    /// Calls taken since the start.
    pub(crate) taken: u64,
    /// Calls answered since the start.
    pub(crate) answered: u64,
}

impl Answering {
    pub(crate) fn new(mapping: Mapping, order: Order) -> Self {
        Self { mapping, order, taken: 0, answered: 0 }
    }

    pub(crate) fn has_next(&self) -> bool {
        let slots = self.mapping.geometry().slots();
        look(&self.mapping.submission(self.taken).sequence, self.taken, slots) != Turn::NotYet
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.mapping.header().stop.0.load(Ordering::Acquire) != 0
    }

    pub(crate) fn worker_bell(&self) -> Bell<'_> {
        let header = self.mapping.header();
        Bell::shared(&header.worker_bell.0, &header.worker_sleeps.0, None)
    }

    fn host_bell(&self) -> Bell<'_> {
        let header = self.mapping.header();
        Bell::shared(&header.host_bell.0, &header.host_sleeps.0, None)
    }

    /// The function of the call that waits next; a hint, read once more when the call is taken.
    fn look_ahead(&self) -> Option<u32> {
        let geometry = self.mapping.geometry();
        let record = self.mapping.submission(self.taken);
        if look(&record.sequence, self.taken, geometry.slots()) != Turn::Published {
            return None;
        }
        let frame_bytes = record.frame_bytes.load(Ordering::Relaxed) as usize;
        self.mapping.expect(geometry.submission_offset(self.taken), frame_bytes);
        self.mapping.expect(geometry.completion_offset(self.taken), ANSWER_BYTES);
        Some(unpack(record.function_and_budget.load(Ordering::Relaxed)).0)
    }

    /// The next call, if there is one. At most as many are taken and not answered as there are slots: a
    /// host that publishes more breaks the protocol.
    pub(crate) fn take(&mut self) -> Result<Option<Job>, RingError> {
        let position = self.taken;
        let slots = self.mapping.geometry().slots();
        let record = self.mapping.submission(position);
        match look(&record.sequence, position, slots) {
            Turn::NotYet => return Ok(None),
            Turn::Alien => return Err(RingError::Violation("a call out of turn")),
            Turn::Published if position - self.answered >= u64::from(slots) => {
                return Err(RingError::Violation("more calls than slots"));
            }
            Turn::Published => {}
        }
        // INV-RING-3: each word is loaded once.
        let flags = record.flags.load(Ordering::Relaxed);
        let (function, budget_us) = unpack(record.function_and_budget.load(Ordering::Relaxed));
        let frame_bytes = usize::try_from(record.frame_bytes.load(Ordering::Relaxed))
            .ok()
            .filter(|bytes| *bytes <= self.mapping.geometry().part_bytes_max(Part::Request))
            .ok_or(RingError::Violation("a length beyond its area"))?;
        let job = Job {
            call_id: record.call_id.load(Ordering::Relaxed),
            function,
            budget_us,
            memory_bytes: record.memory_bytes.load(Ordering::Relaxed),
            frame_bytes,
            resumes: flags & FLAG_RESUMES != 0,
            may_ask: flags & FLAG_MAY_ASK != 0,
            yields: flags & FLAG_YIELDS != 0,
        };
        self.taken = position + 1;
        Ok(Some(job))
    }

    /// Copies the frame of a taken call out and wipes it. The length is the one of its [`Job`].
    pub(crate) fn frame(&self, position: u64, into: &mut [u8]) {
        self.mapping.take(position, Part::Request, into);
    }

    /// Asks for the oldest call that was taken: for so many ticks until the host takes the question, and in all until it has answered.
    fn ask(
        &self,
        question: &[u8],
        into: &mut [u8],
        [until_taken, in_all]: [u64; 2],
    ) -> Result<Told, RingError> {
        let (mapping, position) = (&self.mapping, self.answered);
        if question.len() > mapping.geometry().question_bytes_max() {
            return Ok(Told::Nothing);
        }
        let (word, bytes) = (&mapping.completion(position).question, question.len() as u32);
        mapping.put(position, Part::Response, question);
        ask(word, bytes);
        let since = clock::ticks();
        let told = loop {
            let waited = clock::ticks().saturating_sub(since);
            match hear(word) {
                Heard::Told(told) => break Some(told as usize),
                Heard::Declined => break None,
                Heard::NotYet if waited >= until_taken && withdraw_question(word, bytes) => {
                    mapping.wipe(position, Part::Response, question.len());
                    return Ok(Told::Nothing);
                }
                Heard::NotYet if waited >= in_all => {
                    return Err(RingError::Violation("a question that was taken and not answered"));
                }
                Heard::NotYet => std::hint::spin_loop(),
            }
        };
        if told.is_some_and(|told| told > mapping.geometry().part_bytes_max(Part::Request)) {
            return Err(RingError::Violation("a length beyond its area"));
        }
        let fits = told.filter(|told| *told <= into.len());
        match (fits, told) {
            (Some(told), _) => mapping.take(position, Part::Request, &mut into[..told]),
            (None, Some(told)) => mapping.wipe(position, Part::Request, told),
            (None, None) => {}
        }
        forget(word);
        Ok(fits.map_or(Told::Declined, Told::Bytes))
    }

    /// Wipes the frame of the oldest call that was taken.
    fn wipe_frame(&self, frame_bytes: usize) {
        self.mapping.wipe(self.answered, Part::Request, frame_bytes);
    }

    /// Answers the oldest call that was taken.
    pub(crate) fn reply(&mut self, answer: &Answer<'_>, refusal: u32) -> Result<(), RingError> {
        let parts = [
            (Part::Response, answer.response),
            (Part::Log, answer.logs),
            (Part::Message, answer.message),
            (Part::Inline, answer.inline),
        ];
        for (part, bytes) in parts {
            let limit = self.mapping.geometry().part_bytes_max(part);
            if bytes.len() > limit {
                return Err(RingError::TooLarge { bytes: bytes.len(), limit });
            }
        }
        let position = self.answered;
        for (part, bytes) in parts.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            self.mapping.put(position, part, bytes);
        }
        let record = self.mapping.completion(position);
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let inline = (answer.inline.len() as u32) << INLINE_SHIFT;
        let flags = flag(answer.cold, FLAG_COLD) | flag(answer.waits, FLAG_WAITS) | inline;
        let lengths = pack(answer.response.len() as u32, answer.logs.len() as u32);
        record.status_and_flags.store(pack(answer.status.as_u32(), flags), Ordering::Relaxed);
        record.response_and_log.store(lengths, Ordering::Relaxed);
        record.message_and_code.store(pack(answer.message.len() as u32, refusal), Ordering::Relaxed);
        record.wall_ns.store(answer.wall_ns, Ordering::Relaxed);
        record.cpu_ns.store(answer.cpu_ns, Ordering::Relaxed);
        record.memory_bytes.store(answer.memory_bytes, Ordering::Relaxed);
        self.answered = position + 1;
        publish(&record.sequence, position);
        self.order.pass();
        self.host_bell().ring();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
