//! A call that has begun, and what it asks for.

use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Poll;

use mfaas_abi::{HttpRequest, KvRequest, ObjectRequest, VolumeRequest};
use mfaas_broker_protocol::Caller;
use mfaas_ident::{DataAccess, ResourceKind, ResourceName};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::broker::CHANGE_OPERATIONS;
use crate::data::CallData;
use crate::refusal::Refusal;

/// A call that has begun.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    /// The call that made it.
    pub(crate) parent: Option<Arc<Self>>,
    pub(crate) data: Arc<Mutex<CallData>>,
    /// Whether its answer counts only after a commit, as far as is known.
    pub(crate) needs_commit: AtomicBool,
    /// Nothing of it begins any more.
    pub(crate) is_over: AtomicBool,
    /// What it held was too much, and is gone: it cannot be committed.
    pub(crate) is_lost: AtomicBool,
}

/// The turn of an operation among those of its call.
pub(crate) type InCall = Pin<Box<dyn Future<Output = OwnedMutexGuard<CallData>> + Send>>;

impl Call {
    pub(crate) fn new(caller: Caller, parent: Option<Arc<Self>>) -> Self {
        let (data, needs_commit, is_over, is_lost) = Default::default();
        Self { caller, parent, data, needs_commit, is_over, is_lost }
    }

    /// Queues up behind what the call has asked for before: in the order in which this is called.
    pub(crate) async fn queue(&self) -> InCall {
        let mut turn: InCall = Box::pin(Arc::clone(&self.data).lock_owned());
        // Whoever is polled first is first.
        match poll_fn(|context| Poll::Ready(turn.as_mut().poll(context))).await {
            Poll::Ready(data) => Box::pin(ready(data)),
            Poll::Pending => turn,
        }
    }
}

/// What is asked of a resource.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) id: u32,
    pub(crate) resource: ResourceName,
    pub(crate) kind: ResourceKind,
    pub(crate) access: DataAccess,
    /// Those that the request names, in its order.
    pub(crate) secrets: Vec<ResourceName>,
    pub(crate) request: Vec<u8>,
}

impl Operation {
    /// How many operations it counts for.
    pub(crate) fn count(&self) -> u32 {
        let changes = match self.kind {
            ResourceKind::Kv => KvRequest::decode(&self.request).is_some_and(|request| request.writes()),
            ResourceKind::Object => match ObjectRequest::decode(&self.request) {
                // A piece is kept in memory, and the object that is made of it counts.
                Some(ObjectRequest::Append { .. }) | None => false,
                Some(request) => request.writes(),
            },
            // The first change of a file counts for more when it is announced. A list looks through all of a directory.
            ResourceKind::Volume => {
                matches!(VolumeRequest::decode(&self.request), Some(VolumeRequest::List { .. }))
            }
            ResourceKind::Http => self.is_sent(),
            ResourceKind::Cache | ResourceKind::Secret | ResourceKind::Asset => false,
        };
        if changes { CHANGE_OPERATIONS } else { 1 }
    }

    /// Whether it goes to a server.
    pub(crate) fn is_sent(&self) -> bool {
        self.kind == ResourceKind::Http
            && matches!(HttpRequest::decode(&self.request), Some(HttpRequest::Send { .. }))
    }
}

/// What came of an operation, and whether the call now needs a commit.
pub(crate) type Operated = (Result<Vec<u8>, Refusal>, bool);
