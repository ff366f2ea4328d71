//! What a sandbox comes to on this machine, found out by building one as every build does.
//!
//! A kernel, a container's seccomp profile or an AppArmor rule may take away any one of the dozen system calls that a
//! sandbox takes, so nothing is asked: the whole of it is built, around a process that then ends. Must never answer a level
//! that was not reached.

use std::path::Path;

use mfaas_confine::{Access, Level, Mount};
use mfaas_rules::limits::COMPILE;

use crate::error::SandboxError;
use crate::sandbox::{Cancel, Sandbox};
use crate::spec::{Filter, SandboxSpec};

/// The sandbox that this machine can build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The strongest level that was reached.
    pub level: Level,
    /// Why a full one was not, with the step and its system call.
    pub missing: Option<String>,
}

/// Builds a full sandbox, and one of level landlock where that fails. `helper` is as for [`Sandbox::new`].
pub fn try_out(helper: &Path) -> Result<Tried, SandboxError> {
    let missing = match enter(helper, Level::Full) {
        Ok(level) => return Ok(Tried { level, missing: None }),
        Err(SandboxError::Refused { reason }) => reason,
        Err(error) => return Err(error),
    };
    Ok(Tried { level: enter(helper, Level::Landlock)?, missing: Some(missing) })
}

/// The level of a sandbox in which a process could begin and end.
fn enter(helper: &Path, level: Level) -> Result<Level, SandboxError> {
    let outcome = Sandbox::of_trial(spec(helper, level), helper)?.run(&Cancel::new())?;
    if outcome.exit.success() {
        return Ok(outcome.level);
    }
    let reason = format!("a process that only ends did not: {:?}", outcome.exit);
    Err(SandboxError::Refused { reason })
}

/// What a compiler gets, around the helper's own file, where it stands, so that level landlock has the same.
fn spec(helper: &Path, level: Level) -> SandboxSpec {
    let file = Mount { source: helper.to_owned(), target: helper.to_owned(), access: Access::Execute };
    SandboxSpec {
        program: helper.to_owned(),
        arguments: Vec::new(),
        environment: Vec::new(),
        directory: "/".into(),
        mounts: vec![file],
        filter: Filter::Compiler,
        limits: COMPILE,
        level,
    }
}
