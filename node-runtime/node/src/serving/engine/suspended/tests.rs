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

/// What comes of several operations at once may be more than a call has room for.
#[test]
fn a_call_hears_as_much_at_once_as_it_has_room_for() {
    let most = limits::records_bytes_max(limits::BODY_BYTES_MAX);
    let mut kept = Kept::default();
    let outcome = vec![7; limits::OUTCOME_BYTES_MAX];
    for id in 0..4 {
        kept.hear(id, 0, &outcome);
    }
    let heard = |kept: &mut Kept| {
        let frame = kept.resume(limits::BODY_BYTES_MAX);
        let SuspendedFrame { records, .. } = SuspendedFrame::decode(frame, limits::BODY_BYTES_MAX).unwrap();
        assert!(records.as_bytes().len() <= most);
        records.map(|record| record.id).collect::<Vec<_>>()
    };
    for id in 0..4 {
        assert_eq!(heard(&mut kept), [id], "one fits, two do not");
    }
    assert!(heard(&mut kept).is_empty());
    assert_eq!((kept.outcome_bytes, kept.heard_bytes()), (0, 0));
    // Nor more records than one list has.
    for id in 0..200 {
        kept.hear(id, 0, &[]);
    }
    assert_eq!([heard(&mut kept).len(), heard(&mut kept).len()], [limits::RECORDS_MAX, 72]);
}
