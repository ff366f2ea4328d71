//! What a function leaves in the processor's registers, however it ended, is neither the host's nor the
//! next function's.

use std::arch::asm;

use mfaas_abi::Status;

use crate::{Fixture, toolchain};

/// Ways to end: return, fault, kill, panic.
const WAYS: &[u8] = b"rulp";

/// What the host has in the registers that it relies on.
#[derive(Debug, PartialEq, Eq)]
struct Hosts {
    flags: u64,
    bases: Option<[u64; 2]>,
    selectors: [u32; 4],
    /// MXCSR without the flags of exceptions, which honest work raises too.
    vector_control: u32,
    /// Control, status and tags of the x87 unit, and its registers.
    x87: [u8; 108],
}

impl Hosts {
    fn now() -> Self {
        let (flags, mut selectors, mut vector_control, mut x87) = (flags(), [0; 4], 0u32, [0; 108]);
        // SAFETY: reads selectors.
        unsafe {
            asm!("mov {0:e}, ds", "mov {1:e}, es", "mov {2:e}, fs", "mov {3:e}, gs", out(reg) selectors[0], out(reg) selectors[1], out(reg) selectors[2], out(reg) selectors[3])
        }
        // SAFETY: writes to a live local.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut vector_control) }
        // SAFETY: writes to a live local, and puts back what it has reset.
        unsafe { asm!("fnsave [{0}]", "frstor [{0}]", in(reg) x87.as_mut_ptr()) }
        Self { flags, bases: has_bases().then(bases), selectors, vector_control: vector_control & !0x3f, x87 }
    }
}

/// Direction, nested task, alignment check, identification.
fn flags() -> u64 {
    let flags: u64;
    // SAFETY: reads flags by the stack.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags) }
    flags & 0x24_4400
}

fn has_bases() -> bool {
    // SAFETY: takes a number.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & 2 != 0 }
}

fn bases() -> [u64; 2] {
    let (fs, gs);
    // SAFETY: the caller has asked whether there are these instructions.
    unsafe { asm!("rdfsbase {}", "rdgsbase {}", out(reg) fs, out(reg) gs) };
    [fs, gs]
}

/// Every kind of register that this processor has.
fn kinds() -> impl Iterator<Item = u8> {
    let masks = std::arch::is_x86_feature_detected!("avx512f");
    b"fecuwmxdnskF0G".iter().copied().filter(move |kind| match kind {
        b'k' => masks,
        b'F' | b'0' | b'G' => has_bases(),
        _ => true,
    })
}

/// `MFAAS_TEST_REGISTERS` names one kind: each line that puts registers back was seen to be needed so.
#[test]
fn registers_are_the_hosts_again() {
    let mut fixture = Fixture::new(toolchain::hostile()).with_budget_us(5_000);
    let only = std::env::var("MFAAS_TEST_REGISTERS").ok();
    assert_eq!(fixture.ok("-"), "!");
    let (hosts, x87) = (Hosts::now(), fixture.call(b"Qf").body);
    assert_eq!(x87.len(), 108);
    for kind in kinds().filter(|kind| only.as_ref().is_none_or(|only| only.as_bytes() == [*kind])) {
        for way in WAYS {
            let name = format!("{} {}", char::from(kind), char::from(*way));
            let answer = fixture.call(&[b'R', kind, *way]);
            let (now, masks) = (Hosts::now(), kind == b'k');
            assert_eq!(now, hosts, "the host's registers after {name}");
            assert!(is_expected(*way, answer.status), "{name}: {answer:?}");
            assert_eq!(fixture.call(b"Qf").body, x87, "the next function's x87 unit after {name}");
            fixture.call(&[b'R', kind, *way]);
            if masks {
                assert_eq!(fixture.call(b"Qk").body, [0; 32], "the next function's masks after {name}");
            }
        }
    }
}

/// An exception that is pending or an alignment check may end the call earlier.
fn is_expected(way: u8, status: Status) -> bool {
    let wanted = match way {
        b'r' => Status::Ok,
        b'l' => Status::OverBudget,
        b'p' => Status::Panicked,
        _ => Status::Fault,
    };
    status == wanted || status == Status::Fault
}
