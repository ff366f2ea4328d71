//! How primary and secondary share a machine: the ways that the paper compares.

use mfaas_ident::Moment;
use mfaas_isolation::{CoreSet, CpuIsolation, CpuLimit, CpuSample, CpuSettings, Occupancy, Siblings};

use crate::agenda::Ns;
use crate::machine::{Machine, all, bits};

/// From the request to the moment at which a core is free of the secondary: a write of a cpuset was measured to take
/// 23 to 39 µs, a freeze 56 to 295 µs. We take the worst of each.
const CPUSET_NS: Ns = 39_000;
const FREEZE_NS: Ns = 295_000;
/// Period of a limit of cycles: `cpu.max` of Linux by default.
const CAP_PERIOD_NS: Ns = 100_000_000;
/// How often a cap is looked at; the kernel hands it out in pieces of milliseconds, which is coarser.
const CAP_LOOK_NS: Ns = 100_000;

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Policy {
    /// The primary alone.
    Standalone,
    /// Both everywhere.
    Unmanaged,
    /// The secondary has so many cores, always.
    Static(usize),
    /// The secondary has this part of all cycles, in percent, everywhere.
    Cap(u64),
    /// CPU blind isolation by the control code of the node.
    Blind(Blind),
}

/// Blind isolation and what surrounds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blind {
    /// B and the rest.
    pub(crate) settings: CpuSettings,
    /// How often it looks.
    pub(crate) poll_ns: Ns,
    /// It knows which cores are idle, and not whose the threads on the others are.
    pub(crate) sees_idle_alone: bool,
    /// How much longer than measured its limits take.
    pub(crate) delay_factor: u64,
}

impl Blind {
    /// What the node is shipped with.
    pub(crate) fn with_buffer(buffer_cores: usize) -> Self {
        let settings =
            CpuSettings { buffer_cores, secondary_cores_max: 48, grow_after_us: 1_000, yield_after_us: 200 };
        Self { settings, poll_ns: 100_000, sees_idle_alone: false, delay_factor: 1 }
    }
}

/// The controller of one machine.
#[derive(Debug)]
pub(crate) enum Controller {
    /// Nothing is ever changed.
    None,
    /// Counts cycles.
    Cap { budget_ns: i64, per_period_ns: i64, seen_ns: Ns, period: Ns, cores: u64 },
    /// Looks at cores.
    Blind { isolation: Box<CpuIsolation>, how: Blind, allowed: CoreSet },
}

/// What a look led to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Cores of the secondary from some time on, if they change.
    pub(crate) change: Option<(Ns, u64)>,
    /// When to look again.
    pub(crate) next: Ns,
}

impl Policy {
    /// Whether there is a secondary.
    pub(crate) fn has_secondary(self) -> bool {
        !matches!(self, Self::Standalone)
    }

    /// The cores that the secondary begins with.
    pub(crate) fn first_cores(self, cores: usize) -> u64 {
        match self {
            Self::Standalone => 0,
            Self::Static(count) => all(count),
            Self::Unmanaged | Self::Cap(_) | Self::Blind(_) => all(cores),
        }
    }

    /// The controller of a machine. An error is a setting that the control code refuses.
    pub(crate) fn controller(self, cores: usize) -> anyhow::Result<Controller> {
        Ok(match self {
            Self::Standalone | Self::Unmanaged | Self::Static(_) => Controller::None,
            Self::Cap(percent) => {
                let per_period_ns = (CAP_PERIOD_NS * cores as u64 * percent / 100) as i64;
                Controller::Cap { budget_ns: 0, per_period_ns, seen_ns: 0, period: 0, cores: all(cores) }
            }
            Self::Blind(how) => Controller::Blind {
                isolation: Box::new(CpuIsolation::new(how.settings, Siblings::default())?),
                how,
                allowed: CoreSet::first_cpus(cores)?,
            },
        })
    }
}

impl Controller {
    /// Whether it looks at all.
    pub(crate) fn looks(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Looks at the machine.
    pub(crate) fn look(&mut self, machine: &mut Machine, now: Ns) -> anyhow::Result<Look> {
        match self {
            Self::None => Ok(Look { change: None, next: Ns::MAX }),
            Self::Cap { budget_ns, per_period_ns, seen_ns, period, cores } => {
                machine.book_all(now);
                *budget_ns -= (machine.totals.secondary_ns - *seen_ns) as i64;
                *seen_ns = machine.totals.secondary_ns;
                if now / CAP_PERIOD_NS + 1 > *period {
                    *period = now / CAP_PERIOD_NS + 1;
                    // What was used too much is missing from the next period, what was not used is gone.
                    *budget_ns = *per_period_ns + (*budget_ns).min(0);
                }
                let wanted = if *budget_ns > 0 { *cores } else { 0 };
                let change = (wanted != machine.lent()).then_some((now, wanted));
                Ok(Look { change, next: now + CAP_LOOK_NS })
            }
            Self::Blind { isolation, how, allowed } => {
                let occupancy = if how.sees_idle_alone {
                    Occupancy::Idle(set(machine.idle())?)
                } else {
                    Occupancy::Busy(set(machine.busy())?)
                };
                let sample = CpuSample { now: Moment(now / 1_000), allowed: *allowed, occupancy };
                let (cores, delay) = match isolation.step(&sample) {
                    None => return Ok(Look { change: None, next: now + how.poll_ns }),
                    Some(CpuLimit::Cores(cores)) => (mask(&cores), CPUSET_NS),
                    Some(CpuLimit::Frozen) => (0, FREEZE_NS),
                    Some(CpuLimit::Lifted) => (mask(allowed), CPUSET_NS),
                };
                // The controller waits for the kernel, and looks again at its next tick after that.
                let applied = now + delay * how.delay_factor;
                let ticks = (applied - now).div_ceil(how.poll_ns).max(1);
                Ok(Look { change: Some((applied, cores)), next: now + ticks * how.poll_ns })
            }
        }
    }
}

fn set(cores: u64) -> anyhow::Result<CoreSet> {
    let mut set = CoreSet::EMPTY;
    for core in bits(cores) {
        set.insert(core)?;
    }
    Ok(set)
}

fn mask(cores: &CoreSet) -> u64 {
    cores.iter().fold(0, |mask, core| mask | 1 << core)
}
