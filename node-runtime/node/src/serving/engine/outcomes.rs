//! What a call hears of one that it made: its answer, or why it has none.

use mfaas_abi::frame::ResponseFrame;
use mfaas_abi::limits::OUTCOME_BYTES_MAX;
use mfaas_abi::{CalleeReply, DONE, Status};
use mfaas_dispatch::Outcome;
use mfaas_ring::Completion;
use mfaas_rules::{Code, codes};

use crate::serving::call::{Answered, CallError};
use crate::serving::table::Served;

/// The code of the outcome, and its bytes.
pub(super) fn outcome_of(answer: Result<Answered, CallError>) -> (u32, Vec<u8>) {
    match reply_of(answer) {
        Ok(reply) => (DONE, reply),
        Err((code, message)) => (code.number(), message.into_bytes()),
    }
}

fn reply_of(answer: Result<Answered, CallError>) -> Result<Vec<u8>, (Code, String)> {
    let none = |why: &str| (codes::MF1210, why.to_owned());
    let answered = answer.map_err(|error| match error {
        CallError::NotCommitted(code) => (code, code.title().to_owned()),
        CallError::Refused(refusal) => (codes::MF1210, refusal.to_string()),
        CallError::Unknown | CallError::NotLoaded => none("this node does not serve the function"),
        CallError::TooLarge => none("the request is larger than the function takes"),
        CallError::Draining | CallError::Gone => none("the node is going away"),
    })?;
    let Answered { outcome, completion, served, .. } = answered;
    let (Outcome::Finished, Some(completion)) = (outcome, completion) else {
        return Err(none(why(outcome)));
    };
    if !matches!(completion.status, Status::Ok | Status::HandlerError) {
        return Err((codes::MF1210, format!("the function ended as {}", completion.status)));
    }
    reply_in(&completion, &served).map(|reply| reply.encode()).map_err(none)
}

/// Whether a call that made another one hears what that one answered.
pub(super) fn is_usable(completion: &Completion, served: &Served) -> bool {
    reply_in(completion, served).is_ok()
}

fn reply_in<'a>(completion: &'a Completion, served: &Served) -> Result<CalleeReply<'a>, &'static str> {
    let response = ResponseFrame::decode_within(&completion.response, served.body_bytes_max());
    let response = response.map_err(|_| "the function gave an answer that is none")?;
    if size_of::<u16>() + response.body.len() > OUTCOME_BYTES_MAX {
        return Err("the function gave an answer of more than 132 KiB, which a function does not take");
    }
    Ok(CalleeReply { http_status: response.status, body: response.body })
}

/// Why an accepted call has no answer.
fn why(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Finished => "the function gave no answer",
        Outcome::OverBudget => "the function, or its caller, had no CPU time left",
        Outcome::Overdue => "the function ran for too long",
        Outcome::TookTooLong | Outcome::DeadlinePassed => "the function took longer than its caller may",
        Outcome::TooManySuspended => "too many calls of the tenant wait",
        Outcome::Stuck => "the function waited for what could never come",
        Outcome::Lost => "the function was lost with its worker",
        Outcome::WaitedTooLong => "no worker became free for the function",
        Outcome::Withdrawn => "the function was revoked",
        Outcome::Banned => "the function is banned",
        Outcome::LoadFailed => "the function could not be loaded",
    }
}
