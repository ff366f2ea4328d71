//! What a function leaves in the processor's registers, however it ended, is neither the host's nor the
//! next function's.

use crate::hosts::{self, Hosts, WAYS};
use crate::{Fixture, toolchain};

/// `MFAAS_TEST_REGISTERS` names one kind: each line that puts registers back was seen to be needed so.
#[test]
fn registers_are_the_hosts_again() {
    let mut fixture = Fixture::new(toolchain::hostile()).with_budget_us(5_000);
    let only = std::env::var("MFAAS_TEST_REGISTERS").ok();
    assert_eq!(fixture.ok("-"), "!");
    let (hosts, x87) = (Hosts::now(), x87_of(&mut fixture));
    let (words, registers) = x87.split_at(28);
    assert_eq!(
        [words[0], words[1], words[4], words[5], words[8], words[9]],
        [0x7f, 3, 0, 0, 0xff, 0xff],
        "control, status, tags"
    );
    assert!(registers.iter().all(|byte| *byte == 0), "the registers hold zeros: {registers:?}");
    for kind in hosts::kinds().filter(|kind| only.as_ref().is_none_or(|only| only.as_bytes() == [*kind])) {
        for way in WAYS {
            let name = format!("{} {}", char::from(kind), char::from(*way));
            let answer = fixture.call(&[b'R', kind, *way]);
            let (now, masks) = (Hosts::now(), kind == b'k');
            assert_eq!(now, hosts, "the host's registers after {name}");
            assert!(hosts::is_expected(*way, answer.status), "{name}: {answer:?}");
            assert_eq!(x87_of(&mut fixture), x87, "the next function's x87 unit after {name}");
            fixture.call(&[b'R', kind, *way]);
            if masks {
                assert_eq!(fixture.call(b"Qk").body, [0; 32], "the next function's masks after {name}");
            }
        }
    }
}

/// What a function finds in the x87 unit when it begins.
fn x87_of(fixture: &mut Fixture) -> Vec<u8> {
    let mut x87 = fixture.call(b"Qf").body;
    assert_eq!(x87.len(), hosts::X87_BYTES);
    hosts::forget_idle(&mut x87);
    x87
}
