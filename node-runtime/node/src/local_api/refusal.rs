//! The codes of calls that have no end of their own.

use mfaas_dispatch::{Outcome, Refusal};
use mfaas_rules::{Code, codes};

use crate::serving::CallError;

/// Why a call was not accepted.
pub(super) fn of_error(error: &CallError) -> Code {
    match error {
        CallError::Unknown | CallError::Refused(Refusal::NotServed) => codes::MF0801,
        CallError::NotLoaded => codes::MF0820,
        CallError::Refused(Refusal::NotLoadable) => codes::MF0709,
        CallError::Refused(Refusal::QueueFull { .. } | Refusal::NotServing | Refusal::DeadlinePassed) => {
            codes::MF0811
        }
        CallError::Refused(Refusal::Banned { .. }) => codes::MF0813,
        CallError::Draining => codes::MF0815,
        CallError::TooLarge => codes::MF0809,
        CallError::NotCommitted(code) => *code,
        CallError::Gone => codes::MF0808,
    }
}

/// Why an accepted call has no answer; nothing when it has one.
pub(super) fn of_outcome(outcome: Outcome) -> Option<Code> {
    match outcome {
        Outcome::Finished => None,
        Outcome::Overdue | Outcome::OverBudget => Some(codes::MF0803),
        Outcome::TookTooLong => Some(codes::MF0819),
        Outcome::Stuck => Some(codes::MF0810),
        Outcome::WaitedTooLong | Outcome::DeadlinePassed | Outcome::TooManySuspended => Some(codes::MF0811),
        Outcome::LoadFailed => Some(codes::MF0709),
        Outcome::Withdrawn => Some(codes::MF0801),
        Outcome::Banned => Some(codes::MF0813),
        Outcome::Lost => Some(codes::MF0808),
    }
}
