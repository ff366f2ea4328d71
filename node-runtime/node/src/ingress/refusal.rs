//! What a caller is answered whose call has no answer of a function.

use http::StatusCode;
use mfaas_dispatch::Refusal;
use mfaas_rules::{Code, codes};

use super::problem::Problem;
use crate::serving::CallError;

/// When a caller may ask again for a function that is not loaded yet, in seconds: hundreds of images load in one.
const LOADING_RETRY_AFTER_S: u32 = 1;
/// When a caller may ask a node again that is being drained, in seconds: whoever balances calls has noticed by then.
const DRAINING_RETRY_AFTER_S: u32 = 10;

/// When a caller may ask again whose call's changes did not take effect, in seconds.
const COMMIT_RETRY_AFTER_S: u32 = 1;

/// The problem that says why.
pub(super) fn refused(error: CallError) -> Problem {
    match error {
        CallError::Unknown | CallError::Refused(Refusal::NotServed) => {
            Problem::of(StatusCode::NOT_FOUND, codes::MF0801)
        }
        CallError::NotLoaded => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0820).retry_after(LOADING_RETRY_AFTER_S)
        }
        CallError::Refused(Refusal::NotLoadable) => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0709)
        }
        CallError::Refused(refusal @ Refusal::DeadlinePassed) => {
            Problem::of(StatusCode::GATEWAY_TIMEOUT, codes::MF0811).detail(&refusal.to_string())
        }
        CallError::Refused(Refusal::QueueFull { retry_after_s }) => {
            Problem::of(StatusCode::TOO_MANY_REQUESTS, codes::MF0811).retry_after(retry_after_s)
        }
        CallError::Refused(Refusal::Banned { .. }) => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0813)
        }
        CallError::Refused(refusal @ Refusal::NotServing) => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0811)
                .detail(&refusal.to_string())
                .retry_after(1)
        }
        CallError::Draining => {
            Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0815).retry_after(DRAINING_RETRY_AFTER_S)
        }
        CallError::TooLarge => Problem::of(StatusCode::PAYLOAD_TOO_LARGE, codes::MF0809),
        CallError::NotCommitted(code) => not_committed(code),
        CallError::Gone => Problem::of(StatusCode::SERVICE_UNAVAILABLE, codes::MF0808),
    }
}

/// What became of the changes of a call that ran.
fn not_committed(code: Code) -> Problem {
    match code {
        code if code == codes::MF1206 => Problem::of(StatusCode::GATEWAY_TIMEOUT, code),
        // Nothing of what the caller can do: the function may do less than it was made for.
        code if code == codes::MF1201 => Problem::of(StatusCode::BAD_GATEWAY, code),
        // Nobody is asked to try again: a part of it is there.
        code if code == codes::MF1213 => Problem::of(StatusCode::CONFLICT, code),
        code if code == codes::MF1208 => Problem::of(StatusCode::INSUFFICIENT_STORAGE, code),
        _ => Problem::of(StatusCode::SERVICE_UNAVAILABLE, code).retry_after(COMMIT_RETRY_AFTER_S),
    }
}
