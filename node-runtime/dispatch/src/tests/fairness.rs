//! Turns of tenants against a reference that is too simple to be wrong.

use std::collections::{BTreeMap, VecDeque};

use super::super::{Command, Commands, FunctionId, JobId, Moment, Scheduler, TenantId, WorkerId};
use super::simulation::Dice;
use super::{LIMITS, define, ready};
use crate::Limits;

const WORKERS: u16 = 3;
const TENANTS: u32 = 5;

/// Queues by tenant and the line of tenants, as one would write them on a board.
#[derive(Default)]
struct Board {
    line: VecDeque<u32>,
    queues: BTreeMap<u32, VecDeque<JobId>>,
}

impl Board {
    fn push(&mut self, tenant: u32, job: JobId) {
        let queue = self.queues.entry(tenant).or_default();
        queue.push_back(job);
        if !self.line.contains(&tenant) {
            self.line.push_back(tenant);
        }
    }

    fn next(&mut self) -> Option<JobId> {
        let tenant = self.line.pop_front()?;
        let queue = self.queues.get_mut(&tenant)?;
        let job = queue.pop_front();
        if !queue.is_empty() {
            self.line.push_back(tenant);
        }
        job
    }
}

fn started(commands: &Commands) -> Option<(WorkerId, JobId)> {
    let start = |command: &Command| match command {
        Command::Start { worker, job, .. } => Some((*worker, *job)),
        _ => None,
    };
    let mut starts = commands.iter().filter_map(start);
    let first = starts.next();
    assert_eq!(starts.next(), None, "one step frees one worker");
    first
}

#[test]
fn tenants_get_the_turns_that_the_reference_gives_them() {
    let limits = Limits { in_worker_max: 1, waiting_per_tenant: 40, waiting_max: 1_000, ..LIMITS };
    let mut scheduler = Scheduler::new(Limits { wait_us_max: u64::MAX, ..limits });
    (0..TENANTS).for_each(|tenant| define(&mut scheduler, tenant, tenant));
    (0..WORKERS).for_each(|place| drop(ready(&mut scheduler, 0, place, 1)));
    let (mut dice, mut board, mut commands) = (Dice(7), Board::default(), Commands::new());
    let mut running: Vec<(WorkerId, JobId)> = Vec::new();
    let mut turns = BTreeMap::<JobId, u32>::new();
    for now in 0..300_000 {
        commands.clear();
        if dice.below(5) < 3 {
            // The first tenant wants far more than its share.
            let tenant = if dice.below(3) > 0 { 0 } else { dice.below(u64::from(TENANTS)) as u32 };
            let Ok(job) = scheduler.submit(Moment(now), FunctionId(tenant), None, &mut commands) else {
                continue;
            };
            turns.insert(job, tenant);
            match started(&commands) {
                Some(start) => {
                    assert!(running.len() < usize::from(WORKERS) && board.line.is_empty());
                    running.push(start);
                }
                None => board.push(tenant, job),
            }
        } else if !running.is_empty() {
            let (worker, job) = running.swap_remove(dice.below(running.len() as u64) as usize);
            scheduler.completed(Moment(now), worker, job, false, &mut commands);
            let start = started(&commands);
            assert_eq!(start.map(|(_, job)| job), board.next(), "step {now}");
            running.extend(start);
        }
    }
    let mut share = BTreeMap::<u32, u32>::new();
    turns.values().for_each(|tenant| *share.entry(TenantId(*tenant).0).or_default() += 1);
    assert_eq!(share.len(), TENANTS as usize, "all of them called");
}
