//! The private root: a small tmpfs with the profile's mounts, three devices, `/tmp`, and nothing
//! else. No `/proc`, no `/sys`.
//!
//! Sources are opened as detached clones before anything is mounted, so no mount can redirect a
//! later one. Runs in the first process of the new namespaces.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags,
};

use crate::error::{ConfineError, Step};
use crate::profile::{Access, Profile};
use crate::sys;

/// Device nodes: what std, rustc and lld open. Their mounts are read-only, which does not keep a
/// device from being written to.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/urandom"];
/// Directories and empty files for mount points; nothing can be written to it afterwards.
const ROOT_BYTES: u64 = 1 << 20;

/// A detached mount and where it goes.
struct Clone {
    mount: OwnedFd,
    target: PathBuf,
    directory: bool,
}

/// Builds the root and makes it `/`.
pub(crate) fn enter_root(profile: &Profile) -> Result<(), ConfineError> {
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(ConfineError::at(Step::MountPropagation))?;
    let mut clones = Vec::new();
    for mount in &profile.mounts {
        clones.push(clone(&mount.source, &mount.target, flags(mount.access))?);
    }
    for device in DEVICES {
        let flags = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC | libc::MOUNT_ATTR_RDONLY;
        clones.push(clone(Path::new(device), Path::new(device), flags)?);
    }
    let root = new_tmpfs(ROOT_BYTES, "0755")?;
    attach(root.as_fd(), CWD, "/")?;
    add_scratch(profile, root.as_fd())?;
    for clone in &clones {
        make_target(root.as_fd(), clone).map_err(ConfineError::at(Step::MountTarget))?;
        attach(clone.mount.as_fd(), root.as_fd(), relative(&clone.target))?;
    }
    pivot(root.as_fd())
}

fn flags(access: Access) -> u64 {
    let write = if access.writable() { 0 } else { libc::MOUNT_ATTR_RDONLY };
    let load = if access.loadable() { 0 } else { libc::MOUNT_ATTR_NOEXEC };
    libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | write | load
}

fn clone(source: &Path, target: &Path, flags: u64) -> Result<Clone, ConfineError> {
    let open_flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let failed = |step| move |errno| ConfineError::Step { step, source: named(errno, source) };
    let mount = rustix::mount::open_tree(CWD, source, open_flags).map_err(failed(Step::MountSource))?;
    sys::set_mount_flags(mount.as_fd(), flags, true).map_err(failed(Step::MountFlags))?;
    let stat = rustix::fs::fstat(&mount).map_err(failed(Step::MountSource))?;
    let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
    Ok(Clone { mount, target: target.to_owned(), directory: kind.is_dir() })
}

/// The kernel's answer with the path that it is about.
fn named(errno: Errno, path: &Path) -> std::io::Error {
    let error = std::io::Error::from(errno);
    std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn new_tmpfs(bytes: u64, mode: &str) -> Result<OwnedFd, ConfineError> {
    let error = ConfineError::at;
    let context =
        rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(error(Step::MountContext))?;
    rustix::mount::fsconfig_set_string(context.as_fd(), "size", bytes.to_string())
        .and_then(|()| rustix::mount::fsconfig_set_string(context.as_fd(), "mode", mode))
        .and_then(|()| rustix::mount::fsconfig_create(context.as_fd()))
        .map_err(error(Step::MountSettings))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .map_err(error(Step::MountNew))
}

fn attach(
    mount: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    path: impl AsRef<Path>,
) -> Result<(), ConfineError> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", directory, path.as_ref(), flags)
        .map_err(ConfineError::at(Step::MountMove))
}

/// A target without its leading slash: below the new root's descriptor.
fn relative(target: &Path) -> &Path {
    target.strip_prefix("/").unwrap_or(target)
}

/// The directories above the mount point, and the mount point. What exists may be a part of an
/// earlier mount, whose content is the caller's; then it has to exist there.
fn make_target(root: BorrowedFd<'_>, clone: &Clone) -> Result<(), Errno> {
    let target = relative(&clone.target);
    let mut above: Vec<&Path> = target.ancestors().skip(1).filter(|path| *path != Path::new("")).collect();
    above.reverse();
    for directory in above {
        make_directory(root, directory)?;
    }
    if clone.directory {
        return make_directory(root, target);
    }
    match rustix::fs::openat(
        root,
        target,
        OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC,
        Mode::from_raw_mode(0o644),
    ) {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => exists_or(root, target, errno),
    }
}

fn make_directory(root: BorrowedFd<'_>, path: &Path) -> Result<(), Errno> {
    match rustix::fs::mkdirat(root, path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => exists_or(root, path, errno),
    }
}

/// A read-only mount answers EROFS before EEXIST.
fn exists_or(root: BorrowedFd<'_>, path: &Path, errno: Errno) -> Result<(), Errno> {
    rustix::fs::statat(root, path, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).map(|_| ()).map_err(|_| errno)
}

fn add_scratch(profile: &Profile, root: BorrowedFd<'_>) -> Result<(), ConfineError> {
    let scratch = new_tmpfs(profile.limits.scratch_bytes, "0700")?;
    make_directory(root, Path::new("tmp")).map_err(ConfineError::at(Step::MountTarget))?;
    attach(scratch.as_fd(), root, "tmp")
}

/// `/` becomes the new root; the old one is detached with everything in it.
fn pivot(root: BorrowedFd<'_>) -> Result<(), ConfineError> {
    let error = ConfineError::at;
    rustix::process::fchdir(root)
        .and_then(|()| rustix::process::pivot_root(".", "."))
        .map_err(error(Step::PivotRoot))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)
        .and_then(|()| rustix::process::chdir("/"))
        .map_err(error(Step::UnmountRoot))?;
    sys::set_mount_flags(root, libc::MOUNT_ATTR_RDONLY, false).map_err(error(Step::MountFlags))
}

/// `/dev/null` of the sandbox, or of the host at level landlock.
pub(crate) fn open_null() -> Result<File, ConfineError> {
    File::options()
        .read(true)
        .open("/dev/null")
        .map_err(|source| ConfineError::Step { step: Step::StandardInput, source })
}
