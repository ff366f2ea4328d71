//! Memory of the secondary: looked at, bounded, and taken back from a member where it is low.

use std::collections::VecDeque;

use mfaas_ident::Moment;
use mfaas_isolation::{Member, MemberId, MemoryAction, MemoryIsolation, MemorySample, MemorySettings};
use mfaas_isolation_client::Role;

use crate::config::Settings;
use crate::groups::MemoryLimit;
use crate::machine::{self, Memory};
use crate::members::Placed;
use crate::meters::{self, note};
use crate::processes;
use crate::secondary::Secondary;

/// Parts of the machine's memory, in percent: below the first something is ended, the second is left to the machine.
const LOW_PERCENT: u64 = 3;
const HIGH_PERCENT: u64 = 8;
/// Limits of memory are multiples of this, in bytes.
const STEP: u64 = 64 << 20;
/// By how much the kernel's limit is above ours, in bytes: it ends any member, we end one of which nothing is lost, and need
/// a look to see it.
const KERNEL_SLACK: u64 = 512 << 20;
/// How long more memory must have been there before limits rise, and what was ended has to give its memory back.
const RAISE_AFTER_US: u64 = 10_000_000;
const SETTLE_US: u64 = 2_000_000;
/// Members that were ended and are remembered: whoever started one asks within moments.
const ENDED_MAX: usize = 256;

/// What is known and decided about memory.
#[derive(Debug)]
pub(super) struct MemoryControl {
    isolation: MemoryIsolation,
    bytes_max: Option<u64>,
    killed: u64,
    /// Members that were ended last, and who had asked to place them.
    ended: VecDeque<(u32, u32)>,
}

impl MemoryControl {
    /// Nothing is limited yet.
    pub(super) fn start(settings: &Settings) -> anyhow::Result<Self> {
        let isolation = MemoryIsolation::new(settings_of(settings)?)?;
        Ok(Self { isolation, bytes_max: None, killed: 0, ended: VecDeque::new() })
    }

    /// Other settings, for the next look.
    pub(super) fn set(&mut self, settings: &Settings) -> anyhow::Result<()> {
        Ok(self.isolation.set(settings_of(settings)?)?)
    }

    /// Everything was lifted, and stays so.
    pub(super) fn lifted(&mut self) {
        self.isolation.lift();
        self.bytes_max = None;
    }

    /// Limits from the next look on.
    pub(super) fn engage(&mut self) {
        self.isolation.engage();
    }

    /// One look, and what follows from it; whether a member was ended.
    pub(super) fn look(&mut self, now: Moment, secondary: &Secondary) -> bool {
        let available_bytes = match machine::memory() {
            Ok(Memory { available_bytes, .. }) => available_bytes,
            Err(error) => {
                note("looking at memory", Err(error));
                return false;
            }
        };
        let members = sizes(secondary);
        let secondary_bytes = match secondary.groups.memory_bytes() {
            Ok(counted) => counted.unwrap_or_else(|| members.iter().map(|member| member.bytes).sum()),
            Err(error) => {
                note("looking at the secondary's memory", Err(error));
                return false;
            }
        };
        meters::memory(available_bytes, secondary_bytes);
        let sample = MemorySample { now, available_bytes, secondary_bytes, members: &members };
        match self.isolation.step(&sample) {
            Some(MemoryAction::Limit { high_bytes, max_bytes }) => {
                self.bytes_max = Some(max_bytes);
                let max_bytes = max_bytes.saturating_add(KERNEL_SLACK);
                note("limiting memory", secondary.set_memory(MemoryLimit { high_bytes, max_bytes }));
                false
            }
            Some(MemoryAction::Kill(member)) => self.kill(member, available_bytes, secondary),
            // What lifts says so itself.
            Some(MemoryAction::Lift) | None => false,
        }
    }

    fn kill(&mut self, member: MemberId, available: u64, secondary: &Secondary) -> bool {
        let mut all = secondary.members.of(Role::Secondary);
        let Some(placed) = all.find(|placed| id(placed) == member) else { return false };
        let (pid, name) = (placed.record.pid, &placed.record.name);
        tracing::warn!(pid, name, available, "memory is low: a member of the secondary is ended");
        note("ending a member", placed.kill());
        meters::killed();
        self.killed += 1;
        self.ended.push_back((pid, placed.record.placed_by));
        if self.ended.len() > ENDED_MAX {
            self.ended.pop_front();
        }
        true
    }

    /// Whether a member that `by` had placed was ended.
    pub(super) fn has_ended(&self, pid: u32, by: u32) -> bool {
        self.ended.contains(&(pid, by))
    }

    /// Members that were ended.
    pub(super) fn killed(&self) -> u64 {
        self.killed
    }

    /// What the secondary may have.
    pub(super) fn bytes_max(&self) -> Option<u64> {
        self.bytes_max
    }
}

fn id(placed: &Placed) -> MemberId {
    MemberId(placed.record.pid.into())
}

/// What may be ended, and how much memory that gives back.
fn sizes(secondary: &Secondary) -> Vec<Member> {
    let page = rustix::param::page_size() as u64;
    let size = |pid| processes::tree(pid).iter().map(|(_, pages)| pages * page).sum();
    let killable = secondary.members.of(Role::Secondary).filter(|placed| placed.record.terms.may_stop);
    let member = |placed: &Placed| Member {
        id: id(placed),
        began: Moment(placed.at_us),
        bytes: size(placed.record.pid),
    };
    killable.map(member).collect()
}

fn settings_of(settings: &Settings) -> anyhow::Result<MemorySettings> {
    let Memory { total_bytes, .. } = machine::memory()?;
    Ok(MemorySettings {
        low_bytes: total_bytes / 100 * LOW_PERCENT,
        high_bytes: total_bytes / 100 * HIGH_PERCENT,
        secondary_bytes_max: settings.memory_bytes.unwrap_or(total_bytes).max(STEP),
        step_bytes: STEP,
        raise_after_us: RAISE_AFTER_US,
        settle_us: SETTLE_US,
    })
}
