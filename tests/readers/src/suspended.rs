//! What a worker gives its node of a call that waits, and gets back.

use mfaas_abi::limits::{BODY_BYTES_MAX, RECORDS_MAX, records_bytes_max, state_bytes_max};
use mfaas_abi::{Record, SuspendedFrame};

/// Bodies of a function: the smallest that means anything here, and those of ordinary functions.
const BODIES: [usize; 3] = [64, 4 << 10, BODY_BYTES_MAX];

/// The first byte says how large the function's bodies may be, the rest is the frame.
///
/// # Panics
/// When a frame that is taken is larger than it may be, holds more records than there may be, or is another one when its records are
/// written again.
pub fn suspended(input: &[u8]) {
    let Some((&first, frame)) = input.split_first() else { return };
    let body_bytes_max = BODIES[first as usize % BODIES.len()];
    let Some(SuspendedFrame { records, state }) = SuspendedFrame::decode(frame, body_bytes_max) else {
        return;
    };
    assert!(records.as_bytes().len() <= records_bytes_max(body_bytes_max), "too many bytes of records");
    assert!(state.len() <= state_bytes_max(body_bytes_max), "too much of a state");
    let all: Vec<Record<'_>> = records.collect();
    assert!(all.len() <= RECORDS_MAX, "{} records", all.len());
    let mut again = Vec::new();
    all.iter().for_each(|record| record.append_to(&mut again));
    let again = [&SuspendedFrame::head(again.len()), &*again, state].concat();
    assert_eq!(again, frame, "another frame");
}
