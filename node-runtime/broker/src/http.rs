//! Requests to servers: what a function wrote, read within limits and sent once.
//!
//! Nothing of it waits for a commit: a request that may change something has its audit record before it is sent. Those of one call are
//! on their way together, since none sees what another one does, and nothing else of the call waits for them.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use mfaas_abi::frame::{FrameError, RequestFrame, encode_response};
use mfaas_abi::limits::{HTTP_BODY_BYTES_MAX, HTTP_PIECE_BYTES_MAX};
use mfaas_abi::{HttpReply, HttpRequest, is_safe};
use mfaas_broker_protocol::Caller;
use mfaas_kv::{AuditedChange, ChangeKind, ChangeOutcome};
use mfaas_outbound::{Answer, Request, SendError};
use mfaas_rules::codes;
use tokio::sync::OwnedMutexGuard;

use crate::broker::{Broker, of_store};
use crate::call::{Call, Operated, Operation};
use crate::data::CallData;
use crate::reads::Read;
use crate::refusal::Refusal;
use crate::turns::{OPERATION_WEIGHT, Open};

/// What is to be sent.
struct Outgoing<'a> {
    /// The call's number of it.
    exchange: u32,
    frame: RequestFrame<'a>,
    body: Bytes,
}

/// Does what a call asks of a server: what goes there waits for its tenant's turn, pieces of bodies for nothing. Nothing if the call is
/// over before.
pub(crate) async fn operate(
    broker: &Broker,
    call: &Call,
    mut data: OwnedMutexGuard<CallData>,
    open: Open,
    operation: &Operation,
) -> Option<Operated> {
    let operated = |answered| Some((answered, call.needs_commit.load(Ordering::Acquire)));
    if !operation.is_sent() {
        return operated(piece(broker, &call.caller, &mut data, &operation.request));
    }
    let tenant = &call.caller.tenant;
    let before = data.uploads.bytes();
    let taken = take(&mut data, operation);
    // Until it is sent its body counts as what the call uploads.
    let bytes = taken.as_ref().map_or(0, |outgoing| outgoing.body.len());
    broker.uploading.replace(tenant, before, data.uploads.bytes() + bytes);
    drop(data);
    let outgoing = match taken {
        Ok(outgoing) => outgoing,
        Err(refusal) => return operated(Err(refusal)),
    };
    let exchange = outgoing.exchange;
    let turn = open.turn(OPERATION_WEIGHT + bytes).await;
    let answered = match &turn {
        Some(_) if !call.is_over.load(Ordering::Acquire) => {
            Some(send(broker, &call.caller, operation, outgoing).await)
        }
        _ => None,
    };
    broker.uploading.replace(tenant, bytes, 0);
    let answer = match answered? {
        Ok(answer) => answer,
        Err(refusal) => return operated(Err(refusal)),
    };
    // It counts before anything else may begin, and until it is with the others of the call.
    let bytes = answer.body.len();
    let has_room = broker.held.replace(tenant, 0, bytes);
    turn.into_iter().for_each(|turn| turn.charge(bytes));
    let kept =
        if has_room { keep(broker, call, exchange, answer).await } else { Some(Err(arrived_in_vain())) };
    broker.held.replace(tenant, bytes, 0);
    operated(kept?)
}

/// Keeps a piece of a request's body, or gives one of an answer's.
fn piece(broker: &Broker, caller: &Caller, data: &mut CallData, request: &[u8]) -> Result<Vec<u8>, Refusal> {
    let tenant = &caller.tenant;
    match HttpRequest::decode(request) {
        Some(HttpRequest::Append { upload, bytes }) => {
            let before = data.uploads.bytes();
            let kept = broker.keep_piece(tenant, &mut data.uploads, (upload, bytes));
            let kept = kept.inspect_err(|_| data.uploads.give_up(upload));
            broker.uploading.replace(tenant, before, data.uploads.bytes());
            kept.map(|()| Vec::new())
        }
        Some(HttpRequest::Rest { exchange, offset }) => {
            let before = data.held_bytes();
            let piece = data.answers.piece(exchange, offset as usize);
            broker.held.replace(tenant, before, data.held_bytes());
            piece.map(|piece| piece.to_vec())
        }
        Some(HttpRequest::Send { .. }) | None => Err(not_understood()),
    }
}

/// What a function wants to have sent, if it may.
fn take<'a>(data: &mut CallData, operation: &'a Operation) -> Result<Outgoing<'a>, Refusal> {
    let Operation { resource, access, secrets: names, request, .. } = operation;
    let Some(HttpRequest::Send { exchange, upload, secrets, frame }) = HttpRequest::decode(request) else {
        return Err(not_understood());
    };
    if secrets.len() != names.len() {
        return Err(not_understood());
    }
    let frame =
        RequestFrame::decode(frame).map_err(|error| Refusal::new(codes::MF1214, error.to_string()))?;
    if !is_safe(frame.method) {
        Refusal::unless_write(resource, *access)?;
    }
    let body = data.uploads.finish(upload, frame.body)?;
    if body.len() > HTTP_BODY_BYTES_MAX {
        let message = format!("a request of {} bytes, the limit is {HTTP_BODY_BYTES_MAX}", body.len());
        return Err(Refusal::new(codes::MF1202, message));
    }
    Ok(Outgoing { exchange, frame, body: body.into() })
}

/// Sends it, and tells the audit: before, if it may change something.
async fn send(
    broker: &Broker,
    caller: &Caller,
    operation: &Operation,
    Outgoing { frame, body, .. }: Outgoing<'_>,
) -> Result<Answer, Refusal> {
    let resource = &operation.resource;
    let no_servers = "this node knows no servers: MFAAS_HTTP_FILE of its broker names them";
    let outbound = broker.outbound.as_ref().ok_or_else(|| Refusal::new(codes::MF1205, no_servers))?;
    let RequestFrame { method, path, headers, .. } = frame;
    let (bytes, trace) = (body.len() as u64, caller.trace.as_deref().map(traceparent));
    let (tenant, secrets) = (&caller.tenant, &*operation.secrets);
    let request = Request { tenant, method, path, headers, secrets, trace, body };
    let prepared = outbound.prepare(resource, request).map_err(meaning)?;
    let target = prepared.target();
    if is_safe(method) {
        let answer = outbound.send(prepared).await.map_err(meaning)?;
        let read = Read { key: target.as_bytes(), is_scan: false, keys: 1, bytes: answer.body.len() };
        broker.reads.note(|| of_store(caller), resource, read);
        return Ok(answer);
    }
    let change = AuditedChange { resource, target: &target, kind: ChangeKind::Request };
    let id = broker.audit.announce(broker.store(), &of_store(caller), &change).await?;
    let sent = outbound.send(prepared).await;
    let has_failed = sent.is_err();
    broker.audit.add([ChangeOutcome { id, operations: 1, bytes, range: None, has_failed }]);
    sent.map_err(meaning)
}

/// The header that makes a request part of a trace.
fn traceparent(trace: &str) -> String {
    format!("00-{trace}-{:016x}-01", rand::random_range(1..=u64::MAX))
}

/// What the function hears; the rest of the body is kept for it. Nothing if the call is over.
async fn keep(
    broker: &Broker,
    call: &Call,
    exchange: u32,
    answer: Answer,
) -> Option<Result<Vec<u8>, Refusal>> {
    let Answer { status, headers, body } = answer;
    let first = body.slice(..body.len().min(HTTP_PIECE_BYTES_MAX));
    let mut frame = Vec::new();
    let headers = headers.iter().map(|(name, value)| (&**name, &**value));
    if let Err(error) = encode_response(&mut frame, status, headers, &first) {
        let code = match error {
            FrameError::TooLong(_) | FrameError::TooManyHeaders => codes::MF1202,
            _ => codes::MF1215,
        };
        let message =
            format!("the request has arrived, and its answer cannot be given to the function: {error}");
        return Some(Err(Refusal::new(code, message)));
    }
    let reply = HttpReply::encode_answer(body.len(), &frame);
    if first.len() == body.len() {
        return Some(Refusal::unless_too_long(reply));
    }
    let mut data = call.data.lock().await;
    if call.is_over.load(Ordering::Acquire) {
        return None;
    }
    let before = data.held_bytes();
    let kept = data.answers.keep(exchange, body);
    broker.held.replace(&call.caller.tenant, before, data.held_bytes());
    Some(kept.and_then(|()| Refusal::unless_too_long(reply)))
}

fn arrived_in_vain() -> Refusal {
    let message =
        "the request has arrived, and calls hold as much data as may be held, so that its answer is lost";
    Refusal::new(codes::MF1215, message)
}

fn not_understood() -> Refusal {
    Refusal::new(codes::MF1207, "the operation is not one of requests to servers")
}

fn meaning(error: SendError) -> Refusal {
    let code = match &error {
        SendError::Unknown(_) | SendError::Unreadable(_) => codes::MF1205,
        SendError::Request(_) => codes::MF1214,
        SendError::Elsewhere { .. } => codes::MF1201,
        SendError::Unanswered { .. } => codes::MF1215,
        SendError::TooLong { .. } => codes::MF1202,
        SendError::ShowsSecret(_) => codes::MF1216,
        SendError::Forbidden(_) => codes::MF1217,
    };
    Refusal::new(code, error.to_string())
}
