//! Waiting, for handlers that are `async`.
//!
//! While a handler waits its call is in no worker: others run there, and its time costs nothing. What it has on the heap and in its
//! variables is there when it goes on.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use mfaas_abi::OperationKind;
use mfaas_shim::Operation;

/// Waits for so long, and not much longer. A call that takes more than a minute altogether is ended.
pub async fn sleep(time: Duration) {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Operation::new(OperationKind::Sleep, ns.to_le_bytes().to_vec()).await;
}

/// Waits for both, at the same time.
pub async fn join<A: Future, B: Future>(one: A, other: B) -> (A::Output, B::Output) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(output) = one.as_mut().poll(context)
        {
            first = Some(output);
        }
        if second.is_none()
            && let Poll::Ready(output) = other.as_mut().poll(context)
        {
            second = Some(output);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (one, other) => {
                (first, second) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}

/// Waits for all, at the same time. The outputs are in the order of the futures.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let mut outputs: Vec<_> = waiting.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in waiting.iter_mut().zip(&mut outputs) {
            if let Some(waits) = future
                && let Poll::Ready(ready) = waits.as_mut().poll(context)
            {
                (*future, *output) = (None, Some(ready));
            }
        }
        if waiting.iter().any(Option::is_some) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// Waits for `future`, and no longer than `time`: then it is dropped where it stands.
pub async fn timeout<F: Future>(time: Duration, future: F) -> Result<F::Output, TimedOut> {
    let (mut sleep, mut future) = (pin!(sleep(time)), pin!(future));
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        sleep.as_mut().poll(context).map(|()| Err(TimedOut))
    })
    .await
}

/// The time of a [`timeout`] was over first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

impl std::fmt::Display for TimedOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it took too long")
    }
}

impl std::error::Error for TimedOut {}
