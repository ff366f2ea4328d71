//! Who keeps the limits of a whole sandbox: the kernel by a control group, or this program by measuring.

use std::time::Duration;

use mfaas_confine::Layer;
use mfaas_rules::limits::CompileLimits;

use crate::cgroup::{self, Group, Places};
use crate::error::SandboxError;
use crate::exit::Exit;
use crate::spec::{Filter, SandboxSpec, TreeLimits};
use crate::tree::{self, TreeUse};

/// How a sandbox of this process with such a command has its limits kept.
///
/// A group has a price: the kernel lets a process join only when every processor has been through
/// the scheduler, 10 to 30 ms on a busy machine. A tenant's build enters five short sandboxes and is
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

/// Processes of the sandbox's own: the helper and the first one of the namespace.
const OWN_PROCESSES: u64 = 2;

/// Keeps the limits of one sandbox.
#[derive(Debug)]
pub(crate) enum Monitor {
    Kernel(Group),
    Measured,
    PerProcess,
}

impl Monitor {
    /// For the sandbox that `helper` is going to build: it must not have been told to begin yet.
    pub(crate) fn new(helper: u32, spec: &SandboxSpec, without: Option<Layer>) -> Result<Self, SandboxError> {
        let groups = places(spec.filter).filter(|_| without != Some(Layer::ControlGroup));
        if without == Some(Layer::Limits) {
            Ok(Monitor::PerProcess)
        } else if let Some(group) = groups.and_then(|places| places.group(&spec.limits)) {
            let lost =
                |error| SandboxError::Lost(format!("the helper cannot be put into its group: {error}"));
            group.take(helper).map_err(lost)?;
            Ok(Monitor::Kernel(group))
        } else if tree::can_be_read() {
            Ok(Monitor::Measured)
        } else {
            Ok(Monitor::PerProcess)
        }
    }

    pub(crate) fn kept(&self) -> TreeLimits {
        match self {
            Monitor::Kernel(_) => TreeLimits::Kernel,
            Monitor::Measured => TreeLimits::Measured,
            Monitor::PerProcess => TreeLimits::PerProcess,
        }
    }

    /// The limit that the sandbox has gone beyond, if any. `helper` has not been waited for.
    pub(crate) fn broken(&self, helper: u32, limits: &CompileLimits) -> Option<Exit> {
        match self {
            Monitor::Kernel(group) if group.out_of_memory() => Some(Exit::MemoryLimit),
            Monitor::Kernel(group) => judge(TreeUse { cpu: group.cpu()?, ..TreeUse::default() }, limits),
            Monitor::Measured => judge(tree::tree_use(helper), limits),
            Monitor::PerProcess => None,
        }
    }

    /// Whether the kernel has ended a process of the sandbox for want of memory.
    pub(crate) fn out_of_memory(&self) -> bool {
        match self {
            Monitor::Kernel(group) => group.out_of_memory(),
            Monitor::Measured | Monitor::PerProcess => false,
        }
    }

    /// What the kernel has counted; `None` where nothing more is known than processes report.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        match self {
            Monitor::Kernel(group) => group.cpu(),
            Monitor::Measured | Monitor::PerProcess => None,
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
