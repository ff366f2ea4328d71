#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::{Duration, Instant};

use super::{Bandwidth, Busy};

#[test]
fn a_volume_is_used_as_much_as_it_may_be_and_others_wait_for_nothing() {
    let (bandwidth, now) = (Bandwidth::new(1 << 20), Instant::now());
    let (one, other) = ("one".parse().unwrap(), "other".parse().unwrap());
    let mut last = Duration::ZERO;
    for _ in 0..1_024 {
        last = bandwidth.reserve(&one, 4 << 10, now).unwrap();
    }
    // Four MiB take four seconds, but for what may be used at once.
    assert!(last > Duration::from_millis(3_970) && last < Duration::from_secs(4), "{last:?}");
    assert_eq!(bandwidth.reserve(&other, 4 << 10, now), Ok(Duration::ZERO));
    let later = now + Duration::from_secs(9);
    assert_eq!(bandwidth.reserve(&one, 4 << 10, later), Ok(Duration::ZERO));
    assert_eq!(Bandwidth::new(0).reserve(&one, 1 << 30, now), Ok(Duration::ZERO));
    // Nobody waits for longer than it makes sense.
    assert!(bandwidth.reserve(&other, 11 << 20, now).is_ok());
    assert_eq!(bandwidth.reserve(&other, 1, now), Err(Busy));
    assert!(bandwidth.reserve(&other, 1, later).is_ok());
}
