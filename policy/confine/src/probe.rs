//! What this kernel and this user allow, with the reason where something is missing.

use std::io::Write as _;

use rustix::mount::FsOpenFlags;

use crate::error::Step;
use crate::level::Level;
use crate::supervise::{INSIDE_ID, NAMESPACES};
use crate::sys::{self, Side};

/// What can be had here.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Support {
    /// Namespaces and private mounts; `Err` says what is in the way.
    pub namespaces: Result<(), String>,
    /// The version of landlock; `Err` says that there is none.
    pub landlock: Result<u32, String>,
    /// seccomp filters.
    pub seccomp: Result<(), String>,
}

impl Support {
    /// The strongest level that can be had, or why there is none.
    pub fn level(&self) -> Result<Level, String> {
        self.seccomp.clone()?;
        self.landlock.clone()?;
        Ok(if self.namespaces.is_ok() { Level::Full } else { Level::Landlock })
    }
}

/// Asks the kernel. Safe in a process with threads: what it tries, it tries in a child that only
/// makes system calls.
pub fn probe() -> Support {
    Support { namespaces: probe_namespaces(), landlock: probe_landlock(), seccomp: probe_seccomp() }
}

fn probe_seccomp() -> Result<(), String> {
    sys::filter_action_known(libc::SECCOMP_RET_KILL_PROCESS)
        .map_err(|errno| format!("the kernel has no seccomp filters: {errno}"))
}

fn probe_landlock() -> Result<u32, String> {
    match sys::landlock_version() {
        Ok(version) if version > 0 => Ok(version),
        Ok(_) => Err("the kernel has no landlock".to_owned()),
        Err(errno) => Err(format!("the kernel has no landlock, or it is not switched on: {errno}")),
    }
}

/// Exit codes of the child: what it failed at.
const WORKS: i32 = 0;

fn probe_namespaces() -> Result<(), String> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    match sys::fork() {
        Err(errno) => Err(format!("no process could be started: {errno}")),
        Ok(Side::Child) => {
            let failed = try_namespaces(user, group).err();
            sys::exit_now(failed.map_or(WORKS, |step| i32::from(step as u8) + 1))
        }
        Ok(Side::Parent(child)) => match sys::reap(Some(child)) {
            Ok(reaped) if reaped.status == WORKS => Ok(()),
            Ok(reaped) => Err(reason(reaped.status)),
            Err(errno) => Err(format!("the attempt was lost: {errno}")),
        },
    }
}

fn reason(status: i32) -> String {
    let code = libc::WEXITSTATUS(status);
    let step = Step::ALL.into_iter().find(|step| i32::from(*step as u8) + 1 == code);
    let step = step.map_or_else(|| "an attempt in a child".to_owned(), |step| step.to_string());
    format!(
        "{step} is not allowed here (see user.max_user_namespaces and the AppArmor rules for user namespaces)"
    )
}

/// Runs in a child of a process that may have threads: no allocation, no lock.
fn try_namespaces(user: u32, group: u32) -> Result<(), Step> {
    sys::unshare(NAMESPACES).map_err(|_| Step::Namespaces)?;
    write_file(c"/proc/self/setgroups", format_args!("deny")).ok_or(Step::IdMap)?;
    write_file(c"/proc/self/uid_map", format_args!("{INSIDE_ID} {user} 1")).ok_or(Step::IdMap)?;
    write_file(c"/proc/self/gid_map", format_args!("{INSIDE_ID} {group} 1")).ok_or(Step::IdMap)?;
    let context =
        rustix::mount::fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(|_| Step::MountRoot)?;
    rustix::mount::fsconfig_create(&context).map_err(|_| Step::MountRoot)
}

fn write_file(path: &std::ffi::CStr, text: std::fmt::Arguments<'_>) -> Option<()> {
    let mut buffer = [0_u8; 64];
    let mut rest = buffer.as_mut_slice();
    rest.write_fmt(text).ok()?;
    let free = rest.len();
    let length = buffer.len() - free;
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()?;
    let written = rustix::io::write(&file, &buffer[..length]).ok()?;
    (written == length).then_some(())
}
