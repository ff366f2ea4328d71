//! One client of the door: its ring, the names that it may call, and its calls on their way.
//!
//! Must never believe a word of the ring, nor answer a call twice.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use mfaas_abi::Status;
use mfaas_abi::frame::RequestFrame;
use mfaas_ident::{FunctionRef, TenantName};
use mfaas_ring::door::{DoorEnd, is_gone};
use mfaas_ring::{Answer, Bell, Completion, Job, RingError};
use mfaas_rules::{Code, codes};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use super::{Event, Inbox, refusal};
use crate::serving::{Answered, Dispatcher};

/// Headers of the node itself, which no caller sets.
const OWN_PREFIX: &str = "mfaas-";

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

/// What a client is told about a call.
#[derive(Debug)]
pub(super) enum Reply {
    /// The function's own end.
    Ended(Completion),
    /// It did not run, or was lost.
    Refused(Code),
}

/// A client that was let in.
#[derive(Debug)]
pub(super) struct Guest {
    number: u64,
    /// Its end says that the client is gone.
    stream: UnixStream,
    end: DoorEnd,
    targets: Arc<[Target]>,
    /// Calls taken and not answered, oldest first, with the answers that came too early.
    waiting: VecDeque<Option<Reply>>,
    /// The number of the oldest of them.
    oldest: u64,
    /// Given back when the guest and all of its calls are gone.
    place: Arc<OwnedSemaphorePermit>,
}

impl Guest {
    pub(super) fn new(
        number: u64,
        stream: UnixStream,
        end: DoorEnd,
        targets: Vec<Target>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let (waiting, place) = (VecDeque::new(), Arc::new(place));
        Self { number, stream, end, targets: targets.into(), waiting, oldest: 0, place }
    }

    /// A number that no other guest of this node has or had.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn is_gone(&self) -> bool {
        is_gone(&self.stream)
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn has_call(&self) -> bool {
        self.end.has_next()
    }

    pub(super) fn bell(&self) -> Bell<'_> {
        self.end.bell()
    }

    /// Takes every call that was submitted and gives it to the dispatcher; the answer comes to `inbox`.
    pub(super) fn take_calls(
        &mut self,
        dispatcher: &Arc<Dispatcher>,
        runtime: &Handle,
        inbox: &Arc<Inbox>,
    ) -> Result<(), RingError> {
        loop {
            let mut frame = Vec::new();
            let Some(job) = self.end.take(&mut frame)? else { return Ok(()) };
            let call = self.oldest + self.waiting.len() as u64;
            self.waiting.push_back(None);
            match self.target(&job, &frame) {
                Ok(_) => self.call(call, job.function, frame, dispatcher, runtime, inbox),
                Err(code) => self.answer(call, Reply::Refused(code))?,
            }
        }
    }

    /// The function that a call is for, if it may be called like this.
    fn target(&self, job: &Job, frame: &[u8]) -> Result<&Target, Code> {
        let number = usize::try_from(job.function).unwrap_or(usize::MAX);
        let target = self.targets.get(number).ok_or(codes::MF0801)?;
        let request = RequestFrame::decode(frame).map_err(|_| codes::MF0809)?;
        // Names in a frame are lower-case.
        if request.headers.iter().any(|(name, _)| name.starts_with(OWN_PREFIX)) {
            return Err(codes::MF0809);
        }
        Ok(target)
    }

    fn call(
        &self,
        call: u64,
        function: u32,
        frame: Vec<u8>,
        dispatcher: &Arc<Dispatcher>,
        runtime: &Handle,
        inbox: &Arc<Inbox>,
    ) {
        let (dispatcher, inbox) = (Arc::clone(dispatcher), Arc::clone(inbox));
        let (targets, place, guest) = (Arc::clone(&self.targets), Arc::clone(&self.place), self.number);
        runtime.spawn(async move {
            let reply = match targets.get(function as usize) {
                Some(Target { tenant, function }) => {
                    let selector = function.selector.as_ref();
                    match dispatcher.call(tenant, &function.name, selector, frame).await {
                        Ok(answered) => reply_of(answered),
                        Err(error) => Reply::Refused(refusal::of_error(&error)),
                    }
                }
                None => Reply::Refused(codes::MF0801),
            };
            drop(place);
            inbox.post(Event::Answered { guest, call, reply });
        });
    }

    /// Keeps the answer of a call and writes all that are next in order.
    pub(super) fn answer(&mut self, call: u64, reply: Reply) -> Result<(), RingError> {
        let place = call.checked_sub(self.oldest).and_then(|place| usize::try_from(place).ok());
        let Some(slot) = place.and_then(|place| self.waiting.get_mut(place)) else { return Ok(()) };
        *slot = Some(reply);
        while let Some(Some(reply)) = self.waiting.front_mut().map(Option::take) {
            self.waiting.pop_front();
            self.oldest += 1;
            self.write(&reply)?;
        }
        Ok(())
    }

    fn write(&mut self, reply: &Reply) -> Result<(), RingError> {
        match reply {
            Reply::Ended(done) => {
                count("");
                let answer = Answer {
                    status: done.status,
                    cold: done.cold,
                    response: &done.response,
                    // Lines and messages are the tenant's, and go where those of HTTP calls go.
                    logs: b"",
                    message: b"",
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
                    response: b"",
                    logs: b"",
                    message,
                    wall_ns: 0,
                    cpu_ns: 0,
                    memory_bytes: 0,
                };
                self.end.reply(&answer, refusal::number(*code))
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
    metrics::counter!("mfaas_door_calls_total", "code" => code).increment(1);
}
