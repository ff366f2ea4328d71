//! When a request is made again, and after which pause.
//!
//! Must never decide whether a request may be made twice: that is its caller's to know.

use std::time::Duration;

use reqwest::{Response, StatusCode};

/// How often a request is made at most.
const TRIES: u32 = 5;
/// The pause before the second try, which doubles with each further one.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest pause that a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// The tries of one request.
#[derive(Debug)]
pub(super) struct Retries {
    left: u32,
    pause: Duration,
}

impl Retries {
    pub(super) fn new() -> Self {
        Self { left: TRIES - 1, pause: PAUSE }
    }

    /// How long to wait before the next try; `None` when there were enough. What the server or the balancer in front of it asks
    /// for is the least.
    pub(super) fn pause(&mut self, asked_for: Option<Duration>) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        let pause = jittered(self.pause);
        self.pause *= 2;
        Some(asked_for.map_or(pause, |least| least + pause / 4))
    }
}

/// Whether the answer is that of a balancer without a server, or of a server that cannot work at the moment.
pub(super) fn is_for_now(response: &Response) -> bool {
    matches!(response.status(), StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE)
}

/// When the server wants to be asked again.
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let header = response.headers().get(reqwest::header::RETRY_AFTER)?;
    let seconds = header.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// Half of the pause to all of it, so that clients whose server went away together do not come back together.
fn jittered(pause: Duration) -> Duration {
    let random = uuid::Uuid::new_v4().as_bytes()[0];
    pause / 2 + pause.mul_f64(f64::from(random) / f64::from(u8::MAX)) / 2
}

#[cfg(test)]
mod tests;
