//! Registers that are no rights, under rights.

use mfaas_abi::Status;

use crate::fixture::Fixture;
use crate::hosts::{self, Hosts, WAYS};

/// Long enough on an emulated machine for what comes before an endless loop.
const BUDGET_US: u64 = 200_000;

pub(crate) fn are_the_hosts_again(fixture: &mut Fixture) {
    fixture.lives("nothing");
    let (before, x87) = (Hosts::now(), x87_of(fixture));
    for kind in hosts::kinds() {
        for way in WAYS {
            let name = format!("{} {}", char::from(kind), char::from(*way));
            let answer = fixture.letters_within(BUDGET_US, &[b'R', kind, *way]);
            assert_eq!(Hosts::now(), before, "the host's registers after {name}");
            assert!(hosts::is_expected(*way, answer.status), "{name}: {answer:?}");
            assert_eq!(x87_of(fixture), x87, "the next function's x87 unit after {name}");
        }
        if kind == b'k' {
            assert_eq!(fixture.letters(b"Qk").body, [0; 32], "the next function's masks");
        }
    }
    fixture.lives("registers");
}

/// What a function finds in the x87 unit when it begins.
fn x87_of(fixture: &mut Fixture) -> Vec<u8> {
    let mut x87 = fixture.letters(b"Qf").body;
    assert_eq!(x87.len(), hosts::X87_BYTES);
    hosts::forget_idle(&mut x87);
    x87
}

/// A service's C library finds what belongs to its thread, `errno` for example, by the base of FS, and
/// would write there with the host's rights.
pub(crate) fn a_gate_wants_the_hosts_base(fixture: &mut Fixture) {
    assert_eq!(fixture.letters(b"R-p").status, Status::Panicked, "the service is reached");
    if hosts::kinds().any(|kind| kind == b'F') {
        assert_eq!(fixture.letters(b"RFp").status, Status::Fault, "the gate is shut");
    }
    fixture.lives("a gate");
}
