//! One connection of a node: its calls, and what they ask for.
//!
//! What is asked for is done as it comes, and answered as it ends; the operations of one call one behind the other, since each sees what
//! those before it changed; requests to servers alone are on their way together. The connection is always read: a tenant that asks for too much is refused, and nobody else waits for that.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use mfaas_abi::ObjectRequest;
use mfaas_blobs::Blobs;
use mfaas_broker_protocol::{
    Caller, CommitResult, FromBroker, HEAD_BYTES, Hello, PROTOCOL, ProtocolError, ToBroker, decode, encode,
    message_bytes,
};
use mfaas_ident::{ResourceKind, TenantName};
use mfaas_kv::KvError;
use mfaas_rules::codes;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{Notify, OwnedMutexGuard, mpsc};
use uuid::Uuid;

use crate::broker::{Broker, TOO_MANY_OPERATIONS, of_store};
use crate::call::{Call, Operated, Operation};
use crate::data::{CallData, ChangedFiles};
use crate::refusal::Refusal;
use crate::turns::{Full, OPERATION_WEIGHT, Open};
use crate::{http, kv, meters, objects, volumes, wait};

/// Messages that wait to be written.
const OUTGOING_MAX: usize = 256;
/// Calls of one connection that have not ended: more than a node suspends.
const CALLS_MAX: usize = 200_000;

/// Why a connection ended before its time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("its socket: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error("it speaks protocol {0}, this broker {PROTOCOL}: update the older of the two")]
    OtherProtocol(u32),
    #[error("more than {CALLS_MAX} calls at once")]
    TooManyCalls,
}

/// Serves a node until it leaves.
pub(crate) async fn serve(stream: UnixStream, broker: &Arc<Broker>) -> Result<(), ConnectionError> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    writer.write_all(&encode(&Hello { protocol: PROTOCOL })?).await?;
    match read::<Hello>(&mut reader).await? {
        Some(Hello { protocol: PROTOCOL }) => {}
        Some(Hello { protocol }) => return Err(ConnectionError::OtherProtocol(protocol)),
        None => return Ok(()),
    }
    let (outgoing, messages) = mpsc::channel(OUTGOING_MAX);
    let mut node = Node { broker: Arc::clone(broker), calls: HashMap::new(), outgoing };
    let told = Notify::new();
    let served = tokio::select! {
        served = node.serve(&mut reader, &told) => served,
        written = write(writer, messages, &told) => written,
    };
    node.leave();
    served
}

/// A node, from the side of the broker.
struct Node {
    broker: Arc<Broker>,
    calls: HashMap<u64, Arc<Call>>,
    outgoing: mpsc::Sender<FromBroker>,
}

impl Node {
    async fn serve(
        &mut self,
        reader: &mut BufReader<OwnedReadHalf>,
        told: &Notify,
    ) -> Result<(), ConnectionError> {
        loop {
            wait::for_message(reader, told, wait::LOOK).await;
            let Some(message) = read::<ToBroker>(reader).await? else { break };
            match message {
                ToBroker::Begin { call, caller, parent } => self.begin(call, caller, parent)?,
                ToBroker::Operate { call, id, resource, kind, access, secrets, request } => {
                    let operation = Operation { id, resource, kind, access, secrets, request };
                    self.operate(call, operation).await;
                }
                ToBroker::Commit { call } => self.commit(call).await,
                ToBroker::Forget { call } => {
                    if let Some(call) = self.end(call) {
                        self.forget(call);
                    }
                }
                ToBroker::Settle { call, caller } => self.settle(call, caller),
            }
        }
        Ok(())
    }

    fn begin(&mut self, number: u64, caller: Caller, parent: Option<u64>) -> Result<(), ConnectionError> {
        if self.calls.len() >= CALLS_MAX {
            return Err(ConnectionError::TooManyCalls);
        }
        let of_parent = parent.and_then(|parent| self.calls.get(&parent)).map(Arc::clone);
        // Without the call that made it, it must not take effect by itself.
        let is_lost = parent.is_some() && of_parent.is_none();
        let call = Call::new(caller, of_parent);
        call.is_lost.store(is_lost, Ordering::Release);
        if self.calls.insert(number, Arc::new(call)).is_none() {
            meters::calls(true);
        }
        Ok(())
    }

    /// The call is over, if it had begun.
    fn end(&mut self, number: u64) -> Option<Arc<Call>> {
        let call = self.calls.remove(&number)?;
        meters::calls(false);
        call.is_over.store(true, Ordering::Release);
        Some(call)
    }

    async fn operate(&self, number: u64, operation: Operation) {
        // A node of ours names no call that has not begun, and waits for no answer about one.
        let Some(call) = self.calls.get(&number) else { return };
        let (id, kind, came) = (operation.id, operation.kind, Instant::now());
        let open = match self.open(&call.caller.tenant, &operation, came) {
            Ok(open) => open,
            Err(message) => {
                let refused = Err(Refusal::new(codes::MF1205, message));
                let needs_commit = call.needs_commit.load(Ordering::Acquire);
                return tell(&self.outgoing, (number, id), kind, (refused, needs_commit), came).await;
            }
        };
        let (broker, call, outgoing) = (Arc::clone(&self.broker), Arc::clone(call), self.outgoing.clone());
        let is_busy = keeps_busy(&operation, broker.objects.as_ref().is_some_and(Blobs::is_directory));
        let turn = call.queue().await;
        let operated = async move {
            let data = turn.await;
            if let Some(answered) = operate(&broker, &call, data, open, operation).await {
                tell(&outgoing, (number, id), kind, answered, came).await;
            }
        };
        if is_busy {
            self.broker.parallel.spawn(operated);
        } else {
            tokio::spawn(operated);
        }
    }

    /// An operation has come; or why it is too much.
    fn open(&self, tenant: &TenantName, operation: &Operation, now: Instant) -> Result<Open, &'static str> {
        let count = operation.count();
        let admits =
            self.broker.rate.lock().unwrap_or_else(PoisonError::into_inner).admits(tenant, count, now);
        if !admits {
            return Err(TOO_MANY_OPERATIONS);
        }
        let turns = match operation.kind {
            ResourceKind::Object => &self.broker.turns.objects,
            ResourceKind::Volume => &self.broker.turns.volumes,
            ResourceKind::Http | ResourceKind::Secret | ResourceKind::Asset => &self.broker.turns.servers,
            ResourceKind::Kv | ResourceKind::Cache => self.broker.turns_of(&operation.resource),
        };
        let opened = turns.open(tenant, operation.request.len());
        opened.map_err(|Full| "as many operations of this tenant are open as may be")
    }

    async fn commit(&mut self, number: u64) {
        let Some(call) = self.end(number) else {
            // It began with a broker that is no more, or never.
            let result = CommitResult::Unavailable;
            let _ = self.outgoing.send(FromBroker::Committed { call: number, result }).await;
            return;
        };
        let (broker, turn) = (Arc::clone(&self.broker), call.queue().await);
        self.conclude(number, async move {
            let mut data = turn.await;
            if let Some(parent) = &call.parent {
                return join(&broker, &call, &mut data, parent).await;
            }
            let result = commit(&broker, &call, &data).await;
            let named: Vec<Uuid> = data.transaction.blobs().map(|blob| blob.id).collect();
            let mut staged = release(&broker, &call, &mut data);
            match result {
                CommitResult::Done => staged.retain(|blob| !named.contains(blob)),
                // It may take effect yet.
                CommitResult::Unknown => staged.clear(),
                CommitResult::Conflict
                | CommitResult::Unavailable
                | CommitResult::Full
                | CommitResult::TooMuch
                | CommitResult::SeveralStores => {}
            }
            broker.abandoned.add(staged);
            result
        });
    }

    fn settle(&self, number: u64, caller: Caller) {
        let broker = Arc::clone(&self.broker);
        self.conclude(number, async move { result_of(broker.data.give_up(&of_store(&caller)).await) });
    }

    /// Tells the node what a commit comes to. Goes on if the node leaves: what was begun is ended.
    fn conclude(&self, call: u64, concluded: impl Future<Output = CommitResult> + Send + 'static) {
        let outgoing = self.outgoing.clone();
        tokio::spawn(async move {
            let came = Instant::now();
            let result = concluded.await;
            meters::committed(result, came.elapsed());
            let _ = outgoing.send(FromBroker::Committed { call, result }).await;
        });
    }

    /// Nothing of the call takes effect.
    fn forget(&self, call: Arc<Call>) {
        let broker = Arc::clone(&self.broker);
        tokio::spawn(async move {
            let staged = release(&broker, &call, &mut *call.data.lock().await);
            broker.abandoned.add(staged);
        });
    }

    /// Nothing of its calls takes effect but what was to be committed.
    fn leave(&mut self) {
        let numbers: Vec<u64> = self.calls.keys().copied().collect();
        for call in numbers.into_iter().filter_map(|number| self.end(number)).collect::<Vec<_>>() {
            self.forget(call);
        }
    }
}

/// Whether an operation keeps a processor busy: TLS does, and what copies a whole object; a piece of a file does not.
fn keeps_busy(operation: &Operation, are_objects_files: bool) -> bool {
    match operation.kind {
        ResourceKind::Http => true,
        ResourceKind::Object => {
            !are_objects_files || ObjectRequest::decode(&operation.request).is_none_or(|asked| asked.writes())
        }
        ResourceKind::Kv
        | ResourceKind::Volume
        | ResourceKind::Cache
        | ResourceKind::Secret
        | ResourceKind::Asset => false,
    }
}

/// Tells the node what came of an operation. It may have left.
async fn tell(
    outgoing: &mpsc::Sender<FromBroker>,
    (call, id): (u64, u32),
    kind: ResourceKind,
    (answered, needs_commit): Operated,
    came: Instant,
) {
    let outcome = answered.as_ref().map_or_else(|refusal| refusal.code.id(), |_| "done");
    meters::operated(kind, outcome, came.elapsed());
    let (code, bytes) = match answered {
        Ok(bytes) => (0, bytes),
        Err(Refusal { code, message }) => (code.number(), message.into_bytes()),
    };
    let _ = outgoing.send(FromBroker::Outcome { call, id, code, bytes, needs_commit }).await;
}

/// Does an operation when it is its tenant's turn; nothing if the call is over before.
async fn operate(
    broker: &Broker,
    call: &Call,
    mut data: OwnedMutexGuard<CallData>,
    open: Open,
    operation: Operation,
) -> Option<Operated> {
    let tenant = &call.caller.tenant;
    let has_room = || !call.is_lost.load(Ordering::Acquire) && broker.held.has_room(tenant);
    if !has_room() {
        return Some(too_much());
    }
    if operation.kind == ResourceKind::Http {
        return http::operate(broker, call, data, open, &operation).await;
    }
    let Operation { resource, kind, access, request, .. } = operation;
    // Before the turn: an operation of the parent may have what is locked here and wait for one.
    begin_with_parent(broker, call, &mut data).await;
    let of_volume = match kind {
        ResourceKind::Volume => match volumes::admit(broker, (&resource, access), &request).await {
            Ok(of_volume) => Some(of_volume),
            Err(refusal) => return Some((Err(refusal), false)),
        },
        _ => None,
    };
    let turn = open.turn(OPERATION_WEIGHT + request.len()).await?;
    if call.is_over.load(Ordering::Acquire) {
        return None;
    }
    if !has_room() {
        return Some(too_much());
    }
    let before = (data.held_bytes(), data.uploads.bytes());
    let answered = match kind {
        ResourceKind::Kv => {
            kv::answer(broker, (&call.caller, &mut data.transaction), (&resource, access), &request).await
        }
        ResourceKind::Object => {
            objects::answer(broker, (&call.caller, &mut data), (&resource, access), &request).await
        }
        ResourceKind::Volume => match of_volume {
            Some(of_volume) => volumes::answer(broker, (&call.caller, &mut data), &resource, of_volume).await,
            None => Err(Refusal::new(codes::MF1207, "the operation was not admitted")),
        },
        ResourceKind::Http | ResourceKind::Secret | ResourceKind::Cache | ResourceKind::Asset => {
            Err(Refusal::new(codes::MF1207, "nothing is asked of that here"))
        }
    };
    turn.charge(answered.as_ref().map_or(0, Vec::len));
    broker.uploading.replace(tenant, before.1, data.uploads.bytes());
    if !broker.held.replace(tenant, before.0, data.held_bytes()) {
        // What it holds is given up, so it cannot be committed: a part of it would be.
        broker.abandoned.add(release(broker, call, &mut data));
        call.is_lost.store(true, Ordering::Release);
        return Some(too_much());
    }
    let needs_commit = data.transaction.needs_commit();
    call.needs_commit.fetch_or(needs_commit, Ordering::AcqRel);
    Some((answered, needs_commit))
}

/// The calls of its tenant hold more than they may.
fn too_much() -> Operated {
    let message = "calls that have not ended hold as much data as may be held";
    (Err(Refusal::new(codes::MF1205, message)), true)
}

/// Lets what the call changed take effect, when what it had begun before has ended.
async fn commit(broker: &Broker, call: &Call, data: &CallData) -> CommitResult {
    let transaction = &data.transaction;
    if call.is_lost.load(Ordering::Acquire) {
        return CommitResult::Unavailable;
    }
    if broker.stored.has_no_room(transaction) {
        return CommitResult::Full;
    }
    let open = broker.turns_of_commit(transaction).open_commit(&call.caller.tenant);
    let _turn = open.turn(OPERATION_WEIGHT + transaction.held_bytes()).await;
    let committed = broker.data.commit(&of_store(&call.caller), transaction).await;
    // Also where it is not known whether it took effect.
    if matches!(committed, Ok(_) | Err(KvError::Unacknowledged(_))) {
        broker.stored.wrote(transaction);
    }
    result_of(committed)
}

/// A call that another one made begins with what that one has seen and changed by now, and that one with what its own parent has. Nothing
/// of a call that is over or lost.
fn begin_with_parent<'a>(
    broker: &'a Broker,
    call: &'a Call,
    data: &'a mut CallData,
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    Box::pin(async move {
        let is_gone = call.is_over.load(Ordering::Acquire) || call.is_lost.load(Ordering::Acquire);
        if is_gone || std::mem::replace(&mut data.has_begun, true) {
            return;
        }
        if let Some(parent) = &call.parent {
            let mut of_parent = parent.data.lock().await;
            begin_with_parent(broker, parent, &mut of_parent).await;
            let before = data.held_bytes();
            data.transaction = of_parent.transaction.of_callee();
            broker.held.replace(&call.caller.tenant, before, data.held_bytes());
        }
    })
}

/// What the call saw and changed is from now on part of the call that made it, if that goes on.
async fn join(broker: &Broker, call: &Call, data: &mut CallData, parent: &Call) -> CommitResult {
    // What it holds counts as long as it is there.
    let mut of_parent = parent.data.lock().await;
    begin_with_parent(broker, parent, &mut of_parent).await;
    let tenant = &call.caller.tenant;
    broker.held.replace(tenant, data.held_bytes(), 0);
    broker.uploading.replace(tenant, data.uploads.bytes(), 0);
    let CallData { transaction, mut staged, changed_files, .. } = std::mem::take(data);
    note_changed(broker, changed_files);
    let before = of_parent.held_bytes();
    let is_gone = |call: &Call| call.is_lost.load(Ordering::Acquire);
    let joined = if parent.is_over.load(Ordering::Acquire) || is_gone(parent) || is_gone(call) {
        Err(CommitResult::Unavailable)
    } else {
        broker.data.absorb(&mut of_parent.transaction, transaction).map_err(|error| match error {
            KvError::Conflict => CommitResult::Conflict,
            KvError::SeveralStores { .. } => CommitResult::SeveralStores,
            KvError::Elsewhere(_) | KvError::Server { .. } => CommitResult::Unavailable,
            _ => CommitResult::TooMuch,
        })
    };
    if joined.is_ok() {
        of_parent.staged.append(&mut staged);
        parent.needs_commit.store(of_parent.transaction.needs_commit(), Ordering::Release);
    }
    broker.held.replace(tenant, before, of_parent.held_bytes());
    broker.abandoned.add(staged);
    joined.err().unwrap_or(CommitResult::Done)
}

/// Nothing is held of the call any more. What it has stored.
fn release(broker: &Broker, call: &Call, data: &mut CallData) -> Vec<Uuid> {
    let tenant = &call.caller.tenant;
    broker.held.replace(tenant, data.held_bytes(), 0);
    broker.uploading.replace(tenant, data.uploads.bytes(), 0);
    let CallData { staged, changed_files, .. } = std::mem::take(data);
    note_changed(broker, changed_files);
    staged
}

/// What a call that is over has done to files is told to the audit.
fn note_changed(broker: &Broker, changed: ChangedFiles) {
    broker.audit.add(changed.into_audit());
}

fn result_of(committed: Result<mfaas_kv::Committed, KvError>) -> CommitResult {
    match committed {
        Ok(_) => CommitResult::Done,
        Err(KvError::Conflict | KvError::Busy) => CommitResult::Conflict,
        Err(KvError::SeveralStores { .. }) => CommitResult::SeveralStores,
        Err(error @ KvError::Unacknowledged(_)) => {
            tracing::error!(%error, "it is not known whether the changes of a call took effect");
            CommitResult::Unknown
        }
        Err(error) => {
            tracing::warn!(%error, "the changes of a call could not be committed");
            CommitResult::Unavailable
        }
    }
}

/// The next message; nothing at the end.
async fn read<M: DeserializeOwned>(
    reader: &mut (impl AsyncRead + Unpin),
) -> Result<Option<M>, ConnectionError> {
    let mut head = [0; HEAD_BYTES];
    match reader.read_exact(&mut head).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let mut message = vec![0; message_bytes(head)?];
    reader.read_exact(&mut message).await?;
    Ok(Some(decode(&message)?))
}

/// Writes what there is to tell, until nobody tells anything any more.
async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<FromBroker>,
    told: &Notify,
) -> Result<(), ConnectionError> {
    let mut frames = Vec::new();
    while let Some(message) = messages.recv().await {
        frames.extend_from_slice(&encode(&message)?);
        while let Ok(message) = messages.try_recv() {
            frames.extend_from_slice(&encode(&message)?);
        }
        writer.write_all(&frames).await?;
        told.notify_one();
        frames.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
