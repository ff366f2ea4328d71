//! A tick at every instruction of a call: from before the change of stacks through the function, its gates,
//! the services and the returns to behind the landing. Wherever it comes, the kernel's frame lies on the
//! handlers' stack, the call ends as itself or over its budget, and the next ones are right.
//!
//! The program starts itself again and steps through that with `ptrace`, which needs the processor's
//! breakpoints. Calls under protection keys have gates of their own (`keyed`): to step through those takes a
//! machine that has keys, and is not done here.

#![allow(missing_docs, reason = "a test")]
#![allow(unsafe_code, reason = "it traces a process, which stops for it")]
#![allow(clippy::print_stdout, reason = "there is no harness that would say it")]

mod tracee;
mod tracer;

#[path = "../executor/hosts.rs"]
#[allow(dead_code, reason = "shared with other tests, of which this needs one type")]
mod hosts;
/// The same functions as in the executor's other tests.
#[path = "../executor/toolchain.rs"]
#[allow(dead_code, reason = "shared with other tests, of which this needs one function")]
mod toolchain;

use mfaas_abi::Status;
use mfaas_executor::TICK_SIGNAL;

use crate::tracee::{
    ANSWER_IS_RIGHT, BEGINS, BUDGET_AT, CLOCK_STEP_AT, ENDED, LETTER_AT, NEXT_IS_RIGHT, PANICS, READY,
    REGISTERS_ARE_RIGHT, RETURNS, RIGHT_AT, STATUS_AT, expected,
};
use crate::tracer::{Registers, SI_KERNEL, Stop, TRAP_HWBKPT, Tracee, kept};

/// Says that the program is the one that is traced.
const VARIABLE: &str = "MFAAS_TEST_TICKS_TRACEE";
/// One past the last address that is a function's or reserved.
const WINDOW_END: u64 = 6 << 30;
/// Instructions before `enter` and behind its return that count as well.
const AROUND: usize = 20;
/// A budget that is used up before the call begins, and one that never is, in µs.
const SHORT_US: u64 = 100;
const LONG_US: u64 = 10_000_000;
/// Steps of the clock that are longer than those budgets, in ns.
const PAST_SHORT_NS: u64 = 200_000;
const PAST_LONG_NS: u64 = 20_000_000_000;
/// What `enter` and the call of it have pushed when it changes stacks, in bytes.
const ENTER_BYTES: u64 = 56;
/// Instructions of a gate on the host's stack before and behind its service, at most.
const GATE_BEFORE: usize = 11;
const GATE_BEHIND: usize = 6;
/// `rt_sigreturn` on x86-64.
const RT_SIGRETURN: u64 = 15;

fn main() {
    if std::env::var_os(VARIABLE).is_some() {
        return tracee::run();
    }
    let mut call = Traced::start();
    for letter in [RETURNS, PANICS] {
        let name = char::from(letter);
        let path = call.path(letter);
        println!("{name}: {} instructions, {} of them in the window", path.steps.len(), path.in_window());
        for (what, budget_us, clock_step) in [
            ("before its deadline", LONG_US, 0),
            ("behind its deadline with budget left", LONG_US, PAST_LONG_NS),
        ] {
            let ticks = call.tick_everywhere(letter, &path, budget_us, clock_step);
            println!("{name}: {ticks} ticks {what}: the call ends as itself");
        }
        let [over, itself] = call.end_everywhere(letter, &path);
        println!(
            "{name}: over its budget at each instruction: {over} calls end so, {itself} end as themselves"
        );
        assert!(over > path.in_window() * 2 && itself > 0);
    }
    call.finish();
    println!("test ticks ... ok");
}

/// Where a processor stood before an instruction.
#[derive(Clone, Copy)]
struct Step {
    at: u64,
    stack: u64,
}

impl Step {
    fn is_in_window(self) -> bool {
        self.stack < WINDOW_END
    }
}

/// The instructions of one call, from a little before `enter` to a little behind its return.
struct Path {
    steps: Vec<Step>,
    /// How often the call comes to the first of them before the path begins, and then.
    first_comes: usize,
    /// Which of them is the first of `enter`, and which the one to which it returns.
    enter: usize,
    back: usize,
}

impl Path {
    fn in_window(&self) -> usize {
        self.steps.iter().filter(|step| step.is_in_window()).count()
    }

    /// Whether a tick before this instruction that finds the budget used up ends the call: in the window, and in a
    /// service that comes back, which is looked at when it is done.
    fn must_end(&self, number: usize) -> bool {
        let is_in_window = |step: &Step| step.is_in_window();
        let before = self.steps[..number].iter().rev().position(is_in_window);
        let behind = self.steps[number..].iter().position(is_in_window);
        match (before, behind) {
            (_, Some(0)) => true,
            (Some(before), Some(behind)) => before >= GATE_BEFORE && behind >= GATE_BEHIND,
            _ => false,
        }
    }

    /// The first instruction of the gate that is behind the service in which this one is, if that comes back.
    fn behind_service(&self, number: usize) -> Option<u64> {
        let behind = self.steps[number..].iter().position(|step| step.is_in_window())?;
        let is_service = self.must_end(number) && behind >= GATE_BEHIND;
        is_service.then(|| self.steps[number + behind - GATE_BEHIND + 1].at)
    }
}

/// Calls of the traced program.
struct Traced {
    tracee: Tracee,
    /// Where the exchange is.
    exchange: u64,
    /// The first instruction of the handler of ticks, and where its frames lie.
    handler: Option<(u64, u64)>,
}

impl Traced {
    fn start() -> Self {
        let tracee = Tracee::start(VARIABLE);
        let mut traced = Self { tracee, exchange: 0, handler: None };
        traced.exchange = traced.expect(READY).rdi;
        // What only the first calls do is behind it.
        for letter in [RETURNS, PANICS, RETURNS] {
            traced.begin(letter, LONG_US);
            traced.end(letter, &[expected(letter)], "the first calls");
        }
        traced
    }

    /// Goes on to the next stop that the program makes itself.
    fn expect(&self, phase: u64) -> Registers {
        let stop = self.tracee.go_on(0);
        assert_eq!(stop, Stop::Trap(SI_KERNEL));
        let registers = self.tracee.registers();
        assert_eq!(registers.rsi, phase);
        registers
    }

    fn begin(&self, letter: u8, budget_us: u64) {
        self.tracee.write(self.exchange + LETTER_AT as u64, letter.into());
        self.tracee.write(self.exchange + BUDGET_AT as u64, budget_us);
        self.expect(BEGINS);
    }

    /// From somewhere in the call to the next one; how it ended.
    fn end(&self, letter: u8, statuses: &[Status], place: &str) -> Status {
        self.expect(ENDED);
        self.ended(letter, statuses, place)
    }

    /// From the end of a call to the next one.
    fn ended(&self, letter: u8, statuses: &[Status], place: &str) -> Status {
        for phase in [BEGINS, ENDED, BEGINS, ENDED, READY] {
            self.expect(phase);
        }
        let [status, right] = [STATUS_AT, RIGHT_AT].map(|at| self.tracee.read(self.exchange + at as u64));
        let status = Status::from_u32(status as u32).expect("a status");
        assert!(statuses.contains(&status), "{status}, with a tick at {place}");
        let is_itself = status == expected(letter);
        for (bit, what) in [
            (ANSWER_IS_RIGHT, "the answer"),
            (REGISTERS_ARE_RIGHT, "the host's registers"),
            (NEXT_IS_RIGHT, "the next call"),
        ] {
            let counts = bit != ANSWER_IS_RIGHT || is_itself;
            assert!(!counts || right & bit != 0, "{what} is wrong after a tick at {place}");
        }
        status
    }

    /// Steps through a call without a tick.
    fn path(&self, letter: u8) -> Path {
        self.begin(letter, LONG_US);
        let mut steps = Vec::new();
        while self.tracee.step(0) != Stop::Trap(SI_KERNEL) {
            let registers = self.tracee.registers();
            steps.push(Step { at: registers.rip, stack: registers.rsp });
        }
        self.ended(letter, &[expected(letter)], "none");
        let first = steps.iter().position(|step| step.is_in_window()).expect("the function runs");
        let last = steps.iter().rposition(|step| step.is_in_window()).expect("as above");
        let entered = steps[first - 1].stack + ENTER_BYTES;
        let enter = steps[..first].iter().rposition(|step| step.stack == entered).expect("it was called");
        let behind = steps[last..].iter().position(|step| step.stack == entered + 8).expect("it returns");
        let (start, back) = (enter - AROUND, last + behind);
        let first_comes = steps[..=start].iter().filter(|step| step.at == steps[start].at).count();
        let steps = steps[start..back + AROUND].to_vec();
        Path { steps, first_comes, enter: AROUND, back: back - start }
    }

    /// Delivers a tick where the program stands, and says where its handler begins. The kernel's frame
    /// lies above the handler's stack pointer, up to the end of the handlers' stack.
    fn tick(&mut self, place: &str) {
        let stop = match self.handler {
            None => self.tracee.step(TICK_SIGNAL),
            // No step: a step at `popfq` would be taken for the program's own.
            Some((handler, _)) => {
                self.tracee.stop_at(&[handler]);
                self.tracee.go_on(TICK_SIGNAL)
            }
        };
        assert!(matches!(stop, Stop::Trap(_)), "{stop:?}, with a tick at {place}");
        self.tracee.stop_at(&[]);
        let registers = self.tracee.registers();
        let (handler, frame) = *self.handler.get_or_insert((registers.rip, registers.rsp));
        assert_eq!(registers.rip, handler, "the handler begins, with a tick at {place}");
        assert!(registers.rsp >= WINDOW_END, "the frame lies in the window, with a tick at {place}");
        assert!(registers.rsp.abs_diff(frame) < 4096, "the frame lies elsewhere, with a tick at {place}");
    }

    /// One call, stepped through, with a tick before every instruction of its path; how many there were.
    fn tick_everywhere(&mut self, letter: u8, path: &Path, budget_us: u64, clock_step: u64) -> usize {
        self.begin(letter, budget_us);
        self.to_hit(path.steps[0].at, path.first_comes);
        self.tracee.write(self.exchange + CLOCK_STEP_AT as u64, clock_step);
        let (mut ticks, mut kept_before, mut behind) = (0, None, 0);
        while behind < AROUND {
            let before = self.tracee.registers();
            let place = format!("{:#x}, step {ticks}", before.rip);
            if before.rip == path.steps[path.enter].at {
                kept_before = Some((kept(&before), before.rsp));
            }
            if before.rip == path.steps[path.back].at && kept_before.is_some() {
                assert_eq!(Some((kept(&before), before.rsp - 8)), kept_before, "the host's registers");
                behind = 1;
            }
            behind += usize::from(behind > 0);
            self.tick(&place);
            self.through_handler();
            let after = self.tracee.registers();
            assert_eq!(
                (after.rip, after.rsp, after.eflags),
                (before.rip, before.rsp, before.eflags),
                "{place}"
            );
            let stop = self.tracee.step(0);
            assert!(matches!(stop, Stop::Trap(_)), "{stop:?}, {place}");
            ticks += 1;
        }
        self.end(letter, &[expected(letter)], "every instruction");
        ticks
    }

    /// Through the handler and out of the system call by which it returns.
    fn through_handler(&self) {
        loop {
            assert_eq!(self.tracee.to_system_call(), Stop::SystemCall);
            let is_return = self.tracee.registers().orig_rax == RT_SIGRETURN;
            assert_eq!(self.tracee.to_system_call(), Stop::SystemCall);
            if is_return {
                return;
            }
        }
    }

    /// Goes on until an instruction comes for the `count`th time.
    fn to_hit(&self, at: u64, count: usize) -> Registers {
        self.tracee.stop_at(&[at]);
        for number in 0..count {
            let stop = self.tracee.go_on(0);
            assert_eq!(stop, Stop::Trap(TRAP_HWBKPT), "at {at:#x}, time {number} of {count}");
        }
        self.tracee.stop_at(&[]);
        self.tracee.registers()
    }

    /// A call for each instruction of the path, whose budget is found to be used up there. How many of them
    /// end over budget and as themselves.
    fn end_everywhere(&mut self, letter: u8, path: &Path) -> [usize; 2] {
        let mut ends = [0; 2];
        for number in 0..path.steps.len() {
            let status = self.end_at(letter, path, number);
            ends[usize::from(status != Status::OverBudget)] += 1;
        }
        ends
    }

    fn end_at(&mut self, letter: u8, path: &Path, number: usize) -> Status {
        let (step, enter) = (path.steps[number], path.steps[path.enter].at);
        let place = format!("{:#x}, step {number}", step.at);
        self.begin(letter, SHORT_US);
        let (from, mut entered) = if number < path.enter {
            self.to_hit(path.steps[0].at, path.first_comes);
            (0, None)
        } else {
            (path.enter, Some(self.to_hit(enter, 1)))
        };
        let comes = path.steps[from + 1..number + 1].iter().filter(|one| one.at == step.at).count();
        let here = self.to_hit(step.at, comes);
        assert_eq!((here.rip, here.rsp), (step.at, step.stack), "{place}");
        self.tracee.write(self.exchange + CLOCK_STEP_AT as u64, PAST_SHORT_NS);
        self.tick(&place);
        if let Some(behind) = path.behind_service(number) {
            self.tick_again(behind, path.steps[path.back].at, &place);
        }
        let entered = *entered.get_or_insert_with(|| self.to_hit(enter, 1));
        if number < path.back {
            let here = self.tracee.registers();
            let back = path.steps[path.back].at;
            let back = if here.rip == back { here } else { self.to_hit(back, 1) };
            assert_eq!((kept(&back), back.rsp), (kept(&entered), entered.rsp + 8), "{place}");
        }
        let statuses = [Status::OverBudget, expected(letter)];
        let possible = if path.must_end(number) { &statuses[..1] } else { &statuses[..] };
        self.end(letter, possible, &place)
    }

    /// A second tick, just behind the service in which the first one came, unless that has ended the call.
    fn tick_again(&mut self, behind: u64, back: u64, place: &str) {
        self.tracee.stop_at(&[behind, back]);
        let stop = self.tracee.go_on(0);
        assert_eq!(stop, Stop::Trap(TRAP_HWBKPT), "after a tick at {place}");
        if self.tracee.registers().rip == behind {
            self.tick(place);
        }
        self.tracee.stop_at(&[]);
    }

    fn finish(self) {
        self.tracee.write(self.exchange + LETTER_AT as u64, 0);
        assert!(self.tracee.finish().success());
    }
}
