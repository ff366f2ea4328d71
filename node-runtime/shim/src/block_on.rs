//! Running what waits on a developer's machine, where no host is. In a function it does not link: there is no `std::thread::sleep`.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use mfaas_abi::{DONE, OperationKind, Record, Records};

use crate::call::bytes;
use crate::waiting::{Outcome, with};

/// Polls `future` until it is ready, and does what it asks for meanwhile: `operate` answers operations on bindings, if it knows them.
///
/// # Panics
/// If it waits for what nobody here can give.
pub fn block_on<F: Future>(
    future: F,
    mut operate: impl FnMut(OperationKind, &[u8]) -> Option<Outcome>,
) -> F::Output {
    let mut future = pin!(future);
    let mut sleeps: Vec<(Instant, u32)> = Vec::new();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        let began = with(|operations| {
            let began = bytes(&operations.began()).to_vec();
            // What answers them may wait for operations of its own.
            operations.hear(Records::default());
            began
        });
        let mut outcomes = Vec::new();
        for Record { id, code, bytes } in Records::decode(&began).unwrap_or_default() {
            match OperationKind::from_u32(code) {
                Some(OperationKind::Sleep) => {
                    let ns = bytes.try_into().map_or(0, u64::from_le_bytes);
                    sleeps.push((Instant::now() + Duration::from_nanos(ns), id));
                }
                Some(kind @ (OperationKind::Data | OperationKind::Part | OperationKind::Call)) => {
                    let Some(Outcome { code, bytes }) = operate(kind, bytes) else {
                        panic!("there is no such data or function here")
                    };
                    Record { id, code, bytes: &bytes }.append_to(&mut outcomes);
                }
                Some(OperationKind::Cancel) | None => sleeps.retain(|(_, other)| *other != id),
            }
        }
        if !outcomes.is_empty() {
            with(|operations| operations.hear(Records::decode(&outcomes).unwrap_or_default()));
            continue;
        }
        let first = sleeps.iter().enumerate().min_by_key(|(_, (at, _))| *at).map(|(index, _)| index);
        let Some(first) = first else { panic!("the future waits for nothing that this crate offers") };
        let (at, id) = sleeps.swap_remove(first);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        Record { id, code: DONE, bytes: &[] }.append_to(&mut outcomes);
        with(|operations| operations.hear(Records::decode(&outcomes).unwrap_or_default()));
    }
}
