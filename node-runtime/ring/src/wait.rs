//! Sleeping until the peer rings, with a short spin before it.
//!
//! The sleeper announces itself, looks once more, then sleeps on the bell's value of before the
//! look; the peer changes the bell first and then looks whether anybody sleeps. So one of the two
//! always sees the other, and a hostile peer can at worst make us wake too often or sleep until
//! the timeout.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;

use crate::RingError;

/// Looks before the first sleep. About 10 µs: on a machine with few cores the peer needs ours.
const SPIN_ROUNDS: u32 = 256;

/// A bell with the flag of the one who may sleep on it.
pub(crate) struct Bell<'a> {
    pub(crate) bell: &'a AtomicU32,
    pub(crate) sleeps: &'a AtomicU32,
}

impl Bell<'_> {
    /// Tells the sleeper that something changed.
    pub(crate) fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        if self.sleeps.load(Ordering::SeqCst) != 0 {
            // A failure means that nobody sleeps on this address, which is what we want.
            let _ = futex::wake(self.bell, futex::Flags::empty(), 1);
        }
    }

    /// Returns once `ready` holds (`true`) or `timeout` is over (`false`).
    pub(crate) fn wait(&self, timeout: Duration, ready: impl Fn() -> bool) -> Result<bool, RingError> {
        for _ in 0..SPIN_ROUNDS {
            if ready() {
                return Ok(true);
            }
            std::hint::spin_loop();
        }
        let deadline = Instant::now() + timeout;
        self.sleeps.store(1, Ordering::SeqCst);
        let result = self.sleep(deadline, ready);
        self.sleeps.store(0, Ordering::SeqCst);
        result
    }

    fn sleep(&self, deadline: Instant, ready: impl Fn() -> bool) -> Result<bool, RingError> {
        loop {
            let seen = self.bell.load(Ordering::SeqCst);
            if ready() {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let left = futex::Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            match futex::wait(self.bell, futex::Flags::empty(), seen, Some(&left)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
                Err(errno) => {
                    return Err(RingError::System { step: "futex wait", source: errno.into() });
                }
            }
        }
    }
}
