//! The bare ring that every side of our own speaks: 128-byte slots in shared memory, one writer and
//! one reader each way, nothing checked and nobody asleep. It is the floor that mfaas is measured
//! against, so it must never do more than two processes need to exchange 64 bytes.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use command_fds::{CommandFdExt as _, FdMapping};

use super::{Kit, Timing};
use crate::function::{ANSWER_BYTES, REQUEST_BYTES};
use crate::functions::{Kind, glanced, request, verified};
use crate::sys::{pin, shared::Shared, stamp};

/// Descriptor of the shared memory in the worker.
pub const FD_LINE: i32 = 3;

/// Slots each way, a power of two.
const SLOTS: u64 = 256;
/// Words of one slot: sequence number, function or length, payload.
const SLOT_WORDS: usize = 16;
const REQUEST_WORDS: usize = REQUEST_BYTES / 8;
const ANSWER_WORDS: usize = ANSWER_BYTES / 8;
/// Words before the first slot, each used one on a cache line of its own.
const HEAD_WORDS: usize = 64;
const STATE: usize = 0;
const READY: usize = 16;
const WORDS: usize = HEAD_WORDS + 2 * SLOTS as usize * SLOT_WORDS;
/// Values of [`STATE`]: the worker sleeps in a read of its standard input, or spins.
const RESTING: u64 = 0;
const ACTIVE: u64 = 1;

/// How long a worker may take to load its functions, and to answer one call.
const START_WAIT_MAX: Duration = Duration::from_secs(120);
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);
/// Looks between two looks at the clock and at the worker's life.
const SPINS: u32 = 1 << 20;

/// The memory, seen from either end.
#[derive(Debug)]
struct Slots(Shared);

impl Slots {
    fn request(number: u64) -> usize {
        HEAD_WORDS + (number % SLOTS) as usize * SLOT_WORDS
    }

    fn answer(number: u64) -> usize {
        Self::request(number) + SLOTS as usize * SLOT_WORDS
    }

    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.0.words()[at].load(order)
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.0.words()[at].store(value, order);
    }

    /// Writes second word and payload, then the number that makes them visible.
    fn put<const N: usize>(&self, at: usize, number: u64, second: u64, payload: &[u8; N]) {
        self.store(at + 1, second, Ordering::Relaxed);
        for (place, bytes) in payload.chunks_exact(8).enumerate() {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            self.store(at + 2 + place, u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        self.store(at, number + 1, Ordering::Release);
    }

    fn is_there(&self, at: usize, number: u64) -> bool {
        self.load(at, Ordering::Acquire) == number + 1
    }

    fn get<const N: usize>(&self, at: usize) -> (u64, [u8; N]) {
        let mut payload = [0; N];
        for (place, bytes) in payload.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&self.load(at + 2 + place, Ordering::Relaxed).to_ne_bytes());
        }
        (self.load(at + 1, Ordering::Relaxed), payload)
    }
}

const _: () = assert!(2 + ANSWER_WORDS <= SLOT_WORDS && 2 + REQUEST_WORDS <= SLOT_WORDS);

/// The worker's loop: answers requests on the memory behind [`FD_LINE`] until its standard input
/// ends. `answer` returns the bytes of its answer.
pub fn serve(
    fd: OwnedFd,
    mut answer: impl FnMut(u64, &[u8; REQUEST_BYTES], &mut [u8; ANSWER_BYTES]) -> anyhow::Result<usize>,
) -> anyhow::Result<()> {
    let slots = Slots(Shared::attach(fd, WORDS)?);
    let mut bell = std::io::stdin().lock();
    slots.store(READY, 1, Ordering::Release);
    let mut number = 0;
    loop {
        let at = Slots::request(number);
        if slots.is_there(at, number) {
            let (function, request) = slots.get::<REQUEST_BYTES>(at);
            let mut reply = [0; ANSWER_BYTES];
            let bytes = answer(function, &request, &mut reply)?;
            slots.put(Slots::answer(number), number, bytes as u64, &reply);
            number += 1;
        } else if slots.load(STATE, Ordering::Relaxed) == RESTING {
            if std::io::Read::read(&mut bell, &mut [0]).context("read the bell")? == 0 {
                return Ok(());
            }
        } else {
            std::hint::spin_loop();
        }
    }
}

/// The caller's end, with the worker that answers it.
#[derive(Debug)]
pub struct Line {
    slots: Slots,
    child: Child,
    bell: Option<ChildStdin>,
    sent: u64,
    received: u64,
    kind: Kind,
}

impl Line {
    /// Starts the benchmark's own program as a worker with `arguments` on the worker's core, and
    /// waits until it is ready. All functions are of one kind.
    pub fn start(kit: &Kit, kind: Kind, arguments: &[String]) -> anyhow::Result<Self> {
        let (fd, shared) = Shared::create(WORDS)?;
        let mut command = Command::new(kit.programs.bench()?);
        command.arg("serve").args(["--core", &kit.cores.worker.to_string()]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command
            .fd_mappings(vec![FdMapping { parent_fd: fd, child_fd: FD_LINE }])
            .context("one descriptor")?;
        let mut child = command.spawn().context("start a worker")?;
        let bell = child.stdin.take();
        let mut line = Self { slots: Slots(shared), child, bell, sent: 0, received: 0, kind };
        let deadline = Instant::now() + START_WAIT_MAX;
        while line.slots.load(READY, Ordering::Acquire) == 0 {
            line.look_after(deadline)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        pin(kit.cores.caller)?;
        Ok(line)
    }

    /// The worker's process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Makes the worker spin.
    pub fn wake(&mut self) -> anyhow::Result<()> {
        self.slots.store(STATE, ACTIVE, Ordering::Relaxed);
        let bell = self.bell.as_mut().context("the worker was stopped")?;
        bell.write_all(b".").context("wake the worker")
    }

    /// Lets the worker sleep.
    pub fn rest(&mut self) -> anyhow::Result<()> {
        self.slots.store(STATE, RESTING, Ordering::Relaxed);
        Ok(())
    }

    /// One verified call.
    pub fn call(&mut self, function: u64) -> anyhow::Result<Timing> {
        let request = request(self.sent);
        let number = self.sent;
        let sent = stamp();
        self.slots.put(Slots::request(number), number, function, &request);
        self.sent += 1;
        self.wait(number)?;
        let (bytes, answer) = self.slots.get::<ANSWER_BYTES>(Slots::answer(number));
        let answered = stamp();
        self.received += 1;
        self.verify(function, &request, bytes, &answer)?;
        Ok(Timing { sent, answered })
    }

    /// Keeps half of the slots full until `calls` calls are answered.
    pub fn pipelined(
        &mut self,
        calls: u64,
        mut function: impl FnMut(u64) -> u64,
    ) -> anyhow::Result<Duration> {
        let (first, end) = (self.sent, self.sent + calls);
        let begin = Instant::now();
        while self.received < end {
            while self.sent < end && self.sent - self.received < SLOTS / 2 {
                let number = self.sent;
                let called = function(number - first);
                self.slots.put(Slots::request(number), number, called, &request(number));
                self.sent += 1;
            }
            self.wait(self.received)?;
            while self.received < self.sent
                && self.slots.is_there(Slots::answer(self.received), self.received)
            {
                let number = self.received;
                let (bytes, answer) = self.slots.get::<ANSWER_BYTES>(Slots::answer(number));
                self.glance(number, function(number - first), bytes, &answer)?;
                self.received += 1;
            }
        }
        Ok(begin.elapsed())
    }

    fn verify(
        &self,
        function: u64,
        request: &[u8; REQUEST_BYTES],
        bytes: u64,
        answer: &[u8; ANSWER_BYTES],
    ) -> anyhow::Result<()> {
        let answer = answer.get(..bytes as usize).context("an answer that is too long")?;
        verified(&self.kind.constants(function), request, answer)
    }

    fn glance(
        &self,
        number: u64,
        function: u64,
        bytes: u64,
        answer: &[u8; ANSWER_BYTES],
    ) -> anyhow::Result<()> {
        let answer = answer.get(..bytes as usize).context("an answer that is too long")?;
        glanced(number, &self.kind.constants(function), &request(number), answer)
    }

    fn wait(&mut self, number: u64) -> anyhow::Result<()> {
        let at = Slots::answer(number);
        for _ in 0..SPINS {
            if self.slots.is_there(at, number) {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let deadline = Instant::now() + ANSWER_WAIT_MAX;
        while !self.slots.is_there(at, number) {
            self.look_after(deadline)?;
        }
        Ok(())
    }

    fn look_after(&mut self, deadline: Instant) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait().context("look after the worker")? {
            bail!("a worker of the bare ring ended with {status}");
        }
        ensure!(Instant::now() < deadline, "a worker of the bare ring does not answer");
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The end of its standard input is how it learns to leave; a worker that hangs is killed.
        self.slots.store(STATE, RESTING, Ordering::Relaxed);
        drop(self.bell.take());
        let deadline = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
