//! A generator of load: calls over HTTP/1.1 from one source address, at planned times or as fast as
//! answers come.
//!
//! Latency counts from the time that a call was planned for, so that neither a slow answer nor a slow
//! generator hides what the calls behind it wait. A call that is refused or lost took for ever. It must
//! never retry a call: what a node does not answer is a miss.

mod crowd;
mod exchange;
mod relay;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use crowd::Crowd;
pub use relay::Relay;

use crate::functions::{VERIFIED_EVERY, glanced, request, verified};
use crate::sides::mfaas::Target;
use exchange::{Connection, End, Exchange, Progress};

/// A call is given up this long after its planned time: a node lets a call wait for five seconds.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(6);
/// How long the generator sleeps at most while it waits for answers.
const LOOK: Duration = Duration::from_millis(5);
/// Between two attempts where a connection cannot even be begun.
const PAUSE: Duration = Duration::from_millis(1);
/// Answers of a run that are verified in full after it, at most: to do each one's work again meanwhile
/// would make the generator late.
const KEPT_MAX: usize = 16;
/// The kernel wakes the generator as exactly as it can, instead of within 50 µs.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// How calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// Where they come from.
    pub source: Ipv4Addr,
    /// Connections at once, and so calls in flight, at most.
    pub connections: usize,
    /// Bytes of each request's body; what a function looks at is its beginning.
    pub body_bytes: usize,
    /// A connection for each call, instead of connections that are kept.
    pub reconnects: bool,
}

/// A call of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When, since the begin of the plan.
    pub at: Duration,
    /// Which target.
    pub target: usize,
}

/// `calls` Poisson arrivals at `rate` a second, each at one of `targets` targets at random.
pub fn arrivals(rate: f64, calls: usize, targets: usize, random: &mut u64) -> Vec<Arrival> {
    let mut at = 0.0;
    (0..calls)
        .map(|_| {
            at -= (1.0 - uniform(random)).ln() / rate;
            Arrival { at: Duration::from_secs_f64(at), target: pick(targets, random) }
        })
        .collect()
}

fn pick(targets: usize, random: &mut u64) -> usize {
    (uniform(random) * targets as f64) as usize
}

/// From 0 up to 1, by splitmix64 (Steele, Lea, Flood 2014).
pub fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// What became of the calls of a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Of every call, from its planned time on, in µs; a miss took for ever.
    pub latency_us: Vec<f64>,
    /// Answered by the function.
    pub answered: u64,
    /// Answered with another status than 200.
    pub refused: u64,
    /// Not answered.
    pub lost: u64,
}

/// What a generator that never stops by itself has done, for whoever watches it.
#[derive(Debug, Default)]
pub struct Tally {
    /// Calls that functions answered.
    pub answered: AtomicU64,
    /// Calls that were refused, and connections that the node closed.
    pub refused: AtomicU64,
    /// Connections that are open now, where that is what it does.
    pub held: AtomicU64,
}

/// The generator.
#[derive(Debug)]
pub struct Generator {
    server: SocketAddr,
    manner: Manner,
    targets: Vec<Target>,
    idle: Vec<Connection>,
    busy: Vec<Exchange>,
    number: u64,
    kept: Vec<(u64, usize, Vec<u8>)>,
}

impl Generator {
    /// A generator for functions of a node.
    pub fn new(server: SocketAddr, manner: Manner, targets: Vec<Target>) -> Self {
        let (idle, busy, kept) = Default::default();
        Self { server, manner, targets, idle, busy, number: 0, kept }
    }

    /// Makes each call of a plan at its time, whether or not earlier ones were answered.
    pub fn open_loop(&mut self, plan: &[Arrival]) -> anyhow::Result<Outcome> {
        rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS)).context("set the timer slack")?;
        let mut outcome = Outcome::default();
        let mut waiting: VecDeque<(Instant, usize)> = VecDeque::new();
        let mut coming = plan.iter().peekable();
        let begin = Instant::now();
        while outcome.latency_us.len() < plan.len() {
            while let Some(arrival) = coming.next_if(|arrival| begin + arrival.at <= Instant::now()) {
                waiting.push_back((begin + arrival.at, arrival.target));
            }
            while self.busy.len() < self.manner.connections
                && let Some((planned, target)) = waiting.pop_front()
            {
                if planned.elapsed() > ANSWER_WAIT_MAX || !self.begin(planned, target) {
                    outcome.note(&End::Lost);
                }
            }
            let wait = coming.peek().map_or(LOOK, |arrival| {
                (begin + arrival.at).saturating_duration_since(Instant::now()).min(LOOK)
            });
            for end in self.turn(wait)? {
                outcome.note(&end);
            }
        }
        self.verify_kept()?;
        Ok(outcome)
    }

    /// Keeps all connections busy for `window`, with calls of targets at random; calls answered a second.
    /// On a machine that is so busy that hardly a call ends in it, for longer.
    pub fn saturate(&mut self, window: Duration, random: &mut u64) -> anyhow::Result<f64> {
        let (begin, mut answered, mut ended) = (Instant::now(), 0_u64, 0_u64);
        let enough = self.manner.connections as u64;
        while begin.elapsed() < window || (ended < enough && begin.elapsed() < ANSWER_WAIT_MAX) {
            self.fill(random);
            for end in self.turn(LOOK)? {
                ended += 1;
                answered += u64::from(matches!(end, End::Answered { .. }));
            }
        }
        let rate = answered as f64 / begin.elapsed().as_secs_f64();
        self.finish()?;
        self.verify_kept()?;
        ensure!(answered * 2 > ended, "of {ended} calls the node answered {answered}");
        Ok(rate)
    }

    /// Keeps all connections busy until `stop`, then waits for what is in flight.
    pub fn flood(&mut self, stop: &AtomicBool, tally: &Tally, random: &mut u64) -> anyhow::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            self.fill(random);
            for end in self.turn(LOOK)? {
                let counter =
                    if matches!(end, End::Answered { .. }) { &tally.answered } else { &tally.refused };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.finish()
    }

    /// One call, alone in flight, in µs.
    pub fn call(&mut self, target: usize) -> anyhow::Result<f64> {
        let outcome = self.open_loop(&[Arrival { at: Duration::ZERO, target }])?;
        ensure!(outcome.answered == 1, "{} answers no call", self.targets[target].path);
        Ok(outcome.latency_us[0])
    }

    /// Closes what is kept open, so that nothing is used that the node closes in the same moment.
    pub fn disconnect(&mut self) {
        self.idle.clear();
    }

    fn fill(&mut self, random: &mut u64) {
        while self.busy.len() < self.manner.connections {
            let target = pick(self.targets.len(), random);
            if !self.begin(Instant::now(), target) {
                std::thread::sleep(PAUSE);
                return;
            }
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        while !self.busy.is_empty() {
            self.turn(LOOK)?;
        }
        Ok(())
    }

    /// Begins a call; `false` where there is not even a connection to begin.
    fn begin(&mut self, planned: Instant, target: usize) -> bool {
        let kept = std::iter::from_fn(|| self.idle.pop()).find(Connection::is_open);
        let opened = || Connection::open(self.server, self.manner.source).ok();
        let Some(connection) = kept.or_else(opened) else { return false };
        let Some(called) = self.targets.get(target) else { return false };
        self.number += 1;
        let message = message(self.server, called, self.number, self.manner.body_bytes);
        self.busy.push(Exchange::new(connection, message, (planned, target, self.number)));
        true
    }

    /// Waits up to `wait` for something to happen, and returns the calls that ended.
    fn turn(&mut self, wait: Duration) -> anyhow::Result<Vec<End>> {
        let timeout = Timespec::try_from(wait).context("a time to wait")?;
        let mut descriptors: Vec<PollFd<'_>> = self
            .busy
            .iter()
            .map(|exchange| {
                let sends = if exchange.is_sent() { PollFlags::empty() } else { PollFlags::OUT };
                PollFd::from_borrowed_fd(exchange.connection(), PollFlags::IN | sends)
            })
            .collect();
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("wait for answers"),
        }
        let ready: Vec<bool> = descriptors.iter().map(|found| !found.revents().is_empty()).collect();
        let mut ends = Vec::new();
        for index in (0..self.busy.len()).rev() {
            let exchange = &mut self.busy[index];
            let progress = if ready[index] { exchange.advance() } else { Progress::Open };
            if matches!(progress, Progress::Open) && exchange.planned.elapsed() <= ANSWER_WAIT_MAX {
                continue;
            }
            let exchange = self.busy.swap_remove(index);
            ends.push(self.end(exchange, progress)?);
        }
        Ok(ends)
    }

    /// What became of a call, whose connection is kept if it can be.
    fn end(&mut self, exchange: Exchange, progress: Progress) -> anyhow::Result<End> {
        let Progress::Answered { status, body, keeps } = progress else { return Ok(End::Lost) };
        let latency_us = exchange.planned.elapsed().as_secs_f64() * 1e6;
        let (number, target) = (exchange.number, exchange.target);
        if keeps && !self.manner.reconnects {
            self.idle.push(exchange.into_connection());
        }
        if status != 200 {
            return Ok(End::Refused);
        }
        if !number.is_multiple_of(VERIFIED_EVERY) {
            glanced(number, &self.targets[target].constants, &request(number), &body)?;
        } else if self.kept.len() < KEPT_MAX {
            self.kept.push((number, target, body));
        }
        Ok(End::Answered { latency_us })
    }

    fn verify_kept(&mut self) -> anyhow::Result<()> {
        self.kept.drain(..).try_for_each(|(number, target, body)| {
            verified(&self.targets[target].constants, &request(number), &body).map(drop)
        })
    }
}

/// The request of call `number`: its body begins with what the function answers.
fn message(server: SocketAddr, target: &Target, number: u64, body_bytes: usize) -> Vec<u8> {
    let (path, request) = (&target.path, request(number));
    let length = body_bytes.max(request.len());
    let mut message =
        format!("POST {path} HTTP/1.1\r\nhost: {server}\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    let end = message.len() + length;
    message.extend_from_slice(&request);
    message.resize(end, 0);
    message
}

impl Outcome {
    fn note(&mut self, end: &End) {
        let (latency_us, counter) = match end {
            End::Answered { latency_us } => (*latency_us, &mut self.answered),
            End::Refused => (f64::INFINITY, &mut self.refused),
            End::Lost => (f64::INFINITY, &mut self.lost),
        };
        *counter += 1;
        self.latency_us.push(latency_us);
    }
}

#[cfg(test)]
mod tests;
