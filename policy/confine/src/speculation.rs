//! What the kernel can do against a process that learns by the processor's speculation what it may not
//! read, and against one that is made to speculate by another.
//!
//! Each control is taken by a process for itself, for good, before it is locked down, and the kernel is
//! asked afterwards: whether one holds is never concluded from a call that did not fail.

use rustix::io::Errno;
use rustix::process::{
    SpeculationFeature, SpeculationFeatureControl, SpeculationFeatureState, control_speculative_feature,
    getpid, speculative_feature_state,
};
use rustix::thread::{CoreSchedulingScope, core_scheduling_cookie, create_core_scheduling_cookie};

/// Where the kernel says whether cores run two threads at a time.
const SIBLINGS_FILE: &str = "/sys/devices/system/cpu/smt/active";

/// One thing that the kernel can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpeculationControl {
    /// Others' code does not train the indirect branches of this process, nor its code theirs:
    /// `PR_SPEC_INDIRECT_BRANCH`.
    IndirectBranches,
    /// No load runs ahead of an older store to its address: `PR_SPEC_STORE_BYPASS`.
    StoreBypass,
    /// No other process runs beside this one on the same core: `PR_SCHED_CORE`.
    CoreScheduling,
}

impl SpeculationControl {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::IndirectBranches, Self::StoreBypass, Self::CoreScheduling];

    /// Takes it for the calling thread, which is all of its process, and what it starts. `Ok` says why it holds, `Err`
    /// why it does not; each is a short sentence.
    pub fn take(self) -> Result<String, String> {
        match self {
            Self::IndirectBranches => force_disable(SpeculationFeature::IndirectBranchSpeculation),
            Self::StoreBypass => force_disable(SpeculationFeature::SpeculativeStoreBypass),
            Self::CoreScheduling => take_core(),
        }
    }
}

/// What the kernel says about a misfeature.
fn force_disable(feature: SpeculationFeature) -> Result<String, String> {
    if let Some(settled) = settled(state(feature)?) {
        return settled;
    }
    control_speculative_feature(feature, SpeculationFeatureControl::FORCE_DISABLE)
        .map_err(|errno| format!("the kernel refuses it: {errno}"))?;
    let state = state(feature)?;
    settled(state).unwrap_or_else(|| Err(format!("the kernel took it and says {:#x}", state.bits())))
}

fn state(feature: SpeculationFeature) -> Result<SpeculationFeatureState, String> {
    match speculative_feature_state(feature) {
        Ok(Some(state)) => Ok(state),
        Ok(None) => Err("the kernel answers what no header knows".to_owned()),
        Err(errno) => Err(format!("the kernel has no such control: {errno}")),
    }
}

/// What a state means that nothing more can be done about; `None` where this process can.
fn settled(state: SpeculationFeatureState) -> Option<Result<String, String>> {
    use SpeculationFeatureState as State;
    let off = State::DISABLE | State::FORCE_DISABLE;
    if state.is_empty() {
        Some(Ok("the processor is not affected".to_owned()))
    } else if state.contains(State::FORCE_DISABLE) {
        Some(Ok("disabled for good".to_owned()))
    } else if state.contains(State::PRCTL) {
        None
    } else if state.intersects(off) {
        Some(Ok("disabled for all programs".to_owned()))
    } else {
        Some(Err("the processor or the kernel offers no control".to_owned()))
    }
}

/// A cookie of its own: the kernel lets only threads of one cookie run on one core at a time.
fn take_core() -> Result<String, String> {
    match create_core_scheduling_cookie(getpid(), CoreSchedulingScope::Thread) {
        Ok(()) => {}
        Err(Errno::NODEV) => return Ok("no core runs two threads".to_owned()),
        Err(errno) => return without_cookie(std::fs::read_to_string(SIBLINGS_FILE).ok().as_deref(), errno),
    }
    match core_scheduling_cookie(getpid(), CoreSchedulingScope::Thread) {
        Ok(0) => Err("the kernel gave no cookie".to_owned()),
        Ok(_) => Ok("a core of its own while it runs".to_owned()),
        Err(errno) => Err(format!("the kernel does not say: {errno}")),
    }
}

/// A kernel without core scheduling needs none where no core runs two threads.
fn without_cookie(siblings: Option<&str>, errno: Errno) -> Result<String, String> {
    match siblings.map(str::trim) {
        Some("0") => Ok("no core runs two threads".to_owned()),
        _ => Err(format!("the kernel has no core scheduling: {errno}")),
    }
}

#[cfg(test)]
mod tests;
