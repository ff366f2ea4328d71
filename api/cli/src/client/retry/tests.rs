#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use super::{PAUSE, Retries, TRIES};

#[test]
fn pauses_grow_differ_and_end() {
    let pauses = || {
        let mut retries = Retries::new();
        std::iter::from_fn(move || retries.pause(None)).collect::<Vec<_>>()
    };
    let first = pauses();
    assert_eq!(first.len(), TRIES as usize - 1);
    for (number, pause) in first.iter().enumerate() {
        let most = PAUSE * 2_u32.pow(u32::try_from(number).unwrap());
        assert!((most / 2..=most).contains(pause), "{number}: {pause:?}");
    }
    assert!((0..20).any(|_| pauses() != first), "there is no jitter");
}

#[test]
fn what_the_server_asks_for_is_the_least() {
    let hour = Duration::from_secs(3_600);
    let pause = Retries::new().pause(Some(hour)).unwrap();
    assert!((hour..hour + PAUSE).contains(&pause), "{pause:?}");
}
