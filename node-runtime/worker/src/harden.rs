//! What the worker gives up: before loading what it never needs, after loading nearly everything.

use anyhow::{Context as _, bail};
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
