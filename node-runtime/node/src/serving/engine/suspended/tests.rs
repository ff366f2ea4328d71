#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

/// A worker's answer may have come in a buffer that is much larger than what is kept.
#[test]
fn what_is_kept_is_counted_as_what_it_takes() {
    let tenant = TenantName::parse("acme").unwrap();
    let mut bytes = KeptBytes::of_waiting();
    let mut kept = Kept::default();
    kept.frame = Vec::with_capacity(700 << 10);
    kept.open.insert(1, Open::Sleep(Moment(9)));
    kept.hear(2, 0, &[7; 100]);
    assert!(kept.count(&mut bytes, &tenant, 5));
    assert_eq!(bytes.all(), kept.frame.capacity() + kept.outcome_bytes + OPERATION_BYTES + 5);
    kept.release(&mut bytes, &tenant);
    assert_eq!(bytes.all(), 0);
}

/// However many operations end at one moment.
#[test]
fn so_many_operations_are_told_of_in_one_turn() {
    let mut timers = Timers::default();
    for id in 0..10 {
        timers.0.insert((Moment(5), JobId(1), id));
    }
    let (mut left, mut told) = (4, Vec::new());
    let hear = |_, id| {
        told.push(id);
        false
    };
    assert_eq!(timers.wake(Moment(5), &mut left, hear), None);
    assert_eq!((left, told.len(), timers.0.len()), (0, 4, 6));
    assert_eq!(timers.wake(Moment(5), &mut left, |_, _| true), None, "nothing is left of the turn");
    assert_eq!(timers.wake(Moment(5), &mut 1, |_, _| true), Some(JobId(1)));
}

/// A call does not go on for each of several parts, and hears of all of them when it does.
#[test]
fn parts_are_heard_of_together() {
    let waiting = |open: &[(u32, bool)]| {
        let mut kept = Kept::default();
        kept.is_at_rest = true;
        kept.open.extend(open.iter().map(|(id, is_part)| (*id, Open::Data { is_part: *is_part })));
        kept
    };
    let mut kept = waiting(&[(1, true), (2, true), (3, false)]);
    let goes_on = [1, 2, 3].map(|id| kept.hear(id, DONE, &[]));
    assert_eq!((goes_on, kept.outcomes.len()), ([false, false, true], 3));
    // One that failed is heard of at once.
    let mut kept = waiting(&[(1, true), (2, true), (3, false)]);
    assert_eq!([(1, DONE), (2, 1_205)].map(|(id, code)| kept.hear(id, code, &[])), [false, true]);
    // What ended the waiting first is none of them.
    let mut kept = waiting(&[(1, true), (2, true), (3, false)]);
    kept.open.insert(4, Open::Sleep(Moment(9)));
    assert_eq!([1, 3].map(|id| kept.hear(id, DONE, &[])), [false, true]);
    // Where nothing but parts is left, and a sleep that is no operation on data.
    let mut kept = waiting(&[(1, true), (2, true)]);
    kept.open.insert(4, Open::Sleep(Moment(9)));
    assert!(kept.hear(1, DONE, &[]));
}

/// What comes of several operations at once may be more than a call has room for.
#[test]
fn a_call_hears_as_much_at_once_as_it_has_room_for() {
    let most = limits::records_bytes_max(limits::BODY_BYTES_MAX);
    let mut kept = Kept::default();
    let outcome = vec![7; limits::OUTCOME_BYTES_MAX];
    for id in 0..6 {
        kept.hear(id, 0, &outcome);
    }
    let heard = |kept: &mut Kept| {
        let frame = kept.resume(limits::BODY_BYTES_MAX);
        let SuspendedFrame { records, .. } = SuspendedFrame::decode(frame, limits::BODY_BYTES_MAX).unwrap();
        assert!(records.as_bytes().len() <= most);
        records.map(|record| record.id).collect::<Vec<_>>()
    };
    for id in [0, 2, 4] {
        assert_eq!(heard(&mut kept), [id, id + 1], "two fit, three do not");
    }
    assert!(heard(&mut kept).is_empty());
    assert_eq!((kept.outcome_bytes, kept.heard_bytes()), (0, 0));
    // Nor more records than one list has.
    for id in 0..200 {
        kept.hear(id, 0, &[]);
    }
    assert_eq!([heard(&mut kept).len(), heard(&mut kept).len()], [limits::RECORDS_MAX, 72]);
}
