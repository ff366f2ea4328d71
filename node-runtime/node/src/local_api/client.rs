//! One client of the local API: its ring, the names that it may call, and its calls on their way.
//!
//! Must never believe a word of the ring, answer a call twice, or give back its place before its calls are answered.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use mfaas_abi::Status;
use mfaas_abi::frame::{RequestFrame, encode_request};
use mfaas_abi::limits::FRAME_BYTES_MAX;
use mfaas_ident::{FunctionRef, TenantName};
use mfaas_ring::local_api::{LocalEnd, is_gone};
use mfaas_ring::{Answer, Bell, Completion, Job, RingError, WakeWord};
use mfaas_rules::{Code, codes};
use tokio::sync::OwnedSemaphorePermit;

use super::refusal;
use crate::grant::{Grant, LocalGrants};
use crate::ingress::{LOCAL, is_own};
use crate::serving::{Answered, Asked, CALLER, Dispatcher, Way};

/// Calls of one client that are on their way. With requests and answers of a mebibyte each a client holds 34 MiB.
pub(super) const SLOTS: u32 = 16;

/// Whom clients call, and what they may.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) grants: LocalGrants,
}

/// What the header with the caller's name adds to a frame.
const CALLER_BYTES_MAX: usize = 32;

/// What a number in a submission stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    tenant: TenantName,
    function: FunctionRef,
}

impl Target {
    /// Reads `tenant/function[@selector]`.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (tenant, function) = name.split_once('/')?;
        Some(Self { tenant: TenantName::parse(tenant).ok()?, function: function.parse().ok()? })
    }
}

/// The answer to a client about a call.
#[derive(Debug)]
pub(super) enum Reply {
    /// The function's own end.
    Ended(Completion),
    /// It did not run, or was lost.
    Refused(Code),
}

/// A call with the dispatcher.
type Called = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A call of which the answer is not written yet.
enum Slot {
    /// With the dispatcher.
    Called(Called),
    /// Answered, or refused before it came there.
    Answered(Reply),
}

/// Tells the API's thread that an answer has come. It is the waker of all calls of one client: the thread itself awaits
/// them, so no other thread stands between a worker's answer and the client.
struct Knock {
    knocked: AtomicBool,
    word: Arc<WakeWord>,
}

impl Wake for Knock {
    fn wake(self: Arc<Self>) {
        self.knocked.store(true, Ordering::Release);
        self.word.ring();
    }
}

/// A client that was let in.
pub(super) struct Client {
    number: u64,
    /// Its end says that the client is gone.
    stream: UnixStream,
    end: LocalEnd,
    targets: Arc<[Target]>,
    /// Calls taken and not answered, oldest first.
    waiting: VecDeque<Slot>,
    knock: Arc<Knock>,
    waker: Waker,
    /// Gone or put out: it stays only until its calls are answered, which nobody reads any more.
    leaves: bool,
    /// Given back with the client.
    _place: OwnedSemaphorePermit,
}

impl Client {
    pub(super) fn new(
        number: u64,
        stream: UnixStream,
        end: LocalEnd,
        targets: Vec<Target>,
        word: &Arc<WakeWord>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let knock = Arc::new(Knock { knocked: AtomicBool::new(false), word: Arc::clone(word) });
        Self {
            number,
            stream,
            end,
            targets: targets.into(),
            waiting: VecDeque::with_capacity(SLOTS as usize),
            waker: Waker::from(Arc::clone(&knock)),
            knock,
            leaves: false,
            _place: place,
        }
    }

    /// A number that no other client of this node has or had.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Looks whether the client still lives.
    pub(super) fn look(&mut self) {
        self.leaves |= is_gone(&self.stream);
    }

    /// Whether it left and none of its calls is on its way.
    pub(super) fn has_left(&self) -> bool {
        self.leaves && self.waiting.is_empty()
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether [`Self::run`] has something to do.
    pub(super) fn wants_something(&self) -> bool {
        self.knock.knocked.load(Ordering::Acquire) || (!self.leaves && self.end.has_next())
    }

    pub(super) fn bell(&self) -> Bell<'_> {
        self.end.bell()
    }

    /// Takes what was submitted and writes what was answered. On an error the client is put out.
    pub(super) fn run(&mut self, host: &Host) -> Result<(), RingError> {
        let ran = self.take_calls(host).and_then(|()| self.write_answers());
        if ran.is_err() {
            self.leaves = true;
            // The client's waits end with its socket.
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
        ran
    }

    /// Takes calls and gives them to the dispatcher; so many at a time, since a client may submit as fast as it is refused.
    fn take_calls(&mut self, host: &Host) -> Result<(), RingError> {
        for _ in 0..SLOTS {
            if self.leaves {
                break;
            }
            let mut frame = Vec::new();
            let Some(job) = self.end.take(&mut frame)? else { break };
            let slot = match self.checked(&job, &frame) {
                Ok(frame) => self.call(job.function, frame, host),
                Err(code) => Slot::Answered(Reply::Refused(code)),
            };
            self.waiting.push_back(slot);
        }
        Ok(())
    }

    /// The call as a function may see it: with the name of its caller, which no client says itself.
    fn checked(&self, job: &Job, frame: &[u8]) -> Result<Vec<u8>, Code> {
        self.targets.get(job.function as usize).ok_or(codes::MF0801)?;
        let request = RequestFrame::decode(frame).map_err(|_| codes::MF0809)?;
        // Names in a frame are lower-case.
        if request.headers.iter().any(|(name, _)| is_own(name)) {
            return Err(codes::MF0809);
        }
        let mut named = Vec::with_capacity(frame.len() + CALLER_BYTES_MAX);
        let headers = request.headers.iter().chain([(CALLER, LOCAL)]);
        encode_request(&mut named, request.method, request.path, headers, request.body)
            .map_err(|_| codes::MF0809)?;
        Ok(named)
    }

    /// Begins a call.
    fn call(&self, function: u32, frame: Vec<u8>, host: &Host) -> Slot {
        let (dispatcher, targets) = (Arc::clone(&host.dispatcher), Arc::clone(&self.targets));
        let grant = targets
            .get(function as usize)
            .map_or(Grant::NOTHING, |target| host.grants.grant(&target.tenant, &target.function.name));
        let called: Called = Box::pin(async move {
            let Some(Target { tenant, function }) = targets.get(function as usize) else {
                return Reply::Refused(codes::MF0801);
            };
            let (function, selector) = (&function.name, function.selector.as_ref());
            let asked = Asked { tenant, function, selector, wait_max: None, grant, way: Way::Queued };
            match dispatcher.call(asked, frame).await {
                Ok(answered) => reply_of(answered),
                Err(error) => Reply::Refused(refusal::of_error(&error)),
            }
        });
        // A future does nothing until it is polled.
        self.poll(called)
    }

    fn poll(&self, mut called: Called) -> Slot {
        match called.as_mut().poll(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(reply) => Slot::Answered(reply),
            Poll::Pending => Slot::Called(called),
        }
    }

    /// Writes the answers that are there, as far as they are next in order.
    fn write_answers(&mut self) -> Result<(), RingError> {
        self.knock.knocked.store(false, Ordering::Release);
        while let Some(oldest) = self.waiting.pop_front() {
            let slot = match oldest {
                Slot::Called(called) => self.poll(called),
                answered @ Slot::Answered(_) => answered,
            };
            let Slot::Answered(reply) = slot else {
                self.waiting.push_front(slot);
                break;
            };
            if !self.leaves {
                self.write(&reply)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, reply: &Reply) -> Result<(), RingError> {
        match reply {
            // Of a bulk function, through a ring that is not made for such.
            Reply::Ended(done) if done.response.len() > FRAME_BYTES_MAX => {
                self.write(&Reply::Refused(codes::MF0810))
            }
            Reply::Ended(done) => {
                count("");
                let answer = Answer {
                    status: done.status,
                    cold: done.cold,
                    waits: false,
                    response: &done.response,
                    // Lines and messages are the tenant's, and go where those of HTTP calls go.
                    logs: b"",
                    message: b"",
                    inline: b"",
                    wall_ns: done.wall_ns,
                    cpu_ns: done.cpu_ns,
                    memory_bytes: done.memory_bytes,
                };
                self.end.reply(&answer, 0)
            }
            Reply::Refused(code) => {
                count(code.id());
                let message = code.title().as_bytes();
                let answer = Answer {
                    status: Status::Aborted,
                    cold: false,
                    waits: false,
                    response: b"",
                    logs: b"",
                    message,
                    inline: b"",
                    wall_ns: 0,
                    cpu_ns: 0,
                    memory_bytes: 0,
                };
                self.end.reply(&answer, code.number())
            }
        }
    }
}

fn reply_of(answered: Answered) -> Reply {
    let Answered { outcome, completion, ran, .. } = answered;
    match (refusal::of_outcome(outcome), completion) {
        (None, Some(mut done)) => {
            // The worker's clock is finer but hostile: never more than what we saw ourselves.
            done.wall_ns = done.wall_ns.min(u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX));
            metrics::histogram!("mfaas_run_seconds").record(done.wall_ns as f64 / 1e9);
            Reply::Ended(done)
        }
        (Some(code), _) => Reply::Refused(code),
        (None, None) => Reply::Refused(codes::MF0808),
    }
}

fn count(code: &'static str) {
    metrics::counter!("mfaas_local_api_calls_total", "code" => code).increment(1);
}
