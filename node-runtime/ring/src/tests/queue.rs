//! Any order of steps at both ends gives what a plain queue gives.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::{answer, collect, ring, submit, take};
use crate::{Next, RingError, SMALL_BYTES_MAX};

#[derive(Debug, Clone, Copy)]
enum Step {
    /// With so many bytes.
    Submit(usize),
    /// The worker takes a call, with its frame or without, and answers with so many bytes.
    Answer {
        take: bool,
        bytes: usize,
    },
    Collect,
    Stop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = || prop_oneof![0..SMALL_BYTES_MAX + 2, Just(5_000usize)];
    let step = prop_oneof![
        4 => bytes().prop_map(Step::Submit),
        4 => (any::<bool>(), bytes()).prop_map(|(take, bytes)| Step::Answer { take, bytes }),
        4 => Just(Step::Collect),
        1 => Just(Step::Stop),
    ];
    proptest::collection::vec(step, 1..80)
}

/// What a payload of a call is made of, so that a mix-up shows.
fn payload(call_id: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (call_id as usize * 31 + index) as u8 | 1).collect()
}

proptest! {
    #[test]
    fn a_ring_is_a_queue(power in 0u32..4, steps in steps()) {
        let slots = 1usize << power;
        let (_fd, mut host, mut worker) = ring(slots as u32);
        let mut called: VecDeque<(u64, usize)> = VecDeque::new();
        let mut answered: VecDeque<(u64, usize)> = VecDeque::new();
        let (mut next_id, mut stopped) = (0, false);
        for step in steps {
            match step {
                Step::Submit(_) if stopped => {}
                Step::Submit(bytes) => match submit(&mut host, next_id, &payload(next_id, bytes)) {
                    Ok(()) => {
                        prop_assert!(called.len() + answered.len() < slots);
                        called.push_back((next_id, bytes));
                        next_id += 1;
                    }
                    Err(RingError::Full) => prop_assert_eq!(called.len() + answered.len(), slots),
                    Err(other) => prop_assert!(false, "{}", other),
                },
                Step::Answer { take: frame, bytes } => {
                    prop_assert_eq!(worker.has_next(), !called.is_empty());
                    let Some((call_id, sent)) = called.pop_front() else {
                        let wanted = if stopped { Next::Stop } else { Next::Idle };
                        prop_assert_eq!(worker.next(Duration::ZERO).expect("a benign host"), wanted);
                        continue;
                    };
                    if frame {
                        let (job, frame) = take(&mut worker);
                        prop_assert_eq!((job.call_id, frame), (call_id, payload(call_id, sent)));
                    } else {
                        prop_assert!(matches!(worker.next(Duration::ZERO), Ok(Next::Call(_))));
                    }
                    worker.reply(&answer(&payload(call_id, bytes), b"", b"")).expect("within limits");
                    answered.push_back((call_id, bytes));
                }
                Step::Collect => {
                    let expected = answered.pop_front().map(|(id, bytes)| (id, payload(id, bytes)));
                    prop_assert_eq!(host.is_ready(), expected.is_some());
                    prop_assert_eq!(collect(&mut host).map(|done| (done.call_id, done.response)), expected);
                }
                Step::Stop => {
                    host.stop();
                    stopped = true;
                }
            }
            prop_assert_eq!(host.in_flight() as usize, called.len() + answered.len());
            let oldest = answered.front().or(called.front()).map(|(call_id, _)| *call_id);
            prop_assert_eq!(host.oldest_in_flight(), oldest);
        }
    }
}
