//! What the worker gives up: before loading what it never needs, after loading nearly everything.

use anyhow::{Context as _, bail};
use mfaas_confine::SpeculationControl;
use mfaas_ident::sanitise_line;
use mfaas_ring::preload::{CONTROL_BYTES_MAX, ControlLine, SpeculationControls, SpeculationLine};
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal};

/// Ties the worker's life to the thread that started it, which is one of process `node_pid`.
pub(crate) fn live_and_die_with(node_pid: u32) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context("set the death signal")?;
    // The parent may have died before the signal was set; then somebody else is the parent now.
    let parent = rustix::process::getppid().map(Pid::as_raw_pid);
    if parent.and_then(|pid| u32::try_from(pid).ok()) != Some(node_pid) {
        bail!("the node that started this worker is gone");
    }
    Ok(())
}

/// No core dumps, no tracing by others.
pub(crate) fn before_loading() -> anyhow::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).context("become non-dumpable")?;
    forbid(Resource::Core)
}

/// Takes what was wished for of the kernel's controls over speculation, for good, and says what holds.
/// Before any image is there: nothing that a function does comes earlier.
pub(crate) fn against_speculation(controls: SpeculationControls) -> SpeculationLine {
    let line = |wished: bool, control: SpeculationControl| {
        let taken = if wished { control.take() } else { Err("turned off by a setting".to_owned()) };
        let holds = taken.is_ok();
        let (Ok(said) | Err(said)) = taken;
        ControlLine { holds, reason: sanitise_line(&said, CONTROL_BYTES_MAX) }
    };
    SpeculationLine {
        indirect_branches: line(controls.indirect_branches, SpeculationControl::IndirectBranches),
        store_bypass: line(controls.store_bypass, SpeculationControl::StoreBypass),
        core_scheduling: line(controls.core_scheduling, SpeculationControl::CoreScheduling),
    }
}

/// No processes, no new descriptors, no longer files, then no system calls but those of the profile.
pub(crate) fn after_loading() -> anyhow::Result<()> {
    forbid(Resource::Nproc)?;
    forbid(Resource::Nofile)?;
    forbid(Resource::Fsize)?;
    lock_down()
}

/// No system calls but those of the profile.
pub(crate) fn lock_down() -> anyhow::Result<()> {
    mfaas_confine::lock_down(mfaas_rules::profiles::seccomp::WORKER).context("lock down")
}

fn forbid(resource: Resource) -> anyhow::Result<()> {
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(resource, nothing).with_context(|| format!("limit {resource:?}"))
}
