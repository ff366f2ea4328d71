//! Handlers that wait: the operations that they have begun, and what they hear of those.
//!
//! All of it lies in the image's data and in the arena, so it is put aside with the call and comes back with it. Nobody is woken here: when
//! anything has ended the handler is polled from its root, and finds out what.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::iter::Peekable;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use mfaas_abi::limits::{BODY_BYTES_MAX, BULK_BODY_BYTES_MAX, OPERATIONS_MAX, records_bytes_max};
use mfaas_abi::{
    Call, FLAG_BULK, OperationKind, Record, Records, Reply, ResponseRecord, Span, Status, WAITS,
};

use crate::call::{records, respond};

/// What a handler comes to, as the entry needs it.
pub trait Answer {
    /// Writes what the handler has come to into the call's record, and says how.
    fn begin(self, call: &mut Call) -> u32;

    /// Goes on with the handler of a call that waited.
    fn resume(call: &mut Call) -> u32;
}

/// A handler that has returned.
impl Answer for Reply {
    fn begin(self, call: &mut Call) -> u32 {
        respond(call, self)
    }

    fn resume(_: &mut Call) -> u32 {
        // It never waits.
        Status::Aborted.as_u32()
    }
}

/// A handler that may wait.
pub type Handling = Pin<Box<dyn Future<Output = Reply>>>;

impl Answer for Handling {
    fn begin(mut self, call: &mut Call) -> u32 {
        with(|operations| operations.is_bulk.set(call.flags & FLAG_BULK != 0));
        match self.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => respond(call, reply),
            Poll::Pending => with(|operations| {
                operations.handler.set(Some(self));
                call.response = ResponseRecord { body: operations.began(), ..ResponseRecord::NONE };
                WAITS
            }),
        }
    }

    fn resume(call: &mut Call) -> u32 {
        let handler = with(|operations| {
            operations.hear(records(&call.request.body));
            operations.handler.take()
        });
        handler.map_or(Status::Aborted.as_u32(), |handler| handler.begin(call))
    }
}

/// What came of an operation.
#[derive(Debug)]
pub struct Outcome {
    /// [`mfaas_abi::DONE`] or the number of an error's code.
    pub code: u32,
    /// What came of it.
    pub bytes: Vec<u8>,
}

/// The operations of the call.
pub(crate) struct Operations {
    /// What the last one is called.
    last_id: Cell<u32>,
    /// Those that have begun and not ended.
    open: Cell<Vec<u32>>,
    /// What the host is to be told, as records.
    began: Cell<Vec<u8>>,
    /// What nobody has taken yet.
    heard: Cell<Vec<(u32, Outcome)>>,
    /// Who waits, while the call does.
    handler: Cell<Option<Handling>>,
    /// Whether the function is a bulk function, which may begin more at once.
    pub(crate) is_bulk: Cell<bool>,
}

impl Operations {
    pub(crate) const fn new() -> Self {
        Self {
            last_id: Cell::new(0),
            open: Cell::new(Vec::new()),
            began: Cell::new(Vec::new()),
            heard: Cell::new(Vec::new()),
            handler: Cell::new(None),
            // A developer's test waits for several pieces together, as a bulk function does.
            is_bulk: Cell::new(cfg!(not(feature = "hosted"))),
        }
    }

    /// Whether so many more operations may begin before the next wait, which are of so many bytes together. Where they may not, one that
    /// is open will end, and whoever asks again then comes by its turn.
    fn has_room(&self, count: usize, bytes: usize) -> bool {
        let (open, began) = (self.open.take(), self.began.take());
        let most = if self.is_bulk.get() { BULK_BODY_BYTES_MAX } else { BODY_BYTES_MAX };
        let fits = began.len() + count * Record::HEAD_BYTES + bytes <= records_bytes_max(most);
        // What is too large by itself is for the host to refuse.
        let has_room = open.len() + count <= OPERATIONS_MAX && (fits || (open.is_empty() && count == 1));
        self.open.set(open);
        self.began.set(began);
        has_room
    }

    /// Tells the host with the next wait. There is room.
    fn begin(&self, kind: OperationKind, bytes: &[u8]) -> u32 {
        // Comes back after four thousand million others, which one call does not begin.
        let id = self.last_id.get().wrapping_add(1);
        self.last_id.set(id);
        let mut open = self.open.take();
        open.push(id);
        self.open.set(open);
        self.tell(Record { id, code: kind as u32, bytes });
        id
    }

    /// The operation has ended, or nobody waits for it any more; whether it was open.
    fn close(&self, id: u32) -> bool {
        let mut open = self.open.take();
        let at = open.iter().position(|other| *other == id);
        at.map(|at| open.swap_remove(at));
        self.open.set(open);
        at.is_some()
    }

    fn tell(&self, record: Record<'_>) {
        let mut began = self.began.take();
        record.append_to(&mut began);
        self.began.set(began);
    }

    /// What came of an operation, once.
    fn take(&self, id: u32) -> Option<Outcome> {
        let mut heard = self.heard.take();
        let at = heard.iter().position(|(other, _)| *other == id);
        let outcome = at.map(|at| heard.swap_remove(at).1);
        self.heard.set(heard);
        outcome
    }

    /// Nobody waits for the operation any more.
    fn cancel(&self, id: u32) {
        if self.take(id).is_some() || !self.close(id) {
            return;
        }
        let began = self.began.take();
        let others = Records::decode(&began).unwrap_or_default().filter(|record| record.id != id);
        let mut kept = Vec::new();
        others.for_each(|record| record.append_to(&mut kept));
        let was_told = kept.len() == began.len();
        self.began.set(kept);
        if was_told {
            self.tell(Record { id, code: OperationKind::Cancel as u32, bytes: &[] });
        }
    }

    /// What the host is to be told. Stays where it is until [`Self::hear`].
    pub(crate) fn began(&self) -> Span {
        let began = self.began.take();
        let span = Span::of(&began);
        self.began.set(began);
        span
    }

    /// The host was told what had begun, and says what has ended.
    pub(crate) fn hear(&self, outcomes: Records<'_>) {
        let mut began = self.began.take();
        began.clear();
        self.began.set(began);
        // One that was cancelled just now may have ended before.
        for Record { id, code, bytes } in outcomes.filter(|outcome| self.close(outcome.id)) {
            let mut heard = self.heard.take();
            heard.push((id, Outcome { code, bytes: bytes.to_vec() }));
            self.heard.set(heard);
        }
    }
}

/// Something that the host is asked for: begins when it is polled, and is cancelled when it is dropped.
#[derive(Debug)]
pub struct Operation {
    kind: OperationKind,
    bytes: Vec<u8>,
    id: Option<u32>,
}

impl Operation {
    /// One that has not begun.
    pub fn new(kind: OperationKind, bytes: Vec<u8>) -> Self {
        Self { kind, bytes, id: None }
    }
}

impl Future for Operation {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        with(|operations| {
            let Some(id) = self.id else {
                if operations.has_room(1, self.bytes.len()) {
                    self.id = Some(operations.begin(self.kind, &std::mem::take(&mut self.bytes)));
                }
                return Poll::Pending;
            };
            match operations.take(id) {
                Some(outcome) => {
                    self.id = None;
                    Poll::Ready(outcome)
                }
                None => Poll::Pending,
            }
        })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            with(|operations| operations.cancel(id));
        }
    }
}

/// Asks the host for operations on data in their order; of a bulk function, which has the memory for that, up to `most` of them
/// together: the call need not go on before all of those have ended. `hear` is told what came of each; if it says that this is enough, nobody waits for the others.
pub async fn ask_together<E>(
    operations: impl IntoIterator<Item = Vec<u8>>,
    most: usize,
    mut hear: impl FnMut(Outcome) -> Result<(), E>,
) -> Result<(), E> {
    let mut operations = operations.into_iter().peekable();
    while operations.peek().is_some() {
        for operation in poll_fn(|_| begin_together(&mut operations, most)).await {
            hear(operation.await)?;
        }
    }
    Ok(())
}

/// As many as there is room for, if that is any.
fn begin_together(next: &mut Peekable<impl Iterator<Item = Vec<u8>>>, most: usize) -> Poll<Vec<Operation>> {
    with(|operations| {
        let most = if operations.is_bulk.get() { most } else { 1 };
        let (mut together, mut bytes) = (Vec::new(), 0);
        while together.len() < most
            && let Some(operation) =
                next.next_if(|next| operations.has_room(together.len() + 1, bytes + next.len()))
        {
            bytes += operation.len();
            together.push(operation);
        }
        let last = together.len().checked_sub(1).ok_or(())?;
        Ok(together
            .iter()
            .enumerate()
            .map(|(at, bytes)| {
                let kind = if at == last { OperationKind::Data } else { OperationKind::Part };
                Operation { kind, bytes: Vec::new(), id: Some(operations.begin(kind, bytes)) }
            })
            .collect())
    })
    .map_or_else(|()| Poll::Pending, Poll::Ready)
}

/// The operations of the one call that runs.
#[cfg(feature = "hosted")]
pub(crate) fn with<R>(use_them: impl FnOnce(&Operations) -> R) -> R {
    struct Sole(Operations);

    // SAFETY: INV-SHIM-2. There is one thread.
    unsafe impl Sync for Sole {}

    static OPERATIONS: Sole = Sole(Operations::new());
    use_them(&OPERATIONS.0)
}

/// The operations of a developer's test.
#[cfg(not(feature = "hosted"))]
pub(crate) fn with<R>(use_them: impl FnOnce(&Operations) -> R) -> R {
    thread_local! {
        static OPERATIONS: Operations = const { Operations::new() };
    }
    OPERATIONS.with(use_them)
}
