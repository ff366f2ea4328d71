//! No state survives a call, whatever ended it.

use std::io::Write as _;

use mfaas_abi::Status;

use crate::{Fixture, toolchain};

pub(crate) const FRESH: &str = "7 0 true 1 3 1 0";

#[test]
fn state_is_the_same_at_the_start_of_every_call() {
    let mut fixture = Fixture::new(toolchain::tenant());
    for _ in 0..100 {
        assert_eq!(fixture.ok("count"), FRESH);
    }
    for body in ["panic", "overflow", "bomb", "abort", "huge"] {
        assert_ne!(fixture.call(body.as_bytes()).status, Status::Ok);
        assert_eq!(fixture.ok("count"), FRESH, "after {body}");
    }
}

#[test]
fn two_images_do_not_see_each_other() {
    let mut fixture = Fixture::with(&[toolchain::tenant(), toolchain::tenant()]);
    for slot in [0, 1, 0, 0, 1, 1] {
        fixture.slot = slot;
        assert_eq!(fixture.ok("count"), FRESH);
    }
}

/// Everything that a function can be in the middle of.
const ENDLESS: [&str; 9] = [
    "spin",
    "spin-allocating",
    "spin-working",
    "spin-locked",
    "spin-borrowing",
    "spin-logging",
    "deadlock",
    "panic-endless",
    "drop-loop",
];

/// Budget of the call behind each kill, in microseconds: a thousand times what it takes. On a virtual machine
/// a page that the host has to find first can cost its thread tens of milliseconds; what a kill has broken does
/// not end in a second either.
const VERIFY_US: u64 = 1_000_000;

/// Ten thousand in the ordinary run; `MFAAS_KILLS` asks for more. Prints what it did.
#[test]
fn ten_thousand_kills_leave_no_trace() {
    let wanted: usize = std::env::var("MFAAS_KILLS").map_or(10_000, |text| text.parse().expect("a number"));
    let mut fixture = Fixture::new(toolchain::tenant());
    let expected = fixture.ok("verify");
    assert!(expected.starts_with(FRESH));
    let (mut calls, mut killed, mut other, mut random) =
        (0, [0usize; ENDLESS.len()], 0, 88_172_645_463_325_252u64);
    let mut resident_before = 0;
    while killed.iter().sum::<usize>() < wanted {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let kind = calls % ENDLESS.len();
        let answer = fixture.with_random_budget(random).call(ENDLESS[kind].as_bytes());
        match answer.status {
            Status::OverBudget => killed[kind] += 1,
            // Endless texts and lists may fill the arena before their time is up.
            Status::OutOfMemory => other += 1,
            _ => panic!("{}: {answer:?}", ENDLESS[kind]),
        }
        calls += 1;
        assert!(calls < wanted * 2 + 1_000, "too many calls ended otherwise: {other} of {calls}");
        fixture.limits.budget = mfaas_ident::Budget::from_micros(VERIFY_US).expect("within bounds");
        assert_eq!(fixture.ok("verify"), expected, "after {calls} calls, {}", ENDLESS[kind]);
        if calls == 1_000 {
            resident_before = resident_kib();
        }
    }
    let grown = resident_kib().saturating_sub(resident_before);
    let line = format!(
        "killed {killed:?} by kind, {other} ended out of memory; resident memory grew by {grown} KiB"
    );
    writeln!(std::io::stdout(), "{line}").expect("standard output");
    assert!(killed.iter().all(|kind| *kind > wanted / 40), "{killed:?}");
    assert!(grown <= 512, "the process grew by {grown} KiB");
}

/// Resident memory of this process.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of it");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

impl Fixture {
    /// A budget of 10 to 137 µs, so that ends fall everywhere.
    fn with_random_budget(&mut self, random: u64) -> &mut Self {
        self.limits.budget = mfaas_ident::Budget::from_micros(10 + random % 128).expect("within bounds");
        self
    }
}
