//! Mounts, namespaces, identities: what would change the sandbox itself.

use mfaas_confine::Layer::{Namespaces, Privileges, Seccomp};

use crate::stage::Stage;
use crate::table::Then::{Did, Further, Held};
use crate::table::Twin::{AsRoot, Looks, Namespaced, Outside};
use crate::table::{ABSENT, Probe, Went, denied, row};
use crate::{call, raw, text};

const SIGSYS: Went = Went::Killed;

/// Behind the filter the sandbox has no capability; with them it owns its namespaces and can.
const POWER: &[(&[mfaas_confine::Layer], crate::table::Then)] =
    &[(&[Seccomp], Held(&[libc::EPERM])), (&[Seccomp, Privileges], Further)];

pub(crate) const PROBES: &[Probe] = &[
    row("mount_tmpfs", "mounts something over its directory", mount_tmpfs, Namespaced, SIGSYS, POWER),
    row("mount_proc", "mounts /proc", |s| mount_kind(s, c"proc"), Namespaced, SIGSYS, POWER),
    row("remount_writable", "makes a read-only mount writable", remount, Namespaced, SIGSYS, POWER),
    row("bind_over_programs", "mounts its own files over the programs", bind, Namespaced, SIGSYS, POWER),
    row(
        "unmount",
        "takes a mount away",
        |_| call(libc::SYS_umount2, &[text(c"."), 0]),
        Looks(&[libc::EINVAL, libc::EPERM]),
        SIGSYS,
        POWER,
    ),
    row(
        "pivot",
        "changes the root",
        |_| call(libc::SYS_pivot_root, &[text(c"."), text(c".")]),
        Looks(&[libc::EINVAL, libc::EBUSY, libc::EPERM]),
        SIGSYS,
        POWER,
    ),
    row(
        "new_file_system",
        "opens a file system",
        |_| call(libc::SYS_fsopen, &[text(c"tmpfs"), 0]),
        Namespaced,
        SIGSYS,
        POWER,
    ),
    row(
        "clone_tree",
        "takes a mount by its descriptor",
        |_| call(libc::SYS_open_tree, &[AT_CWD, text(c"."), 1]),
        Namespaced,
        SIGSYS,
        POWER,
    ),
    denied(
        "move_tree",
        "moves a mount",
        |_| call(libc::SYS_move_mount, &[AT_CWD, text(c""), AT_CWD, text(c""), 0]),
        Looks(&[libc::ENOENT, libc::EPERM, libc::EINVAL]),
        SIGSYS,
    ),
    denied(
        "attach_mount",
        "makes a mount of a file system",
        |_| call(libc::SYS_fsmount, &[9999, 0, 0]),
        Looks(&[libc::EBADF, libc::EPERM]),
        ABSENT,
    ),
    denied(
        "configure_mount",
        "configures a file system",
        |_| call(libc::SYS_fsconfig, &[9999, 6, 0, 0, 0]),
        Looks(&[libc::EBADF, libc::EPERM]),
        ABSENT,
    ),
    denied(
        "pick_mount",
        "picks a mount to configure",
        |_| call(libc::SYS_fspick, &[AT_CWD, text(c"."), 9999]),
        Looks(&[libc::EINVAL, libc::EPERM]),
        ABSENT,
    ),
    denied(
        "mount_flags",
        "changes the flags of a mount",
        |_| call(libc::SYS_mount_setattr, &[AT_CWD, text(c"."), 0, 0, 32]),
        Looks(&[libc::EINVAL, libc::EFAULT, libc::EPERM]),
        ABSENT,
    ),
    denied(
        "list_mounts",
        "lists mounts by number",
        |_| call(458, &[0, 0, 0, 0]),
        Looks(&[libc::EFAULT, libc::EINVAL]),
        ABSENT,
    ),
    row("change_root", "changes its root", |_| call(libc::SYS_chroot, &[text(c"/")]), AsRoot, SIGSYS, POWER),
    row(
        "own_users",
        "makes a user namespace, in which it is root",
        |_| unshare(libc::CLONE_NEWUSER),
        Outside,
        SIGSYS,
        &[(&[Seccomp], Did)],
    ),
    row("own_mounts", "makes a mount namespace", |_| unshare(libc::CLONE_NEWNS), Namespaced, SIGSYS, POWER),
    row(
        "own_network",
        "makes a network namespace",
        |_| unshare(libc::CLONE_NEWNET),
        Namespaced,
        SIGSYS,
        POWER,
    ),
    row("own_pids", "makes a pid namespace", |_| unshare(libc::CLONE_NEWPID), Namespaced, SIGSYS, POWER),
    row("own_ipc", "makes an IPC namespace", |_| unshare(libc::CLONE_NEWIPC), Namespaced, SIGSYS, POWER),
    row("own_host_name", "makes a UTS namespace", |_| unshare(libc::CLONE_NEWUTS), Namespaced, SIGSYS, POWER),
    row(
        "own_groups",
        "makes a cgroup namespace",
        |_| unshare(libc::CLONE_NEWCGROUP),
        Namespaced,
        SIGSYS,
        POWER,
    ),
    row("own_time", "makes a time namespace", |_| unshare(0x80), Namespaced, SIGSYS, POWER),
    denied(
        "enter_namespace",
        "enters a namespace of another process",
        |_| call(libc::SYS_setns, &[9999, 0]),
        Looks(&[libc::EBADF]),
        SIGSYS,
    ),
    denied(
        "clone_user_namespace",
        "starts a process that is root in a namespace",
        |_| clone(libc::CLONE_NEWUSER),
        Outside,
        ABSENT,
    ),
    row(
        "clone_mount_namespace",
        "starts a process with mounts of its own",
        |_| clone(libc::CLONE_NEWNS),
        Namespaced,
        ABSENT,
        POWER,
    ),
    denied(
        "clone_as_sibling",
        "starts a process that is its parent's child",
        |_| clone(libc::CLONE_PARENT),
        Outside,
        ABSENT,
    ),
    denied(
        "clone_three",
        "starts a process with flags that no filter sees",
        |_| call(libc::SYS_clone3, &[0, 0]),
        Looks(&[libc::EINVAL, libc::EFAULT]),
        ABSENT,
    ),
    row(
        "become_root",
        "becomes user 0",
        |_| call(libc::SYS_setuid, &[0]),
        AsRoot,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EINVAL, libc::EPERM]))],
    ),
    row(
        "become_root_group",
        "becomes group 0",
        |_| call(libc::SYS_setgid, &[0]),
        AsRoot,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EINVAL, libc::EPERM]))],
    ),
    row(
        "become_all_three",
        "sets all its user ids",
        |_| call(libc::SYS_setresuid, &[0, 0, 0]),
        AsRoot,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EINVAL, libc::EPERM]))],
    ),
    row(
        "take_groups",
        "takes groups",
        |_| call(libc::SYS_setgroups, &[0, 0]),
        AsRoot,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EPERM]))],
    ),
    denied(
        "file_identity",
        "acts on files as another",
        |_| call(libc::SYS_setfsuid, &[usize::MAX]),
        Outside,
        ABSENT,
    ),
    row("take_capabilities", "takes capabilities", |_| take_capabilities(), AsRoot, ABSENT, POWER),
    row(
        "keep_capabilities",
        "keeps capabilities over an execution",
        |_| prctl(libc::PR_CAP_AMBIENT, 2, 0),
        Looks(&[libc::EPERM]),
        ABSENT,
        &[(&[Seccomp], Further), (&[Seccomp, Privileges], Further)],
    ),
    denied(
        "be_dumpable",
        "opens its memory to others",
        |_| prctl(libc::PR_SET_DUMPABLE, 1, 0),
        Outside,
        ABSENT,
    ),
    denied(
        "be_traced_by_all",
        "lets anybody trace it",
        |_| prctl(libc::PR_SET_MM, 9999, 0),
        Looks(&[libc::EINVAL, libc::EPERM]),
        ABSENT,
    ),
    denied(
        "forget_parent",
        "is not killed when its parent dies",
        |_| prctl(libc::PR_SET_PDEATHSIG, 0, 0),
        Outside,
        ABSENT,
    ),
    denied(
        "adopt_orphans",
        "becomes the parent of orphans",
        |_| prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0),
        Outside,
        ABSENT,
    ),
    denied(
        "secure_bits",
        "changes how root is treated",
        |_| prctl(libc::PR_SET_SECUREBITS, 0, 0),
        AsRoot,
        ABSENT,
    ),
    denied(
        "speculate",
        "switches protection from speculation off",
        |_| prctl(53, 9999, 0),
        Looks(&[libc::ENODEV, libc::EINVAL]),
        ABSENT,
    ),
    denied(
        "dispatch_calls",
        "redirects its system calls",
        |_| prctl(59, 9999, 0),
        Looks(&[libc::EINVAL]),
        ABSENT,
    ),
    row(
        "no_privileges_by_execution",
        "is one whom an execution can give privileges",
        |_| match raw(libc::SYS_prctl, [libc::PR_GET_NO_NEW_PRIVS as usize, 0, 0, 0, 0, 0])? {
            0 => Ok(()),
            _ => Err(libc::EPERM),
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EPERM])), (&[Seccomp, mfaas_confine::Layer::Landlock, Privileges], Did)],
    ),
    denied("keyring", "reads keys", |_| call(libc::SYS_keyctl, &[0, usize::MAX - 2, 1]), Outside, SIGSYS),
    denied(
        "add_key",
        "keeps a key for later",
        |_| call(libc::SYS_add_key, &[text(c"user"), text(c"mfaas"), text(c"x"), 1, usize::MAX - 1]),
        Outside,
        SIGSYS,
    ),
    denied(
        "request_key",
        "has the kernel ask for a key",
        |_| call(libc::SYS_request_key, &[text(c"user"), text(c"mfaas-absent"), 0, 0]),
        Looks(&[libc::ENOKEY]),
        SIGSYS,
    ),
    row(
        "host_name",
        "changes the machine's name",
        |_| call(libc::SYS_sethostname, &[text(c"x"), 1]),
        Namespaced,
        ABSENT,
        POWER,
    ),
    row(
        "domain_name",
        "changes the machine's domain",
        |_| call(libc::SYS_setdomainname, &[text(c"x"), 1]),
        Namespaced,
        ABSENT,
        POWER,
    ),
    row(
        "own_process_is_first",
        "sees that it is not alone in its pid namespace",
        |_| {
            if std::process::id() < 16 { Err(libc::ESRCH) } else { Ok(()) }
        },
        Outside,
        Went::Errno(libc::ESRCH),
        &[(&[Namespaces], Did)],
    )
    .weaker("process ids are the host's"),
];

const AT_CWD: usize = libc::AT_FDCWD as usize;

fn unshare(flag: libc::c_int) -> Result<(), i32> {
    call(libc::SYS_unshare, &[flag as usize])
}

fn prctl(option: libc::c_int, second: usize, third: usize) -> Result<(), i32> {
    call(libc::SYS_prctl, &[option as usize, second, third, 0, 0])
}

fn mount_tmpfs(stage: &Stage) -> Result<(), i32> {
    mount_kind(stage, c"tmpfs")
}

fn enter_scratch(stage: &Stage) -> Result<(), i32> {
    crate::std_errno(std::env::set_current_dir(&stage.scratch))
}

fn mount_kind(stage: &Stage, kind: &'static std::ffi::CStr) -> Result<(), i32> {
    enter_scratch(stage)?;
    call(libc::SYS_mount, &[text(c"none"), text(c"."), kind.as_ptr().addr(), 0, 0])
}

fn remount(stage: &Stage) -> Result<(), i32> {
    enter_scratch(stage)?;
    bind(stage)?;
    call(libc::SYS_mount, &[0, text(c"."), 0, (libc::MS_REMOUNT | libc::MS_BIND) as usize, 0])
        .or_else(|errno| if errno == libc::EPERM { Err(errno) } else { Ok(()) })
}

fn bind(stage: &Stage) -> Result<(), i32> {
    enter_scratch(stage)?;
    call(libc::SYS_mount, &[text(c"."), text(c"."), 0, libc::MS_BIND as usize, 0])
}

/// The child ends at once.
fn clone(flag: libc::c_int) -> Result<(), i32> {
    match raw(libc::SYS_clone, [(flag | libc::SIGCHLD) as usize, 0, 0, 0, 0, 0])? {
        // SAFETY: INV-CONFINE-2 holds emptily; the child has done nothing.
        0 => unsafe { libc::_exit(0) },
        _ => Ok(()),
    }
}

fn take_capabilities() -> Result<(), i32> {
    const VERSION: u32 = 0x2008_0522;
    let head = [VERSION, 0];
    // effective, permitted, inheritable of CAP_CHOWN.
    let sets = [1_u32, 1, 0, 0, 0, 0];
    call(libc::SYS_capset, &[head.as_ptr().addr(), sets.as_ptr().addr()])
}
