//! Files of the host, and code from where there is only data.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};

use mfaas_confine::Layer::{Landlock, Limits, Namespaces, Privileges, Seccomp};

use crate::runs::{ATTEMPT, NOTHING};
use crate::stage::Stage;
use crate::table::Then::{Did, Further, Held};
use crate::table::Twin::{AsRoot, Looks, Outside};
use crate::table::{ABSENT, Probe, Went, denied, hidden, row};
use crate::{call, std_errno, text};

const NAMES: &str = "landlock governs opening, not asking for a name";
const MAPS: &str = "landlock has no say over mapping a file as code; the mount's noexec has";

pub(crate) const PROBES: &[Probe] = &[
    hidden("read_secret_0600", "reads the user's own key file", |s| read(s, "secret"), Outside),
    hidden("read_secret_0644", "reads a key file left open to all", |s| read(s, "public"), Outside),
    hidden("read_passwd", "reads a file of the system", |_| open("/etc/passwd"), Outside),
    hidden("read_machine", "reads what names the machine", |_| open("/etc/hostname"), Outside),
    hidden("proc_self_status", "reads its own process", |_| open("/proc/self/status"), Outside),
    hidden("proc_self_maps", "reads where its memory lies", |_| open("/proc/self/maps"), Outside),
    hidden(
        "proc_self_root",
        "walks to the root by way of itself",
        |_| open("/proc/self/root/etc/passwd"),
        Outside,
    ),
    hidden("proc_self_mem", "writes to its own code", |_| open_to_write("/proc/self/mem"), Outside),
    hidden("proc_self_environ", "reads its own start", |_| open("/proc/self/environ"), Outside),
    hidden("proc_init", "reads of the machine's first process", |_| open("/proc/1/status"), Outside),
    hidden("proc_kallsyms", "reads the kernel's addresses", |_| open("/proc/kallsyms"), Outside),
    hidden("proc_mountinfo", "reads what is mounted", |_| open("/proc/self/mountinfo"), Outside),
    hidden(
        "core_pattern",
        "makes the kernel run a program of its choice",
        |_| open_to_write("/proc/sys/kernel/core_pattern"),
        AsRoot,
    ),
    hidden(
        "drop_caches",
        "has the kernel forget what it knows",
        |_| open_to_write("/proc/sys/vm/drop_caches"),
        AsRoot,
    ),
    hidden("sysfs", "reads devices", |_| open("/sys/kernel/notes"), Outside),
    hidden("cgroupfs", "lists control groups", |_| list("/sys/fs/cgroup"), Outside),
    hidden("list_host_root", "lists the host's /usr", |_| list("/usr"), Outside),
    hidden("kernel_log", "reads the kernel's log", |_| open("/dev/kmsg"), AsRoot),
    hidden("terminals", "makes a terminal", |_| open_to_write("/dev/ptmx"), Outside),
    hidden(
        "shared_memory_files",
        "writes where all users may",
        |_| write_new("/dev/shm/mfaas-escape"),
        Outside,
    ),
    hidden("climb", "climbs out by ..", |_| open("../../../../../../../../etc/passwd"), Outside),
    hidden("climb_from_mount", "climbs out of a mount by ..", |s| read_at(s, "../host/public"), Outside),
    hidden("absolute_link", "follows a link that lies in its directory", |s| read_at(s, "absolute"), Outside),
    hidden("relative_link", "follows a link with ..", |s| read_at(s, "relative"), Outside),
    hidden("linked_directory", "follows a link in the middle", |s| read_at(s, "directory/secret"), Outside),
    row(
        "link_swap",
        "exchanges a file for a link while it is opened",
        link_swap,
        Outside,
        Went::Errno(libc::EACCES),
        &[
            (&[Landlock], Held(&[libc::ENOENT])),
            (&[Namespaces], Held(&[libc::EACCES])),
            (&[Namespaces, Landlock], Did),
        ],
    ),
    row(
        "path_handle",
        "takes hold of a file without opening it",
        path_handle,
        Outside,
        Went::Errno(libc::ENOENT),
        &[(&[Namespaces], Did)],
    )
    .weaker(NAMES),
    row(
        "see_names",
        "asks whether a file is there",
        |s| std_errno(fs::metadata(s.host.join("secret"))).map(drop),
        Outside,
        Went::Errno(libc::ENOENT),
        &[(&[Namespaces], Did)],
    )
    .weaker(NAMES),
    row(
        "change_directory",
        "makes a directory of the host its own",
        |_| std_errno(std::env::set_current_dir("/etc")),
        Outside,
        Went::Errno(libc::ENOENT),
        &[(&[Namespaces], Did)],
    )
    .weaker(NAMES),
    row(
        "hard_link_in",
        "links a key file into its directory",
        |s| std_errno(fs::hard_link(s.host.join("secret"), s.scratch.join(unique("link")))),
        Outside,
        Went::Errno(libc::ENOENT),
        &[(&[Namespaces], Held(&[libc::EACCES, libc::EXDEV])), (&[Namespaces, Landlock], Did)],
    ),
    row(
        "rename_out",
        "moves a file out of its directory",
        |s| {
            fs::write(s.scratch.join("moving"), "x").unwrap();
            std_errno(fs::rename(s.scratch.join("moving"), s.host.join("moved")))
        },
        Outside,
        Went::Errno(libc::ENOENT),
        &[(&[Namespaces], Held(&[libc::EACCES, libc::EXDEV])), (&[Namespaces, Landlock], Did)],
    ),
    row(
        "write_read_only",
        "writes to what it may read",
        |s| open_to_write(s.readable.join("file").to_str().unwrap()),
        Outside,
        Went::Errno(libc::EROFS),
        &[(&[Namespaces], Held(&[libc::EACCES])), (&[Namespaces, Landlock], Did)],
    ),
    row(
        "create_read_only",
        "makes a file where it may read",
        |s| write_new(s.readable.join("new").to_str().unwrap()),
        Outside,
        Went::Errno(libc::EROFS),
        &[(&[Namespaces], Held(&[libc::EACCES])), (&[Namespaces, Landlock], Did)],
    ),
    row(
        "write_root",
        "makes a file in the root of the sandbox",
        |_| write_new("/mfaas-escape"),
        AsRoot,
        Went::Errno(libc::EROFS),
        &[(&[Landlock], Held(&[libc::EROFS])), (&[Namespaces, Landlock], Further)],
    ),
    row(
        "mode_of_read_only",
        "changes the mode of what it may read",
        |s| mode(s.readable.join("file"), 0o640),
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EROFS])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "mode_of_host_file",
        "opens a key file to all",
        |s| mode(s.host.join("public"), 0o644),
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ENOENT])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "times_of_host_file",
        "sets the time of a key file",
        |s| {
            let path = std::ffi::CString::new(s.host.join("public").to_str().unwrap()).unwrap();
            call(libc::SYS_utimensat, &[AT_CWD, path.as_ptr().addr(), 0, 0])
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ENOENT])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "set_user_id",
        "leaves a set-user-id program behind",
        set_user_id,
        Outside,
        ABSENT,
        &[(&[Seccomp], Did)],
    ),
    row(
        "set_user_id_at_birth",
        "makes a set-user-id file at once",
        |s| {
            let path = s.scratch.join(unique("born"));
            let opened = OpenOptions::new().write(true).create_new(true).mode(0o4755).open(&path);
            std_errno(opened)?;
            let born = fs::metadata(&path).unwrap().permissions().mode();
            if born & 0o4000 == 0 { Err(libc::EPERM) } else { Ok(()) }
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Did)],
    ),
    row(
        "execute_written",
        "executes what it could have written",
        |s| execute(s.scratch.join("program")),
        Outside,
        Went::Errno(libc::EACCES),
        &[
            (&[Landlock], Held(&[libc::EACCES])),
            (&[Namespaces], Held(&[libc::EACCES])),
            (&[Namespaces, Landlock], Did),
        ],
    ),
    row(
        "map_written",
        "maps what it could have written as code",
        |s| map_file(s, "program"),
        Outside,
        Went::Errno(libc::EPERM),
        &[(&[Landlock], Held(&[libc::EPERM])), (&[Namespaces], Did)],
    )
    .weaker(MAPS),
    row(
        "map_data",
        "maps read-only data as code",
        |s| {
            let file = std_errno(File::open(s.readable.join("file")))?;
            map(file.as_raw_fd(), libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE)
        },
        Outside,
        Went::Errno(libc::EPERM),
        &[(&[Namespaces], Did)],
    )
    .weaker(MAPS),
    denied(
        "map_writable_code",
        "maps memory that is writable and code",
        |_| map(-1, libc::PROT_WRITE | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
        Outside,
        ABSENT,
    ),
    denied(
        "map_anonymous_code",
        "maps memory without a file as code",
        |_| map(-1, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
        Outside,
        ABSENT,
    ),
    denied("make_code", "makes written memory code", |_| make_code(libc::SYS_mprotect), Outside, ABSENT),
    denied(
        "make_code_with_key",
        "makes written memory code, with a key",
        |_| make_code(libc::SYS_pkey_mprotect),
        Outside,
        ABSENT,
    ),
    denied("execute_memory", "executes a file that has no name", |_| execute_memory(), Outside, ABSENT),
    denied(
        "execute_at",
        "executes by descriptor",
        |_| call(libc::SYS_execveat, &[usize::MAX, text(c""), 0, 0, libc::AT_EMPTY_PATH as usize]),
        Looks(&[libc::EBADF, libc::EFAULT]),
        ABSENT,
    ),
    denied(
        "read_implies_code",
        "makes all readable memory code",
        |_| {
            const READ_IMPLIES_EXEC: usize = 0x40_0000;
            call(libc::SYS_personality, &[READ_IMPLIES_EXEC])
        },
        Outside,
        ABSENT,
    ),
    row(
        "open_by_handle",
        "opens a file by its number, past every directory",
        |_| open_by_handle(),
        AsRoot,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EPERM]))],
    ),
    denied(
        "name_to_handle",
        "asks for a file's number",
        |_| {
            let mut handle = [128_u32, 0, 0, 0].repeat(10);
            let mut mount = 0_i32;
            let handle = handle.as_mut_ptr().addr();
            call(libc::SYS_name_to_handle_at, &[AT_CWD, text(c"."), handle, (&raw mut mount).addr(), 0])
        },
        Outside,
        ABSENT,
    ),
    denied("open_beneath", "opens by rules of its own", open_two, Outside, ABSENT),
    denied(
        "make_device",
        "makes a device",
        |s| {
            std_errno(std::env::set_current_dir(&s.scratch))?;
            let _ = fs::remove_file("device");
            call(libc::SYS_mknodat, &[AT_CWD, text(c"device"), 0o20600, 0x101])
        },
        AsRoot,
        ABSENT,
    ),
    denied(
        "make_pipe_file",
        "makes a pipe with a name",
        |s| {
            std_errno(std::env::set_current_dir(&s.scratch))?;
            let _ = fs::remove_file("pipe-file");
            call(libc::SYS_mknodat, &[AT_CWD, text(c"pipe-file"), 0o10600, 0])
        },
        Outside,
        ABSENT,
    ),
    denied(
        "make_link",
        "makes a link that another process may follow",
        |s| std_errno(std::os::unix::fs::symlink("/etc/shadow", s.scratch.join(unique("symlink")))),
        Outside,
        ABSENT,
    ),
    denied(
        "give_away",
        "gives a file to another owner",
        |s| std_errno(std::os::unix::fs::chown(s.scratch.join("plain"), None, None)),
        Outside,
        ABSENT,
    ),
    denied(
        "attributes",
        "writes an extended attribute",
        |s| {
            std_errno(std::env::set_current_dir(&s.scratch))?;
            call(libc::SYS_setxattr, &[text(c"plain"), text(c"user.mfaas"), text(c"x"), 1, 0])
        },
        Outside,
        ABSENT,
    ),
    row(
        "long_file",
        "writes a file of any size",
        |s| {
            let file = std_errno(File::create(s.scratch.join(unique("long"))))?;
            std_errno(file.write_all_at(b"x", 4 << 20))
        },
        Outside,
        Went::Signal(libc::SIGXFSZ),
        &[(&[Limits], Did)],
    ),
    row(
        "fill_memory_by_files",
        "fills memory through /tmp",
        |_| {
            let mut name = String::from("/tmp/fill");
            for _ in 0..4 {
                name.push('x');
                std_errno(File::create(&name).and_then(|mut file| file.write_all(&vec![1; 900 << 10])))?;
            }
            (1..=4)
                .try_for_each(|count| std_errno(fs::remove_file(format!("/tmp/fill{}", "x".repeat(count)))))
        },
        Outside,
        Went::Errno(libc::ENOSPC),
        &[(&[Namespaces], Held(&[libc::EACCES])), (&[Namespaces, Landlock, Limits], Did)],
    ),
    denied(
        "watch_files",
        "watches files of others",
        |_| call(libc::SYS_inotify_init1, &[0]),
        Outside,
        ABSENT,
    ),
    denied("watch_system", "watches every file", |_| call(libc::SYS_fanotify_init, &[0, 0]), AsRoot, ABSENT),
    denied(
        "lease",
        "makes others wait for a file",
        |s| {
            const F_SETLEASE: usize = 1024;
            let file = std_errno(File::open(s.scratch.join("plain")))?;
            call(libc::SYS_fcntl, &[file.as_raw_fd() as usize, F_SETLEASE, libc::F_RDLCK as usize])
        },
        Outside,
        ABSENT,
    ),
    denied(
        "signals_by_file",
        "has the kernel send signals to another",
        |s| {
            const F_SETOWN: usize = 8;
            call(libc::SYS_fcntl, &[1, F_SETOWN, s.victim])
        },
        Outside,
        ABSENT,
    ),
    row(
        "quota_of_descriptors",
        "opens descriptors without end",
        |_| {
            let held: Result<Vec<File>, i32> = (0..200).map(|_| std_errno(File::open("/dev/null"))).collect();
            held.map(drop)
        },
        Outside,
        Went::Errno(libc::EMFILE),
        &[(&[Limits], Did)],
    ),
    row(
        "privileged_program",
        "becomes another by a set-user-id program",
        |_| privileged_program(),
        Outside,
        Went::Errno(libc::EPERM),
        &[(&[Seccomp], Held(&[libc::EPERM])), (&[Seccomp, Privileges], Did)],
    ),
];

const AT_CWD: usize = libc::AT_FDCWD as usize;

fn unique(name: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{name}-{}-{}", std::process::id(), now.as_nanos())
}

fn open(path: &str) -> Result<(), i32> {
    std_errno(File::open(path)).map(drop)
}

fn read(stage: &Stage, name: &str) -> Result<(), i32> {
    let found = std_errno(fs::read_to_string(stage.host.join(name)))?;
    if found == crate::stage::CANARY { Ok(()) } else { Err(libc::EIO) }
}

fn read_at(stage: &Stage, name: &str) -> Result<(), i32> {
    let found = std_errno(fs::read_to_string(stage.scratch.join(name)))?;
    if found == crate::stage::CANARY { Ok(()) } else { Err(libc::EIO) }
}

fn open_to_write(path: &str) -> Result<(), i32> {
    std_errno(OpenOptions::new().write(true).open(path)).map(drop)
}

fn write_new(path: &str) -> Result<(), i32> {
    let _ = fs::remove_file(path);
    std_errno(OpenOptions::new().write(true).create_new(true).open(path))?;
    std_errno(fs::remove_file(path))
}

fn list(path: &str) -> Result<(), i32> {
    std_errno(fs::read_dir(path)).map(drop)
}

fn mode(path: std::path::PathBuf, mode: u32) -> Result<(), i32> {
    std_errno(fs::set_permissions(path, fs::Permissions::from_mode(mode)))
}

/// The link points to the host; whoever opens the name sees the file or the link's target.
fn link_swap(stage: &Stage) -> Result<(), i32> {
    let (file, link) = (stage.scratch.join("plain"), stage.scratch.join("absolute"));
    let path = |path: &std::path::Path| std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let (first, second) = (path(&file), path(&link));
    let mut last = Err(libc::EIO);
    // An even number, so that all lies as it lay.
    for _ in 0..20 {
        const EXCHANGE: usize = 2;
        call(
            libc::SYS_renameat2,
            &[AT_CWD, first.as_ptr().addr(), AT_CWD, second.as_ptr().addr(), EXCHANGE],
        )?;
        last = match (fs::read_to_string(&file), last) {
            (Ok(text), _) if text == crate::stage::CANARY => Ok(()),
            (Err(error), Err(_)) => Err(error.raw_os_error().unwrap_or(libc::EIO)),
            (_, last) => last,
        };
    }
    last
}

fn path_handle(stage: &Stage) -> Result<(), i32> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(stage.host.join("secret"));
    std_errno(file).map(drop)
}

fn set_user_id(stage: &Stage) -> Result<(), i32> {
    let path = stage.scratch.join(unique("program"));
    std_errno(File::create(&path))?;
    mode(path.clone(), 0o4755)?;
    let now = fs::metadata(&path).unwrap().permissions().mode();
    if now & 0o4000 == 0 { Err(libc::EPERM) } else { Ok(()) }
}

/// Replaces this process by one that does nothing.
fn execute(path: std::path::PathBuf) -> Result<(), i32> {
    use std::os::unix::process::CommandExt;
    let stage = std::env::args().nth(3).unwrap_or_default();
    Err(std::process::Command::new(path)
        .args([ATTEMPT, NOTHING, &stage])
        .exec()
        .raw_os_error()
        .unwrap_or(libc::EIO))
}

fn map(file: i32, protection: i32, flags: i32) -> Result<(), i32> {
    call(libc::SYS_mmap, &[0, 4096, protection as usize, flags as usize, file as usize, 0])
}

fn map_file(stage: &Stage, name: &str) -> Result<(), i32> {
    let file = std_errno(File::open(stage.scratch.join(name)))?;
    map(file.as_raw_fd(), libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE)
}

fn make_code(number: libc::c_long) -> Result<(), i32> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let page = crate::raw(libc::SYS_mmap, [0, 4096, libc::PROT_WRITE as usize, flags, usize::MAX, 0])?;
    call(number, &[page, 4096, (libc::PROT_READ | libc::PROT_EXEC) as usize, usize::MAX])
}

fn execute_memory() -> Result<(), i32> {
    let file = crate::raw(libc::SYS_memfd_create, [text(c"program"), 0, 0, 0, 0, 0])?;
    let script = b"#!/absent";
    call(libc::SYS_write, &[file, script.as_ptr().addr(), script.len()])?;
    // The kernel looks for the interpreter: it was about to execute.
    match call(libc::SYS_execveat, &[file, text(c""), 0, 0, libc::AT_EMPTY_PATH as usize]) {
        Err(libc::ENOENT) => Ok(()),
        other => other,
    }
}

fn open_by_handle() -> Result<(), i32> {
    // Eight bytes of a kind, which lead nowhere: EPERM comes before ESTALE.
    let handle = [8_u32, 1, 0, 0];
    match call(libc::SYS_open_by_handle_at, &[AT_CWD, handle.as_ptr().addr(), 0]) {
        Err(libc::EINVAL | libc::ESTALE | libc::EBADF) => Ok(()),
        other => other,
    }
}

fn open_two(stage: &Stage) -> Result<(), i32> {
    std_errno(std::env::set_current_dir(&stage.scratch))?;
    let how = [0_u64; 3];
    call(libc::SYS_openat2, &[AT_CWD, text(c"."), how.as_ptr().addr(), size_of_val(&how)])
}

/// Whether an execution could give this process the power to change its user.
fn privileged_program() -> Result<(), i32> {
    const CAP_SETUID: libc::c_ulong = 7;
    // SAFETY: INV-CONFINE-2 holds emptily: the call takes no pointer.
    let sets = unsafe { libc::prctl(libc::PR_CAPBSET_READ, CAP_SETUID) };
    if sets == 1 { Ok(()) } else { Err(libc::EPERM) }
}
