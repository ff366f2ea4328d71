//! What must hold of the tables after every step, found again from the jobs one by one.

use super::super::functions::{Function, Gate, Phase};
use super::super::jobs::{Job, Place};
use super::super::scheduler::Scheduler;
use super::super::worker::State;
use super::super::{JobId, Moment};

/// Panics when the tables of the scheduler do not fit together.
pub(super) fn check(scheduler: &Scheduler, now: Moment) {
    let seen = seen(scheduler);
    let open: Vec<_> = scheduler.jobs.iter().collect();
    assert_eq!(seen.len(), open.len(), "every open job is in exactly one place");
    assert_eq!(open.len(), scheduler.jobs.open());
    let waiting = open.iter().filter(|(_, job)| job.waits()).count();
    let snapshot = scheduler.snapshot();
    assert_eq!((snapshot.waiting, snapshot.running), (waiting, open.len() - waiting));
    pools(scheduler, &seen);
    workers(scheduler);
    functions(scheduler, &seen);
    deadlines(scheduler, now);
}

/// The jobs of every list and table, each with the place that it must name.
fn seen(scheduler: &Scheduler) -> Vec<Job> {
    let jobs = &scheduler.jobs;
    let mut seen: Vec<Job> = Vec::new();
    let mut note = |place: Place, job: &Job| {
        assert_eq!(job.place, place, "{:?}", job.id);
        seen.push(*job);
    };
    for (number, queue) in (0..).zip(&scheduler.queues) {
        for job in queue.jobs.iter(jobs) {
            assert_eq!(job.queue, number);
            note(Place::Queued, job);
        }
    }
    for pool in &scheduler.pools {
        pool.again.iter(jobs).for_each(|job| note(Place::Alone, job));
    }
    for (number, function) in scheduler.functions.iter() {
        for job in function.cold.iter(jobs) {
            assert_eq!(job.function, number);
            note(Place::Cold, job);
        }
    }
    for worker in &scheduler.workers {
        worker.jobs().for_each(|index| note(Place::InWorker, jobs.get(index)));
    }
    let mut ids: Vec<JobId> = seen.iter().map(|job| job.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), seen.len(), "no job is in two places");
    seen
}

fn pools(scheduler: &Scheduler, seen: &[Job]) {
    for (number, pool) in (0..).zip(&scheduler.pools) {
        let of_it = || seen.iter().filter(|job| job.pool == number);
        assert_eq!(pool.open, of_it().count());
        let opened = |function: &Function| function.pool == number && function.gate == Gate::Open;
        assert_eq!(pool.functions, scheduler.functions.iter().filter(|(_, f)| opened(f)).count());
        assert_eq!(pool.queued, of_it().filter(|job| job.place == Place::Queued).count());
        assert!(pool.idle.is_empty() || pool.nothing_waits(), "no worker idles while a job waits");
        assert!(!pool.parked || pool.open == 0 && pool.members.is_empty());
        let mut turn: Vec<_> = pool.turn.iter().copied().collect();
        turn.sort_unstable();
        let mut in_turn = scheduler.queues.iter().zip(0..).filter(|(queue, _)| queue.pool == number);
        for (queue, index) in in_turn.by_ref() {
            assert_eq!(queue.in_turn, turn.binary_search(&index).is_ok());
            assert!(queue.in_turn || queue.jobs.is_empty(), "who waits has a turn");
        }
        turn.dedup();
        assert_eq!(turn.len(), pool.turn.len(), "one turn each");
    }
}

fn workers(scheduler: &Scheduler) {
    for (place, worker) in (0..).zip(&scheduler.workers) {
        let pool = &scheduler.pools[worker.pool as usize];
        let has = |places: super::super::worker::Places| places.iter().any(|other| other == place);
        let ready = worker.state == State::Ready;
        assert_eq!(has(pool.members), ready);
        assert_eq!(has(pool.idle), ready && worker.is_idle());
        let jobs: Vec<_> = worker.jobs().map(|index| *scheduler.jobs.get(index)).collect();
        assert_eq!(worker.budget_us, jobs.iter().map(|job| u64::from(job.budget_us)).sum::<u64>());
        assert!(jobs.len() <= 1 || jobs.iter().all(|job| !job.alone), "who runs again runs alone");
        assert!(jobs.is_empty() || worker.alone == jobs[0].alone);
        assert!(worker.state != State::Empty && worker.state != State::Parking || jobs.is_empty());
    }
}

fn functions(scheduler: &Scheduler, seen: &[Job]) {
    let (mut bytes, mut resident, mut wanted) = (0, 0, Vec::new());
    for (number, function) in scheduler.functions.iter() {
        assert_eq!(function.open as usize, seen.iter().filter(|job| job.function == number).count());
        match function.phase {
            Phase::Cold => assert!(function.cold.is_empty(), "nobody waits for what nobody loads"),
            Phase::Wanted => wanted.push(number),
            Phase::Loading => bytes += function.bytes,
            Phase::Resident => {
                assert!(function.cold.is_empty());
                assert!(function.gate != Gate::Unknown || function.open > 0, "what is retired leaves");
                (bytes, resident) = (bytes + function.bytes, resident + 1);
            }
        }
        if function.banned != 0 {
            let waits = seen.iter().any(|job| job.function == number && job.waits());
            assert!(!waits, "nothing banned waits");
        }
    }
    let snapshot = scheduler.snapshot();
    assert_eq!((snapshot.resident_bytes, snapshot.resident), (bytes, resident));
    assert!(bytes <= scheduler.limits.resident_bytes_max);
    let mut asked: Vec<_> = scheduler.room.wanted.iter().copied().collect();
    asked.sort_unstable();
    assert_eq!(asked, wanted);
}

fn deadlines(scheduler: &Scheduler, now: Moment) {
    let next = scheduler.next_deadline().unwrap_or(Moment::NEVER);
    for (_, job) in scheduler.jobs.iter().filter(|(_, job)| job.waits()) {
        assert!(next <= job.expires.max(now.plus(1_000)), "{:?} would wait for ever", job.id);
    }
    for worker in scheduler.workers.iter().filter(|worker| worker.state == State::Ready) {
        assert!(worker.is_idle() || next <= worker.backstop);
    }
}
