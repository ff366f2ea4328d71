//! What one call costs the scheduler: nanoseconds of submit and complete together.
//!
//! `cargo run --release -p mfaas-dispatch --example submit_complete` prints, for some numbers of
//! functions, the median, fastest and slowest of several rounds over functions in random order: one
//! call at a time, and with a worker's table kept full. Every tenth function is of another tenant.

#![allow(clippy::print_stdout, reason = "it prints its figures")]

use std::hint::black_box;
use std::time::Instant;

use mfaas_dispatch::{
    Command, Commands, FunctionId, IN_WORKER_CAP, JobId, Limits, Loaded, Moment, PoolKey, Residency,
    Scheduler, SlabId, TenantId, WorkerId,
};
use mfaas_ident::Budget;

const SIZES: [u32; 3] = [50, 1_000, 5_000];
const CALLS: u64 = 1_000_000;
const ROUNDS: usize = 9;
const WORKER: WorkerId = WorkerId { place: 0, life: 1 };

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("functions  in flight  ns per submit + complete: median (fastest, slowest)");
    for functions in SIZES {
        for in_flight in [1, 8] {
            let mut scheduler = serving(functions)?;
            let mut rounds: Vec<f64> =
                (0..ROUNDS).map(|_| round(&mut scheduler, functions, in_flight)).collect();
            rounds.sort_by(f64::total_cmp);
            let (median, fastest, slowest) = (rounds[ROUNDS / 2], rounds[0], rounds[ROUNDS - 1]);
            println!("{functions:>9}  {in_flight:>9}  {median:.1} ({fastest:.1}, {slowest:.1})");
        }
    }
    Ok(())
}

/// One worker, and that many resident functions with a budget of 93 µs.
fn serving(functions: u32) -> Result<Scheduler, Box<dyn std::error::Error>> {
    let mut scheduler = Scheduler::new(Limits { shared_workers: 1, ..Limits::NODE });
    let mut commands = Commands::new();
    for number in 0..functions {
        let loaded = Loaded {
            tenant: TenantId(number / 10),
            pool: PoolKey::SHARED,
            budget: Budget::from_micros(93)?,
            idempotent: false,
            bytes: 1 << 16,
            residency: Residency::Preloaded,
        };
        scheduler.define(FunctionId(number), loaded, &mut commands)?;
        scheduler.loaded(Moment(0), FunctionId(number), SlabId::default(), number, 1 << 16, &mut commands);
    }
    scheduler.tick(Moment(0), &mut commands);
    scheduler.worker_ready(Moment(0), WORKER, SlabId::default(), &mut commands)?;
    Ok(scheduler)
}

/// Nanoseconds of one call on average, with `in_flight` calls in the worker.
fn round(scheduler: &mut Scheduler, functions: u32, in_flight: usize) -> f64 {
    let mut commands = Commands::with_capacity(64);
    let mut flying = [JobId(0); IN_WORKER_CAP];
    let (mut dice, mut next) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    let started = Instant::now();
    for call in 0..CALLS {
        let now = Moment(call);
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let function = FunctionId((dice % u64::from(functions)) as u32);
        if call >= in_flight as u64 {
            scheduler.completed(now, WORKER, flying[next], 1, false, &mut commands);
        }
        if let Ok(job) = scheduler.submit(now, function, None, &mut commands) {
            flying[next] = job;
        }
        next = (next + 1) % in_flight;
        assert!(matches!(commands.last(), Some(Command::Start { .. })), "the worker has room");
        black_box(commands.as_slice());
        commands.clear();
    }
    for _ in 0..in_flight {
        scheduler.completed(Moment(CALLS), WORKER, flying[next], 1, false, &mut commands);
        next = (next + 1) % in_flight;
    }
    assert!(scheduler.is_idle());
    started.elapsed().as_nanos() as f64 / CALLS as f64
}
