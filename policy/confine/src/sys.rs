//! System calls without a safe interface. Each function is one of them.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;

type Result<T> = std::result::Result<T, Errno>;

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

fn check(result: libc::c_long) -> Result<()> {
    if result == -1 { Err(last_errno()) } else { Ok(()) }
}

/// Which side of a fork this is.
pub(crate) enum Side {
    Child,
    Parent(Pid),
}

/// Forks. The child is a full copy: it may allocate only if the parent had a single thread.
pub(crate) fn fork() -> Result<Side> {
    // SAFETY: INV-CONFINE-1: one thread.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => Ok(Side::Child),
        // The failure first: no number below 0 becomes an id.
        -1 => Err(last_errno()),
        pid => Pid::from_raw(pid).map(Side::Parent).ok_or(Errno::INVAL),
    }
}

/// Ends the process at once: no destructors, no buffers. For children of a fork.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: takes no pointer and does not return (INV-CONFINE-2 is void).
    unsafe { libc::_exit(code) }
}

/// Leaves the namespaces named by `CLONE_NEW…` flags for new ones.
pub(crate) fn unshare(flags: libc::c_int) -> Result<()> {
    // SAFETY: INV-CONFINE-2 holds emptily: it takes no pointer. Descriptors stay shared, since
    // CLONE_FILES is never given.
    check(unsafe { libc::unshare(flags) }.into())
}

/// Sets `MOUNT_ATTR_…` flags of a mount, and of those below it if `recursive`.
pub(crate) fn set_mount_flags(mount: BorrowedFd<'_>, flags: u64, recursive: bool) -> Result<()> {
    let attributes = libc::mount_attr { attr_set: flags, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let at_flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    let empty: &CStr = c"";
    // SAFETY: INV-CONFINE-2: path and attributes live until the call returns; the size is theirs.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            empty.as_ptr(),
            at_flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })
}

/// Marks every descriptor from `first` on to be closed when a program is executed.
pub(crate) fn close_on_exec_from(first: u32) -> Result<()> {
    // SAFETY: takes no pointer, and closes nothing while this program runs (INV-CONFINE-3).
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })
}

/// Installs a filter for the calling thread and its children.
pub(crate) fn install_filter(program: &[libc::sock_filter]) -> Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: INV-CONFINE-2: the kernel reads `len` instructions from a slice of that length and
    // writes none.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) })
}

/// Sets class and priority of a thread.
pub(crate) fn set_scheduler(thread: Pid, policy: libc::c_int, priority: libc::c_int) -> Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: INV-CONFINE-2: the kernel reads a parameter that lives until the call returns.
    check(
        unsafe { libc::sched_setscheduler(thread.as_raw_nonzero().get(), policy, &raw const parameters) }
            .into(),
    )
}

/// How a process ended, and what it and the children it waited for have used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaped {
    pub(crate) pid: i32,
    /// As from `wait(2)`.
    pub(crate) status: i32,
    pub(crate) cpu: Duration,
    pub(crate) max_rss_bytes: u64,
}

/// Waits for a child; `None` = any. ECHILD when there is none left.
pub(crate) fn reap(pid: Option<Pid>) -> Result<Reaped> {
    let mut status = 0;
    // SAFETY: INV-CONFINE-2. An all-zero rusage is a valid value: it consists of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let which = pid.map_or(-1, |pid| pid.as_raw_nonzero().get());
    loop {
        // SAFETY: INV-CONFINE-2: both results live in this frame.
        let reaped = unsafe { libc::wait4(which, &raw mut status, libc::__WALL, &raw mut usage) };
        if reaped > 0 {
            let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
            let max_rss_bytes = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
            return Ok(Reaped { pid: reaped, status, cpu, max_rss_bytes });
        }
        let errno = last_errno();
        if errno != Errno::INTR {
            return Err(errno);
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u32::try_from(time.tv_usec).unwrap_or(0).min(999_999);
    Duration::new(seconds, micros * 1000)
}
