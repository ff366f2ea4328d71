#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{Limiter, SECOND_NS, Share};

#[test]
fn a_caller_gets_a_seconds_worth_and_then_its_rate() {
    let (limiter, share) = (Limiter::default(), Share { rate: 4, concurrency: 100 });
    let take = |whom: &str, at: u64| limiter.take_at(&whom, share, at).map(drop);
    for _ in 0..4 {
        assert_eq!(take("one", 0), Ok(()));
    }
    assert_eq!(take("one", 0), Err(1));
    assert_eq!(take("other", 0), Ok(()), "everybody has a bucket of their own");
    assert_eq!(take("one", SECOND_NS / 4 - 1), Err(1));
    assert_eq!(take("one", SECOND_NS / 4), Ok(()));
    assert_eq!(take("one", SECOND_NS / 4), Err(1));
    for _ in 0..4 {
        assert_eq!(take("one", 60 * SECOND_NS), Ok(()), "a minute saves no more than a second");
    }
    assert_eq!(take("one", 60 * SECOND_NS), Err(1));
    let slow = Share { rate: 1, concurrency: 1 };
    assert!(limiter.take_at(&"slow", slow, 0).is_ok());
    assert_eq!(limiter.take_at(&"slow", slow, 1).map(drop), Err(1));
}

#[test]
fn calls_on_their_way_are_counted_until_they_end() {
    let (limiter, share) = (Limiter::default(), Share { rate: 1_000, concurrency: 2 });
    let first = limiter.take_at(&"one", share, 0).unwrap();
    let _second = limiter.take_at(&"one", share, 0).unwrap();
    assert_eq!(limiter.take_at(&"one", share, 0).map(drop), Err(1));
    drop(first);
    assert!(limiter.take_at(&"one", share, 0).is_ok());
}

/// Forgetting a row must not forget calls: a caller that fills the table would have more of them at a time.
#[test]
fn a_row_with_calls_on_their_way_is_not_forgotten() {
    let (limiter, share) = (Limiter::default(), Share { rate: 1_000, concurrency: 1 });
    let held = limiter.take_at(&"held", share, 0).unwrap();
    for number in 0..100_000_u32 {
        assert!(limiter.take_at(&number, share, 0).is_ok());
    }
    assert_eq!(limiter.take_at(&"held", share, 0).map(drop), Err(1));
    drop(held);
    assert!(limiter.take_at(&"held", share, 0).is_ok());
    // And where everybody is inside, one more is refused instead.
    let inside: Vec<_> = (0..100_000_u32).map(|number| limiter.take_at(&number, share, 1)).collect();
    assert!(inside.iter().any(Result::is_err));
    assert!(inside.iter().filter(|taken| taken.is_ok()).count() <= 32_768);
}
