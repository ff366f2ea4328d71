//! The layers that a process puts on itself: limits, capabilities, landlock.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::error::{ConfineError, Step};
use crate::level::Level;
use crate::profile::{Access, Limits, Profile};

/// Processes that belong to the sandbox itself: its first process and the one outside.
const OWN_PROCESSES: u64 = 2;
/// Without a user namespace the kernel counts all processes of the user, ours and others.
const OTHER_PROCESSES: u64 = 4096;

pub(crate) fn set_limits(limits: &Limits, level: Level) -> Result<(), ConfineError> {
    let processes = limits.processes
        + match level {
            Level::Full => OWN_PROCESSES,
            Level::Landlock => OTHER_PROCESSES,
        };
    // The second after the soft limit is for a process that handles SIGXCPU.
    let rows = [
        (Resource::Core, 0, 0),
        (Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds + 1),
        (Resource::Data, limits.data_bytes, limits.data_bytes),
        (Resource::As, limits.address_space_bytes, limits.address_space_bytes),
        (Resource::Fsize, limits.file_bytes, limits.file_bytes),
        (Resource::Nofile, limits.descriptors, limits.descriptors),
        (Resource::Nproc, processes, processes),
        (Resource::Stack, limits.stack_bytes, limits.stack_bytes),
        (Resource::Memlock, 0, 0),
    ];
    for (resource, current, maximum) in rows {
        set_limit(resource, current, maximum)?;
    }
    Ok(())
}

/// Process ids that the kernel gives to nobody again once it has counted past them (RESERVED_PIDS).
const RESERVED_IDS: u64 = 300;
/// The first kernel on which this number belongs to a pid namespace. On an older one it is the
/// machine's, and root in a user namespace may write it.
const IDS_BY_NAMESPACE_SINCE: (u32, u32) = (6, 14);
/// What a machine of many cores takes at least is 8 for each; with more than this there is no limit.
const IDS_MAX: u64 = 32_768;

/// Bounds the ids of the calling process's pid namespace, and by that its processes and threads,
/// those of uid 0 too, to whom RLIMIT_NPROC does not apply. It is a bound behind another: where the
/// kernel or a read-only `/proc/sys` refuses it, whoever started the sandbox still counts.
pub(crate) fn limit_process_ids(processes: u64) {
    if kernel_version() < IDS_BY_NAMESPACE_SINCE {
        return;
    }
    let mut ids = RESERVED_IDS + processes + OWN_PROCESSES;
    while ids <= IDS_MAX {
        match std::fs::write("/proc/sys/kernel/pid_max", ids.to_string()) {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => ids *= 2,
            Ok(()) | Err(_) => return,
        }
    }
}

/// Major and minor, (0, 0) if the kernel's own text says neither.
fn kernel_version() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Never above what the process may have already.
fn set_limit(resource: Resource, current: u64, maximum: u64) -> Result<(), ConfineError> {
    let ceiling = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Rlimit { current: Some(current.min(ceiling)), maximum: Some(maximum.min(ceiling)) };
    rustix::process::setrlimit(resource, limit).map_err(ConfineError::at(Step::ResourceLimits))
}

/// All capabilities, for good: from every set, and from what an execution could give back.
pub(crate) fn drop_capabilities() -> Result<(), ConfineError> {
    let error = ConfineError::at;
    rustix::thread::clear_ambient_capability_set().map_err(error(Step::Capabilities))?;
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The first number that this kernel does not know.
            Err(rustix::io::Errno::INVAL) => break,
            Err(errno) => return Err(error(Step::Capabilities)(errno)),
        }
    }
    give_up_capabilities()
}

/// Those that the process has; an execution could give others. For one that never executes anything.
pub(crate) fn give_up_capabilities() -> Result<(), ConfineError> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).map_err(ConfineError::at(Step::Capabilities))
}

/// Below the profile's mounts what their access says, elsewhere nothing; no TCP, no abstract
/// sockets, no signals out of the domain, as far as this kernel knows these.
pub(crate) fn restrict_files(profile: &Profile, level: Level) -> Result<(), ConfineError> {
    restrict(profile, level)
        .map_err(|error| ConfineError::Step { step: Step::Landlock, source: std::io::Error::other(error) })
}

/// The version that has to be there. Later ones add rights, which are used where they exist.
const REQUIRED: ABI = ABI::V1;
const NEWEST: ABI = ABI::V6;

fn restrict(profile: &Profile, level: Level) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    for mount in &profile.mounts {
        rules = rules.add_rule(rule(&mount.target, rights(mount.access))?)?;
    }
    let devices = AccessFs::ReadFile | AccessFs::WriteFile;
    for device in ["/dev/null", "/dev/zero", "/dev/urandom"] {
        rules = rules.add_rule(rule(Path::new(device), devices)?)?;
    }
    if level == Level::Full {
        rules = rules.add_rule(rule(Path::new("/tmp"), rights(Access::Write))?)?;
    }
    match rules.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("landlock is not enforced by this kernel".into()),
    }
}

/// From here on this thread, and what it starts, writes below `directories` alone: for a command of somebody who may write more,
/// in directories where others could have left links.
///
/// # Errors
/// Root is refused where the kernel keeps none of it (before Linux 5.19, or without landlock). Anybody else goes on: no link
/// leads them further than their own rights.
pub fn write_only_below(directories: &[&Path]) -> Result<(), ConfineError> {
    let restrict = || {
        let writing = AccessFs::from_write(ABI::V3);
        let rules = path_beneath_rules(directories.iter().copied().chain([Path::new("/dev/null")]), writing);
        // The first version forbids renames between directories, whatever the rules say.
        let renaming = Ruleset::default().set_compatibility(CompatLevel::SoftRequirement);
        let handled = renaming.handle_access(AccessFs::Refer)?.set_compatibility(CompatLevel::BestEffort);
        handled.handle_access(writing)?.create()?.add_rules(rules)?.restrict_self()
    };
    let failed = |source| ConfineError::Step { step: Step::Landlock, source };
    let status = restrict().map_err(|error: RulesetError| failed(std::io::Error::other(error)))?;
    if status.ruleset == RulesetStatus::NotEnforced && rustix::process::geteuid().is_root() {
        return Err(failed(std::io::ErrorKind::Unsupported.into()));
    }
    Ok(())
}

/// From here on this thread, and what it starts, reaches what is below `directory` and no other file: for what works with paths of
/// strangers.
///
/// # Errors
/// Where the kernel keeps none of it, for everybody.
pub fn reach_only_below(directory: &Path) -> Result<(), ConfineError> {
    let restrict = || {
        let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let handled = required.handle_access(AccessFs::from_all(REQUIRED))?;
        let handled =
            handled.set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(NEWEST))?;
        let rules = path_beneath_rules([directory], rights(Access::Write));
        handled.create()?.add_rules(rules)?.restrict_self()
    };
    let failed = |source| ConfineError::Step { step: Step::Landlock, source };
    let status = restrict().map_err(|error: RulesetError| failed(std::io::Error::other(error)))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(failed(std::io::ErrorKind::Unsupported.into()));
    }
    Ok(())
}

fn rights(access: Access) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    match access {
        Access::Read | Access::Load => read,
        Access::Execute => read | AccessFs::Execute,
        Access::WriteAndExecute => rights(Access::Write) | AccessFs::Execute,
        Access::Write | Access::WriteAndLoad => {
            read | AccessFs::WriteFile
                | AccessFs::RemoveDir
                | AccessFs::RemoveFile
                | AccessFs::MakeDir
                | AccessFs::MakeReg
                | AccessFs::Refer
                | AccessFs::Truncate
        }
    }
}

/// A rule for a directory and what is below it, or for one file, which has fewer rights.
fn rule(
    path: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<PathBeneath<PathFd>, Box<dyn std::error::Error + Send + Sync>> {
    let file = !std::fs::metadata(path)?.is_dir();
    let rights = if file { rights & AccessFs::from_file(NEWEST) } else { rights };
    Ok(PathBeneath::new(PathFd::new(path)?, rights))
}
