//! The bind table: the service behind each row of `mfaas_rules::profiles::imports` that is no routine
//! of [`crate::library`]. This is the whole interface between a function and its host.
//!
//! It must never bind what reads or writes the function's memory without a check, but for libm's four that
//! write a number.

use mfaas_rules::profiles::imports::ROWS;

use crate::state::State;
use crate::{gate, libm, services};

/// Fills in what stands behind the gates. `return_mask`: what return addresses are masked with.
pub(crate) fn open_gates(state: &State, return_mask: u32) {
    let services = ROWS.iter().map(|row| service(row.symbol)).chain([(gate::returned as *const ()).addr()]);
    for (cell, service) in state.services.table.iter().zip(services) {
        cell.set(service);
    }
    state.services.return_mask.set(return_mask);
}

/// The service behind a gate. What has none ends the call: nobody is given its gate.
fn service(symbol: &str) -> usize {
    own(symbol).or_else(|| libm::address_of(symbol)).unwrap_or((services::abort as *const ()).addr())
}

/// Whether a row is bound to a service.
#[cfg(test)]
pub(crate) fn is_service(symbol: &str) -> bool {
    own(symbol).or_else(|| libm::address_of(symbol)).is_some()
}

fn own(symbol: &str) -> Option<usize> {
    let address: *const () = match symbol {
        "mfaas_host_log" => services::mfaas_host_log as *const (),
        "mfaas_host_now" => services::mfaas_host_now as *const (),
        "mfaas_host_random" => services::mfaas_host_random as *const (),
        "mfaas_host_panic" => services::mfaas_host_panic as *const (),
        "mfaas_host_oom" => services::mfaas_host_oom as *const (),
        "write" => services::write as *const (),
        "writev" => services::writev as *const (),
        "getrandom" => services::getrandom as *const (),
        "clock_gettime" => services::clock_gettime as *const (),
        "abort" | "_Unwind_RaiseException" | "_Unwind_Resume" => services::abort as *const (),
        _ => return None,
    };
    Some(address.addr())
}
