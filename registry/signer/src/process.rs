//! What the process gives up before it reads a key.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// No core file, no ptrace or `/proc/<pid>/mem` by another process of the same user, no new
/// privileges through an executed file.
pub(crate) fn harden() -> rustix::io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    rustix::thread::set_no_new_privs(true)
}
