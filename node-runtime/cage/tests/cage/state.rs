//! No state survives a call, whatever ended it.

use mfaas_abi::Status;

use crate::{Fixture, toolchain};

const FRESH: &str = "7 0 true 1 3 1 0";

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

#[test]
fn ten_thousand_kills_leave_no_trace() {
    let mut fixture = Fixture::new(toolchain::tenant());
    let expected = fixture.ok("verify");
    assert!(expected.starts_with(FRESH));
    let endless = ["spin", "spin-allocating", "spin-working", "spin-locked", "spin-logging", "panic-endless"];
    let (mut killed, mut random) = (0, 88_172_645_463_325_252u64);
    for round in 0..10_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let body = endless[round % endless.len()];
        let answer = fixture.with_random_budget(random).call(body.as_bytes());
        killed += usize::from(answer.status == Status::OverBudget);
        assert!(matches!(answer.status, Status::OverBudget | Status::OutOfMemory), "{body}: {answer:?}");
        fixture.limits.budget = mfaas_ident::Budget::from_micros(50_000).expect("within bounds");
        assert_eq!(fixture.ok("verify"), expected, "after {round} kills, {body}");
    }
    assert!(killed > 8_000, "only {killed} were ended by the timer");
}

impl Fixture {
    /// A budget of 10 to 137 µs, so that ends fall everywhere.
    fn with_random_budget(&mut self, random: u64) -> &mut Self {
        self.limits.budget = mfaas_ident::Budget::from_micros(10 + random % 128).expect("within bounds");
        self
    }
}
