//! Sleeping until somebody rings: on one bell, or on several at once.
//!
//! The protocol is in [`crate::protocol`]; here are the system calls. A hostile peer can at worst
//! make a wait end too often, or last until its timeout.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::{ClockId, futex};

use crate::RingError;
use crate::barrier;
use crate::protocol;

/// Looks before the first sleep of an end that waits for its ring alone. A few µs: on a machine with few cores
/// the peer needs ours.
pub const SPIN_ROUNDS: u32 = 256;
/// Bells that one wait sleeps on; the kernel takes no more (`FUTEX_WAITV_MAX`). With more of them, or on a kernel without
/// `futex_waitv`, a sleep lasts [`BLIND_SLEEP_MAX`] at most.
pub const BELLS_MAX: usize = 128;
/// How long a sleep may last that some of the bells cannot end.
pub const BLIND_SLEEP_MAX: Duration = Duration::from_millis(1);

/// Who may reach the word that is slept on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Shared memory: another process wakes.
    Processes,
    /// This process alone, which is cheaper.
    Threads,
}

/// What a bell's owner does once it announced a sleep and memory is ordered.
pub(crate) trait Owner {
    /// Whether somebody of another process may publish just now.
    fn expects(&self) -> bool;
    /// Wakes the peer if it sleeps over something that was given to it.
    fn nudge(&self);
}

/// One thing that [`wait_any`] sleeps on.
#[derive(Clone, Copy)]
pub struct Bell<'a> {
    bell: &'a AtomicU32,
    sleeps: &'a AtomicU32,
    reach: Reach,
    owner: Option<&'a dyn Owner>,
}

impl std::fmt::Debug for Bell<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bell").field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl<'a> Bell<'a> {
    /// A bell in shared memory.
    pub(crate) fn shared(bell: &'a AtomicU32, sleeps: &'a AtomicU32, owner: Option<&'a dyn Owner>) -> Self {
        Self { bell, sleeps, reach: Reach::Processes, owner }
    }

    /// Wakes a sleeper that announced itself. The caller published before and ordered memory.
    pub(crate) fn ring(&self) -> bool {
        protocol::ring(self.bell, self.sleeps, |bell| {
            // A failure means that nobody sleeps on this address, which is what we want.
            let _ = futex::wake(bell, self.flags(), 1);
        })
    }

    fn flags(&self) -> futex::Flags {
        match self.reach {
            Reach::Processes => futex::Flags::empty(),
            Reach::Threads => futex::Flags::PRIVATE,
        }
    }

    fn wait_flags(&self) -> futex::WaitFlags {
        match self.reach {
            Reach::Processes => futex::WaitFlags::SIZE_U32,
            Reach::Threads => futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE,
        }
    }
}

/// A bell in this process's own memory: many threads ring it, one sleeps on it.
///
/// ```
/// # use std::sync::atomic::{AtomicBool, Ordering};
/// # use std::time::Duration;
/// let (word, queue) = (mfaas_ring::WakeWord::new(), AtomicBool::new(false));
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         queue.store(true, Ordering::Release); // publish first,
///         word.ring(); // then ring
///     });
///     let woken = mfaas_ring::wait_any(&[word.bell()], Duration::from_secs(5), || queue.load(Ordering::Acquire));
///     assert!(woken.expect("a wait"));
/// });
/// ```
#[derive(Debug, Default)]
pub struct WakeWord {
    bell: AtomicU32,
    sleeps: AtomicU32,
}

impl WakeWord {
    /// A bell on which nobody sleeps.
    pub const fn new() -> Self {
        Self { bell: AtomicU32::new(0), sleeps: AtomicU32::new(0) }
    }

    /// Wakes the sleeper if there is one. Publish what it is to find before. Costs a fence and a
    /// load, and a system call only when somebody announced a sleep.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        self.bell().ring();
    }

    /// To sleep on with [`wait_any`].
    pub fn bell(&self) -> Bell<'_> {
        Bell { bell: &self.bell, sleeps: &self.sleeps, reach: Reach::Threads, owner: None }
    }
}

/// Sleeps until `ready` holds (`true`) or `timeout` is over (`false`). Whoever makes it hold rings one
/// of `bells` afterwards. One thread at a time may sleep on a bell.
///
/// It looks before it sleeps but does not spin: who expects an answer within microseconds polls
/// first. Without any bell it only sleeps.
pub fn wait_any(
    bells: &[Bell<'_>],
    timeout: Duration,
    mut ready: impl FnMut() -> bool,
) -> Result<bool, RingError> {
    let deadline = Instant::now() + timeout;
    let sleep = Sleep::announce(bells)?;
    loop {
        let seen = sleep.observe();
        if ready() {
            return Ok(true);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        sleep.until_rung(&seen, left)?;
    }
}

/// As [`wait_any`] for one bell, after [`SPIN_ROUNDS`] or as many looks as the caller wants. The only system call
/// is `futex`.
pub(crate) fn wait_one(
    bell: Bell<'_>,
    spin_rounds: u32,
    timeout: Duration,
    ready: impl Fn() -> bool,
) -> Result<bool, RingError> {
    for _ in 0..spin_rounds {
        if ready() {
            return Ok(true);
        }
        std::hint::spin_loop();
    }
    wait_any(&[bell], timeout, ready)
}

/// An announced sleep; withdrawn when dropped, whatever the way out.
struct Sleep<'b, 'a> {
    bells: &'b [Bell<'a>],
}

impl<'b, 'a> Sleep<'b, 'a> {
    fn announce(bells: &'b [Bell<'a>]) -> Result<Self, RingError> {
        let sleep = Self { bells };
        for bell in bells {
            protocol::announce(bell.sleeps);
        }
        let mut owners = bells.iter().filter_map(|bell| bell.owner);
        barrier::before_sleep(owners.any(Owner::expects))?;
        bells.iter().filter_map(|bell| bell.owner).for_each(Owner::nudge);
        Ok(sleep)
    }

    fn observe(&self) -> [u32; BELLS_MAX] {
        let mut seen = [0; BELLS_MAX];
        for (seen, bell) in seen.iter_mut().zip(self.bells) {
            *seen = protocol::observe(bell.bell);
        }
        seen
    }

    fn until_rung(&self, seen: &[u32; BELLS_MAX], left: Duration) -> Result<(), RingError> {
        let result = match self.bells {
            [] => {
                std::thread::sleep(left);
                Ok(())
            }
            [bell] => sleep_on(bell, seen[0], left),
            bells if bells.len() <= BELLS_MAX => sleep_on_several(bells, seen, left),
            bells => sleep_on_several(&bells[..BELLS_MAX], seen, left.min(BLIND_SLEEP_MAX)),
        };
        match result {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => Ok(()),
            Err(errno) => Err(RingError::System { step: "futex wait", source: errno.into() }),
        }
    }
}

impl Drop for Sleep<'_, '_> {
    fn drop(&mut self) {
        for bell in self.bells {
            protocol::withdraw(bell.sleeps);
        }
    }
}

fn sleep_on(bell: &Bell<'_>, seen: u32, left: Duration) -> Result<(), Errno> {
    futex::wait(bell.bell, bell.flags(), seen, Some(&timespec(left)))
}

fn sleep_on_several(bells: &[Bell<'_>], seen: &[u32; BELLS_MAX], left: Duration) -> Result<(), Errno> {
    let mut waits = [futex::Wait::new(); BELLS_MAX];
    for ((wait, bell), seen) in waits.iter_mut().zip(bells).zip(seen) {
        wait.val = u64::from(*seen);
        wait.uaddr = futex::WaitPtr::new(bell.bell.as_ptr().cast());
        wait.flags = bell.wait_flags();
    }
    // Its timeout is a moment, that of the plain call a duration.
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    let moment = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32).saturating_add(left);
    let flags = futex::WaitvFlags::empty();
    match futex::waitv(&waits[..bells.len()], flags, Some(&timespec(moment)), ClockId::Monotonic) {
        Err(Errno::NOSYS) => sleep_on(&bells[0], seen[0], left.min(BLIND_SLEEP_MAX)),
        Err(errno) => Err(errno),
        Ok(_) => Ok(()),
    }
}

fn timespec(time: Duration) -> futex::Timespec {
    futex::Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
