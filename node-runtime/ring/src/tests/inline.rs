//! What is told of functions that a call calls where it is.

use super::*;
use crate::{INLINE_CALLEES_MAX, INLINE_HEAD_BYTES_MAX, InlineCallee, InlineUse};

fn used(number: u32) -> InlineUse {
    let (calls, memory_bytes) = (number * 3, 1 << number);
    InlineUse {
        binding: number,
        calls,
        wall_ns: u64::MAX - u64::from(number),
        memory_bytes,
        is_apart: number == 2,
    }
}

#[test]
fn what_was_called_within_a_call_comes_with_its_answer() {
    let (_fd, mut host, mut worker) = ring(2);
    for count in [0, 1, 2, INLINE_CALLEES_MAX, 0] {
        let uses: Vec<InlineUse> = (0..count as u32).map(used).collect();
        let inline: Vec<u8> = uses.iter().flat_map(InlineUse::encode).collect();
        submit(&mut host, 1, b"request").expect("room");
        assert!(matches!(worker.next(LONG), Ok(Next::Call(_))));
        worker.reply(&Answer { inline: &inline, waits: count == 1, ..answer(b"", b"", b"") }).expect("it fits");
        let completion = collect(&mut host).expect("answered");
        assert_eq!(InlineUse::decode_all(&completion.inline).collect::<Vec<_>>(), uses);
        assert_eq!((completion.waits, completion.cold), (count == 1, true), "flags are what they were");
    }
    let too_many = vec![0; (INLINE_CALLEES_MAX + 1) * InlineUse::BYTES];
    submit(&mut host, 1, b"request").expect("room");
    assert!(matches!(worker.next(LONG), Ok(Next::Call(_))));
    let answer = Answer { inline: &too_many, ..answer(b"", b"", b"") };
    assert!(matches!(worker.reply(&answer), Err(RingError::TooLarge { .. })));
}

#[test]
fn who_is_called_comes_through_as_it_was_or_not_at_all() {
    let head = [7; INLINE_HEAD_BYTES_MAX];
    for head in [&head[..], b"", b"POST"] {
        let callee = InlineCallee { slot: 5, budget_us: u32::MAX, memory_bytes: 1 << 40, head };
        assert_eq!(InlineCallee::decode(&callee.encode()), Some(callee));
    }
    let long = [7; INLINE_HEAD_BYTES_MAX + 1];
    let callee = InlineCallee { slot: 5, budget_us: 1, memory_bytes: 1, head: &long };
    assert_eq!(InlineCallee::decode(&callee.encode()), None);
    assert_eq!(InlineCallee::decode(&callee.encode()[..15]), None);
    assert_eq!(InlineUse::decode_all(&used(3).encode()[..31]).count(), 0);
}
