//! What must hold of the tables after every step, found again from the jobs one by one.

use std::collections::{BTreeMap, BTreeSet};

use super::super::functions::{Function, Gate, Phase};
use super::super::jobs::{Job, Place};
use super::super::pool::{Places, Pool};
use super::super::scheduler::Scheduler;
use super::super::worker::{State, Worker};
use super::super::{JobId, Moment, PoolKey, PoolKind, SHARED_SLAB};

/// Panics when the tables of the scheduler do not fit together.
pub(super) fn check(scheduler: &Scheduler, now: Moment) {
    let seen = seen(scheduler);
    assert_eq!(seen.len(), scheduler.jobs.iter().count(), "every open job is in exactly one place");
    assert_eq!(seen.len(), scheduler.jobs.open());
    let waiting = seen.iter().filter(|job| job.waits()).count();
    let suspended = seen.iter().filter(|job| job.place == Place::Suspended).count();
    let snapshot = scheduler.snapshot();
    let counted = (snapshot.waiting, snapshot.suspended, snapshot.running);
    assert_eq!(counted, (waiting, suspended, seen.len() - waiting - suspended));
    self::suspended(scheduler, &seen);
    pools(scheduler, &seen);
    turns(scheduler);
    room(scheduler);
    workers(scheduler);
    slabs(scheduler);
    suspects(scheduler);
    functions(scheduler, &seen);
    loans(scheduler);
    deadlines(scheduler, now);
}

/// The jobs of every list and table, each with the place that it must name.
fn seen(scheduler: &Scheduler) -> Vec<Job> {
    let jobs = &scheduler.jobs;
    let mut seen: Vec<Job> = Vec::new();
    let mut note = |place: Place, job: &Job| {
        assert_eq!(job.place, place, "{:?}", job.id);
        assert_eq!(scheduler.queues[job.queue].pool, job.pool);
        seen.push(*job);
    };
    for (number, queue) in scheduler.queues.iter() {
        for job in queue.jobs.iter(jobs) {
            assert_eq!(job.queue, number);
            note(Place::Queued, job);
        }
    }
    for (number, function) in scheduler.functions.iter() {
        for job in function.cold.iter(jobs) {
            assert_eq!(job.function, number);
            note(Place::Cold, job);
        }
    }
    for (_, worker) in scheduler.workers.iter() {
        for index in worker.jobs() {
            assert_eq!(jobs.get(index).pool, worker.pool, "a job runs in its pool");
            note(Place::InWorker, jobs.get(index));
        }
    }
    for index in scheduler.suspended.indexes() {
        note(Place::Suspended, jobs.get(index));
    }
    let mut ids: Vec<JobId> = seen.iter().map(|job| job.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), seen.len(), "no job is in two places");
    seen
}

/// Who is suspended keeps its image, has time and budget left, and takes no part in its pool.
fn suspended(scheduler: &Scheduler, seen: &[Job]) {
    let mut of_tenant = BTreeMap::<u32, usize>::new();
    for job in seen.iter().filter(|job| job.place == Place::Suspended) {
        let function = &scheduler.functions[job.function];
        assert!(job.has_waited && job.budget_us >= 10);
        assert_eq!((function.phase, function.stamp), (Phase::Resident, job.stamp), "it goes on where it was");
        assert!(function.banned == 0 && function.gate != Gate::Withdrawn, "it may go on");
        *of_tenant.entry(scheduler.queues[job.queue].tenant).or_default() += 1;
    }
    let limits = &scheduler.limits;
    assert!(of_tenant.values().sum::<usize>() <= limits.suspended_max);
    for (tenant, count) in of_tenant {
        assert_eq!(scheduler.suspended.count_of(tenant), count);
        assert!(count <= limits.suspended_per_tenant);
    }
    for job in seen.iter().filter(|job| job.has_waited && job.waits()) {
        assert_eq!(job.place, Place::Queued, "its image is there");
        assert_eq!(scheduler.functions[job.function].stamp, job.stamp);
    }
}

fn pools(scheduler: &Scheduler, seen: &[Job]) {
    let (mut ready, mut manned, mut busy) = (0, 0, 0);
    for (number, pool) in scheduler.pools.iter() {
        assert_eq!(scheduler.pools.find(pool.key), Some(number));
        let of_it = || seen.iter().filter(|job| job.pool == number && job.place != Place::Suspended);
        assert_eq!(pool.open(), of_it().count());
        let opened = |function: &Function| function.pool == number && function.gate == Gate::Open;
        assert_eq!(pool.functions, scheduler.functions.iter().filter(|(_, f)| opened(f)).count());
        assert_eq!(pool.queued(), of_it().filter(|job| job.place == Place::Queued).count());
        assert_eq!(scheduler.pools.hungry().contains(&number), pool.queued() > 0);
        let starting = |worker: &Worker| worker.pool == number && worker.state == State::Starting;
        assert_eq!(pool.coming, scheduler.workers.iter().filter(|(_, worker)| starting(worker)).count());
        assert!(pool.workers() <= pool.workers_max);
        assert_eq!(pool.kept > 0, pool.key == PoolKey::SHARED, "one pool keeps its workers");
        (ready, manned) = (ready + pool.members.len(), manned + usize::from(!pool.members.is_empty()));
        busy += usize::from(!pool.key.is_shared() && pool.open() > 0);
        idle_workers_have_a_reason(scheduler, pool, busy_pools(scheduler));
    }
    let counted = &scheduler.pools;
    assert_eq!((counted.ready(), counted.manned(), counted.busy()), (ready, manned, busy));
    assert_eq!(scheduler.snapshot().pools, manned);
}

fn busy_pools(scheduler: &Scheduler) -> usize {
    scheduler.pools.iter().filter(|(_, pool)| !pool.key.is_shared() && pool.open() > 0).count()
}

/// No worker idles while a job waits, except for the share of cores of a tenant's pool and for the
/// worker that a tenant must leave to the others.
fn idle_workers_have_a_reason(scheduler: &Scheduler, pool: &Pool, busy_pools: usize) {
    if pool.idle.is_empty() || pool.queued() == 0 {
        return;
    }
    if pool.key.is_shared() {
        let others = pool.members.len() - 1;
        let holds = |queue: u32| {
            let first = |place: u16| scheduler.workers[place].first();
            let of_it =
                |place: &u16| first(*place).is_some_and(|index| scheduler.jobs.get(index).queue == queue);
            pool.members.iter().filter(of_it).count()
        };
        let waits = scheduler
            .queues
            .iter()
            .filter(|(_, queue)| scheduler.pools[queue.pool].key == pool.key && !queue.jobs.is_empty());
        waits.for_each(|(number, _)| assert!(others > 0 && holds(number) >= others, "{pool:?}"));
    } else {
        // A pool that may run more since another fell quiet is fed with the next tick.
        let share = (scheduler.limits.cores / busy_pools).max(1);
        assert!(pool.busy() >= share || scheduler.scaling_due() <= scheduler.pools.scale_after, "{pool:?}");
    }
}

/// Who waits has one turn, in the round that what it used says.
fn turns(scheduler: &Scheduler) {
    for (number, pool) in scheduler.pools.iter() {
        pool.turns.check(scheduler.queues.iter().filter(|(_, queue)| queue.pool == number));
    }
}

fn room(scheduler: &Scheduler) {
    let flagged = scheduler.pools.iter().filter(|(_, pool)| pool.waits_for_room());
    let flagged: Vec<u32> = flagged.map(|(number, _)| number).collect();
    let mut waits: Vec<u32> = scheduler.pools.for_room().iter().copied().collect();
    let since: Vec<_> = (0..waits.len()).map(|nth| scheduler.pools.waits_for_room_since(nth)).collect();
    assert!(since.is_sorted(), "first come first served: {since:?}");
    waits.sort_unstable();
    assert_eq!(waits, flagged, "each waits once");
    let free = scheduler.workers.iter().filter(|(_, worker)| worker.state == State::Empty);
    let free: Vec<u16> = free.map(|(place, _)| place).collect();
    let mut places = scheduler.workers.free().to_vec();
    places.sort_unstable();
    assert_eq!(places, free);
    let processes = scheduler.workers.places().len() - free.len();
    assert_eq!(scheduler.snapshot().processes, processes);
    assert!(scheduler.workers.places().len() <= scheduler.limits.workers_max);
    assert!(
        waits.is_empty() || processes == scheduler.limits.workers_max,
        "nobody waits for room that is there"
    );
}

fn workers(scheduler: &Scheduler) {
    let mut busy = BTreeSet::new();
    for (place, worker) in scheduler.workers.iter() {
        let pool = &scheduler.pools[worker.pool];
        let has = |places: &Places| places.iter().any(|other| other == place);
        let ready = worker.state == State::Ready;
        assert_eq!(has(&pool.members), ready);
        assert_eq!(has(&pool.idle), ready && worker.is_idle());
        let jobs: Vec<_> = worker.jobs().map(|index| *scheduler.jobs.get(index)).collect();
        assert_eq!(worker.budget_us, jobs.iter().map(|job| u64::from(job.budget_us)).sum::<u64>());
        assert!(jobs.len() <= 1 || !pool.is_alone(), "a crash of who is watched costs one call");
        assert!(!matches!(worker.state, State::Empty | State::Starting) || jobs.is_empty());
        let served = worker.served.all();
        let known = |job: &Job| !worker.served.is_complete() || served.contains(&job.function);
        assert!(jobs.iter().all(known), "what runs was noted");
        if !worker.is_idle() {
            assert!(scheduler.workers.is_at_its_place(place));
            busy.insert(place);
        }
    }
    assert_eq!(scheduler.workers.busy().len(), busy.len());
}

fn slabs(scheduler: &Scheduler) {
    let numbers: BTreeSet<u32> = scheduler.pools.iter().map(|(_, pool)| pool.key.slab).collect();
    for number in numbers {
        let pool_of = |pool: u32| &scheduler.pools[pool].key;
        let here = || scheduler.functions.iter().filter(|(_, f)| pool_of(f.pool).slab == number);
        let images = here().filter(|(_, f)| matches!(f.phase, Phase::Loading | Phase::Resident)).count();
        let resident = here().filter(|(_, f)| f.phase == Phase::Resident).count();
        let functions = here().filter(|(_, f)| f.gate == Gate::Open).count();
        let maps = |worker: &Worker| worker.state != State::Empty && pool_of(worker.pool).slab == number;
        let workers = scheduler.workers.iter().filter(|(_, worker)| maps(worker)).count();
        let slab = scheduler.slabs.get(number);
        assert_eq!(
            (slab.images, slab.resident, slab.functions, slab.workers),
            (images, resident, functions, workers)
        );
        let needed = number == SHARED_SLAB || images + functions + workers > 0;
        assert!(needed || !slab.is_open(), "what nobody needs is closed");
    }
}

fn suspects(scheduler: &Scheduler) {
    for (number, suspect) in &scheduler.strikes.suspects {
        let function = &scheduler.functions[*number];
        let (key, home) = (scheduler.pools[function.pool].key, &scheduler.pools[suspect.home_pool]);
        assert_eq!(key, PoolKey { slab: home.key.slab, kind: PoolKind::Alone(super::FunctionId(*number)) });
        assert!(matches!(home.key.kind, PoolKind::Short | PoolKind::Long));
        assert_eq!(scheduler.queues[suspect.home_queue].pool, suspect.home_pool);
        assert!(scheduler.scaling_due() <= suspect.until.max(scheduler.pools.scale_after), "it comes home");
    }
    for (number, function) in scheduler.functions.iter() {
        if let Some(PoolKind::Alone(alone)) = scheduler.pools.get(function.pool).map(|pool| pool.key.kind) {
            assert_eq!(alone.0, number);
            assert!(scheduler.strikes.suspects.contains_key(&number), "only suspects run alone");
        }
        let queue = scheduler.queues.get(function.queue);
        assert!(function.is_leaving() || queue.is_some_and(|queue| queue.pool == function.pool));
    }
}

/// What is lent is there, and for one whose job is on a core.
fn loans(scheduler: &Scheduler) {
    for (at, loan) in scheduler.loans.iter().enumerate() {
        let worker = &scheduler.workers[loan.place];
        assert!(!worker.is_idle() && !scheduler.pools[worker.pool].is_alone());
        assert!(!scheduler.loans[..at].contains(loan), "each once");
        let is_gone = scheduler.functions[loan.function].phase != Phase::Resident;
        assert!(!is_gone || worker.state != State::Ready, "where the slab is there, so is the image");
    }
}

fn functions(scheduler: &Scheduler, seen: &[Job]) {
    let (mut bytes, mut resident, mut wanted) = (0, 0, Vec::new());
    for (number, function) in scheduler.functions.iter() {
        let jobs = seen.iter().filter(|job| job.function == number).count();
        let lent = scheduler.loans.iter().filter(|loan| loan.function == number).count();
        assert_eq!(function.open as usize, jobs + lent);
        match function.phase {
            Phase::Cold => assert!(function.cold.is_empty(), "nobody waits for what nobody loads"),
            Phase::Wanted => wanted.push(number),
            Phase::Loading => bytes += function.bytes,
            Phase::Resident => {
                assert!(function.cold.is_empty());
                assert!(!function.is_leaving() || function.open > 0, "what is retired leaves");
                (bytes, resident) = (bytes + function.bytes, resident + 1);
            }
        }
        if function.banned != 0 {
            let rests = |job: &Job| job.waits() || job.place == Place::Suspended;
            let waits = seen.iter().any(|job| job.function == number && rests(job));
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
    for index in scheduler.suspended.indexes() {
        assert!(next <= scheduler.jobs.get(index).ends, "a suspended call would never be answered");
    }
    let backstop = |worker: &Worker| matches!(worker.state, State::Ready | State::Leaving);
    for (_, worker) in scheduler.workers.iter().filter(|(_, worker)| backstop(worker)) {
        assert!(worker.is_idle() || next <= worker.backstop);
        // Each idle worker that may leave one day is looked at again; a node that stops dismisses all.
        let kept = scheduler.pools[worker.pool].kept > 0 || scheduler.stopping;
        assert!(kept || worker.state != State::Ready || next < Moment::NEVER);
    }
    let pools = &scheduler.pools;
    let waits = !pools.hungry().is_empty() || pools.waiting_for_room() > 0;
    assert!(!waits || next <= pools.scale_after.max(now.plus(1_000)), "waiting pools are looked at");
    let lacks = |pool: &Pool| !scheduler.stopping && pool.workers() < pool.kept;
    for (_, pool) in pools.iter().filter(|(_, pool)| lacks(pool)) {
        assert!(next <= pool.starts.after.max(pools.scale_after), "what is missing is started");
    }
}
