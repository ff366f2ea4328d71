//! Who keeps the limits of a whole cage: the kernel by a control group, or this program by measuring.

use std::time::Duration;

use mfaas_confine::Layer;
use mfaas_rules::limits::CompileLimits;
use serde::{Deserialize, Serialize};

use crate::cgroup::{self, Group, Places};
use crate::tree::{self, TreeUse};
use crate::{CageSpec, Exit, Filter, SandboxError};

/// How the limits on memory, processes and CPU time of all processes of a cage together are kept.
/// Each process has the same limits from the kernel besides, whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeLimits {
    /// By the kernel, in a control group.
    Kernel,
    /// By measuring, some twenty times a second: a cage may be above them for that long.
    Measured,
    /// Not at all: a cage of many processes can use as much as each of them may.
    PerProcess,
}

impl std::fmt::Display for TreeLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TreeLimits::Kernel => "per tree, kept by a control group",
            TreeLimits::Measured => "per tree, measured every 50 ms",
            TreeLimits::PerProcess => "per process",
        })
    }
}

/// How a cage of this process with such a command has its limits kept.
///
/// A group has a price: the kernel lets a process join only when every processor has been through
/// the scheduler, 10 to 30 ms on a busy machine. A tenant's build enters five short cages and is
/// measured; the build of the dependency cache takes minutes, forks, and has a group.
pub fn tree_limits(filter: Filter) -> TreeLimits {
    if places(filter).is_some() {
        TreeLimits::Kernel
    } else if tree::can_be_read() {
        TreeLimits::Measured
    } else {
        TreeLimits::PerProcess
    }
}

fn places(filter: Filter) -> Option<&'static Places> {
    match filter {
        Filter::DependencyBuild => cgroup::places(),
        Filter::Compiler | Filter::ThrowawayLoad => None,
    }
}

/// Processes of the cage's own: the helper and the first one of the namespace.
const OWN_PROCESSES: u64 = 2;

/// Keeps the limits of one cage.
#[derive(Debug)]
pub(crate) enum Keeper {
    Kernel(Group),
    Measured,
    PerProcess,
}

impl Keeper {
    /// For the cage that `helper` is going to build: it must not have been told to begin yet.
    pub(crate) fn new(helper: u32, spec: &CageSpec, without: Option<Layer>) -> Result<Self, SandboxError> {
        let groups = places(spec.filter).filter(|_| without != Some(Layer::ControlGroup));
        if without == Some(Layer::Limits) {
            Ok(Keeper::PerProcess)
        } else if let Some(group) = groups.and_then(|places| places.group(&spec.limits)) {
            let lost =
                |error| SandboxError::Lost(format!("the helper cannot be put into its group: {error}"));
            group.take(helper).map_err(lost)?;
            Ok(Keeper::Kernel(group))
        } else if tree::can_be_read() {
            Ok(Keeper::Measured)
        } else {
            Ok(Keeper::PerProcess)
        }
    }

    pub(crate) fn kept(&self) -> TreeLimits {
        match self {
            Keeper::Kernel(_) => TreeLimits::Kernel,
            Keeper::Measured => TreeLimits::Measured,
            Keeper::PerProcess => TreeLimits::PerProcess,
        }
    }

    /// The limit that the cage has gone beyond, if any. `helper` has not been waited for.
    pub(crate) fn broken(&self, helper: u32, limits: &CompileLimits) -> Option<Exit> {
        match self {
            Keeper::Kernel(group) if group.out_of_memory() => Some(Exit::MemoryLimit),
            Keeper::Kernel(group) => judge(TreeUse { cpu: group.cpu()?, ..TreeUse::default() }, limits),
            Keeper::Measured => judge(tree::tree_use(helper), limits),
            Keeper::PerProcess => None,
        }
    }

    /// Whether the kernel has ended a process of the cage for want of memory.
    pub(crate) fn out_of_memory(&self) -> bool {
        match self {
            Keeper::Kernel(group) => group.out_of_memory(),
            Keeper::Measured | Keeper::PerProcess => false,
        }
    }

    /// What the kernel has counted; `None` where nothing more is known than processes report.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        match self {
            Keeper::Kernel(group) => group.cpu(),
            Keeper::Measured | Keeper::PerProcess => None,
        }
    }
}

pub(crate) fn judge(used: TreeUse, limits: &CompileLimits) -> Option<Exit> {
    if used.tasks > limits.processes_max.saturating_add(OWN_PROCESSES) {
        Some(Exit::ProcessLimit)
    } else if used.memory_bytes > limits.memory_bytes_max {
        Some(Exit::MemoryLimit)
    } else if used.cpu > Duration::from_secs(limits.cpu_seconds_max) {
        Some(Exit::CpuLimit)
    } else {
        None
    }
}
