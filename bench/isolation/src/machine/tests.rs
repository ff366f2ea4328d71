#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::{Machine, SLICE_NS, Thread, all, bits};
use crate::agenda::{Agenda, Event, Ns};

struct Bench {
    machine: Machine,
    agenda: Agenda,
}

impl Bench {
    fn new(cores: usize, secondary: usize, balances: bool) -> Self {
        Self { machine: Machine::new(0, cores, secondary, balances), agenda: Agenda::default() }
    }

    fn lend(&mut self, cores: u64, now: Ns) {
        self.machine.lend(cores, now, &mut self.agenda);
    }

    /// A new thread with one burst, which has work at `at`.
    fn wake(&mut self, burst: Ns, at: Ns) -> u32 {
        let thread = self.machine.spawn(Thread::new(0, 0, burst, SmallRng::seed_from_u64(0)));
        self.agenda.at(at, Event::Wake { machine: 0, thread });
        thread
    }

    /// Lets everything happen until `end`; when each thread was done.
    fn until(&mut self, end: Ns) -> Vec<(u32, Ns)> {
        let mut done = Vec::new();
        while let Some((now, event)) = self.agenda.next() {
            if now > end {
                self.agenda.at(now, event);
                break;
            }
            match event {
                Event::Wake { thread, .. } => self.machine.wake(thread, now, &mut self.agenda),
                Event::Timer { core, setting, .. } => {
                    let ended = self.machine.timer(usize::from(core), setting, now, &mut self.agenda);
                    done.extend(ended.map(|thread| (thread, now)));
                }
                Event::Apply { cores, .. } => self.machine.lend(cores, now, &mut self.agenda),
                Event::Arrival | Event::Poll { .. } => {}
            }
        }
        self.machine.book_all(end);
        done
    }
}

#[test]
fn a_thread_takes_an_idle_core_at_once() {
    let mut bench = Bench::new(2, 1, false);
    bench.lend(0b01, 0);
    let thread = bench.wake(50_000, 10_000);
    assert_eq!(bench.until(1_000_000), [(thread, 60_000)]);
    assert_eq!((bench.machine.totals.primary_ns, bench.machine.totals.secondary_ns), (50_000, 1_000_000));
}

#[test]
fn a_thread_comes_back_to_its_last_core() {
    let mut bench = Bench::new(4, 0, false);
    let thread = bench.machine.spawn(Thread::new(0, 0, 50_000, SmallRng::seed_from_u64(0)));
    let mut cores = Vec::new();
    for round in 0..3 {
        bench.machine.thread(thread).remaining = 50_000;
        bench.machine.wake(thread, round * 1_000_000, &mut bench.agenda);
        cores.push(all(4) & !bench.machine.idle());
        bench.until(round * 1_000_000 + 500_000);
    }
    assert_eq!(cores, [cores[0]; 3]);
    // Another one has it: then any that is idle.
    bench.machine.idle &= !cores[0];
    bench.machine.thread(thread).remaining = 50_000;
    bench.machine.wake(thread, 5_000_000, &mut bench.agenda);
    assert_eq!(bench.machine.totals.queued, 0);
}

#[test]
fn without_an_idle_core_it_waits_for_the_end_of_a_slice_and_no_longer() {
    let mut bench = Bench::new(1, 1, false);
    bench.lend(0b1, 0);
    let thread = bench.wake(50_000, SLICE_NS + 10_000);
    assert_eq!(bench.until(10 * SLICE_NS), [(thread, 2 * SLICE_NS + 50_000)]);
    assert_eq!((bench.machine.totals.wakes, bench.machine.totals.queued), (1, 1));
}

#[test]
fn a_core_that_is_given_back_runs_what_waits_on_it_at_once() {
    let mut bench = Bench::new(1, 1, false);
    bench.lend(0b1, 0);
    let thread = bench.wake(50_000, 10_000);
    bench.agenda.at(100_000, Event::Apply { machine: 0, cores: 0 });
    assert_eq!(bench.until(1_000_000), [(thread, 150_000)]);
    assert_eq!(bench.machine.totals.secondary_ns, 100_000, "frozen from then on");
    bench.lend(0b1, 1_000_000);
    bench.until(1_500_000);
    assert_eq!(bench.machine.totals.secondary_ns, 600_000, "and thawed");
}

#[test]
fn only_a_machine_that_balances_moves_what_waits() {
    let finished = |balances| {
        let mut bench = Bench::new(2, 1, balances);
        bench.lend(0b01, 0);
        // The first takes the idle core. The second waits behind the secondary: its queue is as short as the other.
        bench.wake(50_000, 1_000);
        bench.wake(50_000, 2_000);
        bench.wake(50_000, 3_000);
        bench.until(10 * SLICE_NS).last().unwrap().1
    };
    assert_eq!(finished(true), 151_000);
    assert_eq!(finished(false), SLICE_NS + 50_000);
}

/// Any course of wake-ups and limits: the secondary runs on its cores alone, every thread ends, and all time is
/// somebody's.
#[test]
fn promises_hold_for_any_course() {
    for seed in 0..200 {
        let mut random = SmallRng::seed_from_u64(seed);
        let (cores, secondary) = (random.random_range(1..=8), random.random_range(0..=8));
        let mut bench = Bench::new(cores, secondary, seed % 2 == 0);
        bench.lend(all(cores), 0);
        let (mut work, mut threads, mut ended) = (0, 0, 0);
        for step in 1..60 {
            if random.random_bool(0.7) {
                let burst = random.random_range(1..500_000);
                work += burst;
                threads += 1;
                bench.wake(burst, step * 100_000);
            }
            ended += bench.until(step * 100_000).len();
            if random.random_bool(0.2) {
                bench.lend(random.random::<u64>() & all(cores), step * 100_000);
            }
            for core in 0..cores {
                let is_lent = bench.machine.lent() >> core & 1 == 1;
                let running = bench.machine.cores[core].running;
                let is_secondary = running.is_some_and(|running| running.who == super::Who::Secondary);
                assert!(is_lent || !is_secondary, "seed {seed}: the secondary is on core {core}");
                assert_eq!(bench.machine.idle() >> core & 1 == 1, running.is_none(), "seed {seed}");
            }
        }
        bench.lend(0, 6_000_000);
        ended += bench.until(100_000_000).len();
        assert_eq!((ended, bench.machine.totals.primary_ns), (threads, work), "seed {seed}");
        assert_eq!(bench.machine.idle(), all(cores));
        assert_eq!(bench.machine.frozen, secondary, "seed {seed}: no thread is lost");
    }
}

#[test]
fn bits_are_counted_from_the_lowest() {
    assert_eq!(bits(0b1010_0001).collect::<Vec<_>>(), [0, 5, 7]);
    assert_eq!(all(3), 0b111);
    assert_eq!(all(64), u64::MAX);
}
