//! Requests to servers: what a function wrote, read within limits and sent once.
//!
//! Nothing of it waits for a commit: a request that may change something has its audit record before it is sent. Those of one call are
//! on their way together, since none sees what another one does.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use mfaas_abi::frame::{FrameError, RequestFrame, encode_response};
use mfaas_abi::limits::{HTTP_BODY_BYTES_MAX, HTTP_PIECE_BYTES_MAX};
use mfaas_abi::{HttpReply, HttpRequest, SecretHeader, is_safe};
use mfaas_broker_protocol::Caller;
use mfaas_ident::ResourceName;
use mfaas_kv::{AuditedChange, ChangeKind, ChangeOutcome};
use mfaas_outbound::{Answer, Request, SendError};
use mfaas_rules::codes;
use tokio::sync::OwnedMutexGuard;

use crate::broker::{Broker, of_store};
use crate::call::{Call, Operated, Operation, too_much};
use crate::data::CallData;
use crate::reads::Read;
use crate::refusal::Refusal;
use crate::turns::{OPERATION_WEIGHT, Open};

/// What is to be sent.
struct Outgoing<'a> {
    /// The call's number of it.
    exchange: u32,
    secrets: Vec<(SecretHeader<'a>, ResourceName)>,
    frame: RequestFrame<'a>,
    body: Bytes,
}

/// Keeps a piece of a request's body, or gives one of an answer's.
pub(crate) fn answer(
    broker: &Broker,
    (caller, data): (&Caller, &mut CallData),
    request: &[u8],
) -> Result<Vec<u8>, Refusal> {
    match HttpRequest::decode(request) {
        Some(HttpRequest::Append { upload, bytes }) => {
            broker
                .keep_piece(&caller.tenant, &mut data.uploads, (upload, bytes))
                .inspect_err(|_| data.uploads.give_up(upload))?;
            Ok(Vec::new())
        }
        Some(HttpRequest::Rest { exchange, offset }) => {
            Ok(data.answers.piece(exchange, offset as usize)?.to_vec())
        }
        Some(HttpRequest::Send { .. }) | None => {
            Err(Refusal::new(codes::MF1207, "the operation is not one of requests to servers"))
        }
    }
}

/// Sends a request when it is its tenant's turn, and waits for the answer; nothing if the call is over before. The call's other
/// operations go on meanwhile.
pub(crate) async fn send(
    broker: &Broker,
    call: &Call,
    mut data: OwnedMutexGuard<CallData>,
    open: Open,
    operation: &Operation,
) -> Option<Operated> {
    let tenant = &call.caller.tenant;
    let operated = |answered| Some((answered, call.needs_commit.load(Ordering::Acquire)));
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
            Some(ask(broker, &call.caller, &operation.resource, outgoing).await)
        }
        _ => None,
    };
    broker.uploading.replace(tenant, bytes, 0);
    let answered = answered?;
    if let (Some(turn), Ok(answer)) = (turn, &answered) {
        turn.charge(answer.body.len());
    }
    let mut data = call.data.lock().await;
    if call.is_over.load(Ordering::Acquire) {
        return None;
    }
    let before = data.held_bytes();
    let answered = answered.and_then(|answer| keep(&mut data, exchange, answer));
    if broker.held.replace(tenant, before, data.held_bytes()) {
        return operated(answered);
    }
    let before = data.held_bytes();
    data.answers.give_up(exchange);
    broker.held.replace(tenant, before, data.held_bytes());
    operated(too_much().0)
}

/// What a function wants to have sent, if it may.
fn take<'a>(data: &mut CallData, operation: &'a Operation) -> Result<Outgoing<'a>, Refusal> {
    let Operation { resource, access, secrets: names, request, .. } = operation;
    let not_understood = || Refusal::new(codes::MF1207, "the operation is not one of requests to servers");
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
    let secrets = secrets.into_iter().zip(names.iter().cloned()).collect();
    Ok(Outgoing { exchange, secrets, frame, body: body.into() })
}

/// Sends it, and tells the audit: before, if it may change something.
async fn ask(
    broker: &Broker,
    caller: &Caller,
    resource: &ResourceName,
    Outgoing { secrets, frame, body, .. }: Outgoing<'_>,
) -> Result<Answer, Refusal> {
    let no_servers = "this node knows no servers: MFAAS_HTTP_FILE of its broker names them";
    let outbound = broker.outbound.as_ref().ok_or_else(|| Refusal::new(codes::MF1205, no_servers))?;
    let RequestFrame { method, path, headers, .. } = frame;
    let target = format!("{method} {path}");
    let announced = if is_safe(method) {
        None
    } else {
        let change = AuditedChange { resource, target: &target, kind: ChangeKind::Request };
        Some(broker.audit.announce(&broker.store, &of_store(caller), &change).await?)
    };
    let bytes = body.len() as u64;
    let request = Request { method, path, headers, secrets, trace: caller.trace.as_deref(), body };
    let sent = outbound.send(resource, request).await;
    match announced {
        Some(id) => {
            let has_failed = sent.is_err();
            broker.audit.add([ChangeOutcome { id, operations: 1, bytes, range: None, has_failed }]);
        }
        None => {
            let bytes = sent.as_ref().map_or(0, |answer| answer.body.len());
            let read = Read { key: target.as_bytes(), is_scan: false, keys: 1, bytes };
            broker.reads.note(|| of_store(caller), resource, read);
        }
    }
    sent.map_err(meaning)
}

/// What the function hears, and keeps the rest of the body for it.
fn keep(data: &mut CallData, exchange: u32, answer: Answer) -> Result<Vec<u8>, Refusal> {
    let Answer { status, headers, body } = answer;
    let first = body.slice(..body.len().min(HTTP_PIECE_BYTES_MAX));
    let mut frame = Vec::new();
    let headers = headers.iter().map(|(name, value)| (&**name, &**value));
    encode_response(&mut frame, status, headers, &first).map_err(|error| match error {
        FrameError::TooLong(_) | FrameError::TooManyHeaders => {
            Refusal::new(codes::MF1202, format!("the answer cannot be given to the function: {error}"))
        }
        _ => Refusal::new(codes::MF1215, format!("the answer cannot be given to the function: {error}")),
    })?;
    let reply = Refusal::unless_too_long(HttpReply::encode_answer(body.len(), &frame))?;
    if first.len() < body.len() {
        data.answers.keep(exchange, body)?;
    }
    Ok(reply)
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
