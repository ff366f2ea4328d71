//! System calls that a sandboxed process may make. What no row names does not exist for it.
//!
//! `mfaas-confine` compiles these rows for x86-64 alone: the i386 and x32 tables have other
//! numbers for the same names, so a call through them ends the process whatever its number is.

/// One row of a filter. A call passes if any row of its name lets it pass.
#[derive(Debug, Clone, Copy)]
pub struct SeccompRow {
    /// The name in the kernel's x86-64 table.
    pub name: &'static str,
    /// What happens to the call.
    pub rule: Rule,
    /// Why the row is needed.
    pub why: &'static str,
}

/// `base` and what `addition` allows besides. A call that `base` kills for and `addition` names is
/// judged by `addition`.
pub fn with(base: &[SeccompRow], addition: &[SeccompRow]) -> Vec<SeccompRow> {
    let added = |row: &&SeccompRow| addition.iter().any(|other| other.name == row.name);
    let kept = base.iter().filter(|row| !matches!(row.rule, Rule::Kill) || !added(row));
    // An unconditional row of the addition makes conditional ones of the base superfluous.
    let freed = |row: &&SeccompRow| {
        addition.iter().any(|other| other.name == row.name && matches!(other.rule, Rule::Allow))
    };
    kept.filter(|row| !freed(row)).chain(addition).copied().collect()
}

/// What a row does with a call of its name.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// It passes, whatever its arguments are.
    Allow,
    /// It passes if every check holds.
    AllowIf(&'static [Check]),
    /// The process is killed: nothing benign in this profile makes this call.
    Kill,
}

/// A condition on one argument of a call.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Which argument, from 0 to 5.
    pub argument: u8,
    /// What it must be.
    pub test: Test,
}

/// What an argument must be.
#[derive(Debug, Clone, Copy)]
pub enum Test {
    /// `argument & mask == value`.
    Masked {
        /// Which bits count.
        mask: u64,
        /// Their value.
        value: u64,
    },
    /// The id of the process that installs the filter.
    OwnProcess,
}

const fn is(argument: u8, value: u64) -> Check {
    Check { argument, test: Test::Masked { mask: u64::MAX, value } }
}

/// `argument` is an `int` or `unsigned int`: the kernel ignores its upper half.
const fn is_u32(argument: u8, value: u32) -> Check {
    Check { argument, test: Test::Masked { mask: u32::MAX as u64, value: value as u64 } }
}

const fn masked(argument: u8, mask: u64, value: u64) -> Check {
    Check { argument, test: Test::Masked { mask, value } }
}

const fn own_process(argument: u8) -> Check {
    Check { argument, test: Test::OwnProcess }
}

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
/// Every CLONE_NEW… flag, CLONE_PTRACE and CLONE_PARENT.
const CLONE_FOREIGN: u64 = 0x7e02_0000 | 0x80 | 0x2000 | 0x8000;
const CLONE_SHAPE: u64 = CLONE_FOREIGN | CLONE_VM | CLONE_VFORK | CLONE_THREAD;

const TCGETS: u32 = 0x5401;
const TIOCGWINSZ: u32 = 0x5413;
const FIONBIO: u32 = 0x5421;
const FIOCLEX: u32 = 0x5451;

const PR_SET_PDEATHSIG: u32 = 1;
const PR_SET_DUMPABLE: u32 = 4;
const PR_SET_NAME: u32 = 15;
const PR_SET_NO_NEW_PRIVS: u32 = 38;
const PR_SET_VMA: u32 = 0x5356_4d41;

const AF_UNIX: u32 = 1;

const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const MAP_ANONYMOUS: u64 = 0x20;

/// O_CREAT, and the bit of O_TMPFILE that is its own: with either the call has a mode.
const CREATES: u64 = 0o100 | 0o20_000_000;
/// Set-user-id and set-group-id.
const SETS_ID: u64 = 0o6000;

const SIGABRT: u32 = 6;
const SIGUSR1: u32 = 10;

const MADV_DONTNEED: u32 = 4;

/// Where the code of a worker's window begins.
pub const CODE_START: u64 = 256 << 20;
/// Where its constants begin.
pub const CONSTANTS_START: u64 = 2 << 30;
/// Less than that of them can be opened: it ends before what a function may write. A power of two.
pub const OPENED_BYTES_MAX: u64 = 1 << 30;
/// All code that can be opened: it ends before the assets, which are never code. Half of a GiB, and half of
/// that.
pub const CODE_BYTES_MAX: u64 = HALF_BYTES + QUARTER_BYTES;
const HALF_BYTES: u64 = 512 << 20;
const QUARTER_BYTES: u64 = 256 << 20;
/// Where the assets that functions read begin.
pub const ASSETS_START: u64 = 1 << 30;
/// Less than that of them can be opened: it ends before what a function may write. A power of two.
pub const ASSETS_BYTES_MAX: u64 = 256 << 20;

const F_DUPFD: u32 = 0;
const F_GETFD: u32 = 1;
const F_SETFD: u32 = 2;
const F_GETFL: u32 = 3;
const F_SETFL: u32 = 4;
const F_GETLK: u32 = 5;
const F_SETLK: u32 = 6;
const F_SETLKW: u32 = 7;
const F_DUPFD_CLOEXEC: u32 = 1030;
const F_ADD_SEALS: u32 = 1033;
const F_GET_SEALS: u32 = 1034;

macro_rules! rows {
    ($(#[$doc:meta])* $list:ident: $($why:literal: $($name:ident $(if [$($checks:expr),+])? $(=> $rule:ident)?),+;)*) => {
        $(#[$doc])*
        pub const $list: &[SeccompRow] = &[
            $($(SeccompRow { name: stringify!($name), rule: rows!(@rule $(if [$($checks),+])? $(=> $rule)?), why: $why }),+),*
        ];
    };
    (@rule) => { Rule::Allow };
    (@rule if [$($checks:expr),+]) => { Rule::AllowIf(&[$($checks),+]) };
    (@rule => Kill) => { Rule::Kill };
}

rows! {
    /// For rustc 1.95, rust-lld and the proc macros that rustc loads: many threads, files, one
    /// child process at a time. A test of `mfaas-confine` watches the compiler and finds rows that it
    /// has no use for; a row that was not seen there says `unseen` and why it stays. No sockets, no signals to others, no namespaces, no fork (a
    /// child shares its parent's memory until it executes something, which landlock limits to
    /// the toolchain). `clone3` is absent: its flags cannot be seen by a filter, and glibc falls
    /// back to `clone` when it does not exist.
    COMPILER:
    "memory": futex, madvise, munmap, brk;
    "unseen: a large block that grows is moved, which not every run has": mremap;
    "data": mmap if [masked(2, PROT_EXEC, 0)];
    "code comes from files, is never writable, and has been code from the start": mmap if [masked(2, PROT_WRITE | PROT_EXEC, PROT_EXEC), masked(3, MAP_ANONYMOUS, 0)],
        mprotect if [masked(2, PROT_EXEC, 0)];
    "files that are there, within what landlock and the mounts leave": openat if [masked(2, CREATES, 0)], open if [masked(1, CREATES, 0)];
    "new files, none of which sets the user or group of its executor": openat if [masked(3, SETS_ID, 0)];
    "unseen: new files by the old call": open if [masked(2, SETS_ID, 0)];
    "what is opened": read, write, close, lseek, pread64, fstat, getdents64, ftruncate, flock, dup2, pipe2, poll;
    "names of files": newfstatat, stat, lstat, statx, readlink, access, rename, unlink, unlinkat, mkdir, linkat, getcwd;
    "flags of a descriptor": fcntl if [is_u32(1, F_SETFD)], fcntl if [is_u32(1, F_GETFL)], fcntl if [is_u32(1, F_SETFL)];
    "unseen: std duplicates a descriptor, and looks at one": fcntl if [is_u32(1, F_GETFD)], fcntl if [is_u32(1, F_DUPFD_CLOEXEC)];
    "is it a terminal, how wide; non-blocking": ioctl if [is_u32(1, TCGETS)], ioctl if [is_u32(1, TIOCGWINSZ)], ioctl if [is_u32(1, FIONBIO)];
    "a thread": clone if [masked(0, CLONE_SHAPE, CLONE_VM | CLONE_THREAD)];
    "the linker, by posix_spawn": clone if [masked(0, CLONE_SHAPE, CLONE_VM | CLONE_VFORK)];
    "start of a program": execve, arch_prctl, set_tid_address, set_robust_list, rseq;
    "names of threads": prctl if [is_u32(0, PR_SET_NAME)];
    "end of a thread, of a process, waiting for the linker": exit, exit_group, wait4;
    "signal handlers and their stacks": rt_sigaction, rt_sigprocmask, rt_sigreturn, sigaltstack;
    "rustc's job server wakes its helper thread": tgkill if [own_process(0), is_u32(2, SIGUSR1)];
    "limits are read, never set": prlimit64 if [is_u32(0, 0), is(2, 0)];
    "a thread that has nothing to do": sched_yield;
    "what machine this is": sched_getaffinity;
    "unseen: how much memory there is": sysinfo;
    "who am I": getpid, gettid;
    "keys of hash maps": getrandom;
    "unseen: the sandbox's own last step, into the directory that the program starts in": chdir;
    "unseen: abort, after a crash": tgkill if [own_process(0), is_u32(2, SIGABRT)];
    "unseen: a clock that the vDSO cannot read here": clock_gettime, clock_getres, gettimeofday;
    "unseen: std and LLVM wait for another process's lock, or back off": clock_nanosleep, nanosleep;
    "unseen: the kernel itself continues a wait so": restart_syscall;
    "unseen: a file that cannot be linked is copied": copy_file_range, sendfile, fchmod if [masked(1, SETS_ID, 0)];
    "unseen: std and LLVM write several buffers at once, or at a position": readv, writev, pwrite64;
    "unseen: LLVM's and lld's files that are mapped, and room for them": msync, fallocate, fadvise64;
    "unseen: rustc's temporary and incremental directories": rmdir, mkdirat, link, renameat, renameat2, readlinkat, faccessat,
        faccessat2;
    "unseen: other versions of the C library and of std": ppoll, waitid, dup, dup3, fcntl if [is_u32(1, F_DUPFD)],
        ioctl if [is_u32(1, FIOCLEX)], prctl if [is_u32(0, PR_SET_VMA)], membarrier, getrlimit, getcpu;
    "an attack: reaching into another process": ptrace => Kill, process_vm_readv => Kill, process_vm_writev => Kill,
        pidfd_getfd => Kill;
    "an attack: changing the sandbox": mount => Kill, umount2 => Kill, pivot_root => Kill, unshare => Kill, setns => Kill,
        open_tree => Kill, move_mount => Kill, fsopen => Kill, chroot => Kill;
    "an attack: parts of the kernel with a history": bpf => Kill, perf_event_open => Kill, keyctl => Kill, add_key => Kill,
        request_key => Kill, io_uring_setup => Kill, userfaultfd => Kill, init_module => Kill, finit_module => Kill,
        kexec_load => Kill;
    "an attack: the network": socket => Kill, socketpair => Kill;
}

rows! {
    /// What the trusted job that builds the dependency cache needs besides: cargo, gcc as its linker,
    /// build scripts. No tenant's source is near it.
    DEPENDENCY_BUILD:
    "gcc's driver, shells and build scripts fork": vfork, fork, clone if [masked(0, CLONE_FOREIGN, 0)];
    "a file's mode, without power": chmod if [masked(1, SETS_ID, 0)], fchmodat if [masked(2, SETS_ID, 0)],
        creat if [masked(1, SETS_ID, 0)];
    "cargo and its database keep files for good, and their times": fsync, fdatasync, utimensat, statfs, fstatfs, umask;
    "who and where am I": uname, getppid, getuid, geteuid, getgid, getegid, getrusage, times;
    "cargo talks to the programs that it starts": socketpair if [is_u32(0, AF_UNIX)], recvfrom, recvmsg, sendto, sendmsg,
        shutdown, pidfd_open, pidfd_send_signal, pipe, epoll_create1, epoll_ctl, epoll_wait, eventfd2;
    "cargo locks its databases": fcntl if [is_u32(1, F_GETLK)], fcntl if [is_u32(1, F_SETLK)], fcntl if [is_u32(1, F_SETLKW)];
    "programs end their own children, and abort": kill, tgkill;
    "shells, build scripts and gcc": symlink, symlinkat, getpgrp, getgroups, getxattr, lgetxattr, fgetxattr,
        pwritev, preadv, truncate;
}

rows! {
    /// What a worker needs besides, until it has locked itself down, for the throw-away load at the
    /// end of an inspection.
    THROWAWAY_LOAD:
    "the image's code, written and then made code": mprotect;
    "locking itself down": seccomp, prctl if [is_u32(0, PR_SET_NO_NEW_PRIVS)], prctl if [is_u32(0, PR_SET_DUMPABLE)];
    "ending with the process that started it": prctl if [is_u32(0, PR_SET_PDEATHSIG)];
    "the sealed copy of an image": memfd_create, fcntl if [is_u32(1, F_ADD_SEALS)], fcntl if [is_u32(1, F_GET_SEALS)];
    "the backup tick of the budget": timer_create, timer_settime, timer_delete;
}

rows! {
    /// For the loader. It makes slabs, reads images, links them, and answers; a call without a row ends
    /// it.
    LOADER:
    "the node's requests, with the images as descriptors": recvmsg, sendmsg, close;
    "the sealed copy of an image, read": fstat, pread64, fcntl if [is_u32(1, F_GET_SEALS)];
    "a slab: memory of a fixed size, sealed against others who would write it": memfd_create, ftruncate, fcntl if [is_u32(1, F_ADD_SEALS)];
    "std asks whether a descriptor is open before it closes it, with debug assertions": fcntl if [is_u32(1, F_GETFD)];
    "memory to work in": mmap if [masked(2, PROT_EXEC, 0)], munmap, mremap, brk, madvise, futex;
    "what it has to say before it ends": write;
    "a wait that a stopped and continued loader resumes": restart_syscall;
    "the end": exit_group, rt_sigreturn, sigaltstack;
}

rows! {
    /// For a worker after it has mapped its slab. A call without a row becomes SIGSYS, whose
    /// handler ends the invocation.
    WORKER:
    "waiting for the ring and waking its peer": futex;
    "letting others have the core while it looks for the next call": sched_yield;
    "the CPU time of a call, which only the kernel knows": clock_gettime;
    "wiping large arenas and stacks": madvise if [is_u32(2, MADV_DONTNEED)];
    "code that was readied becomes executable": mprotect if [is(0, CODE_START), masked(1, !(HALF_BYTES - 1), 0), is(2, PROT_READ | PROT_EXEC)];
    "code that was readied behind the first half of a GiB": mprotect if [is(0, CODE_START), masked(1, !(QUARTER_BYTES - 1), HALF_BYTES), is(2, PROT_READ | PROT_EXEC)];
    "all code, when the bank is full": mprotect if [is(0, CODE_START), is(1, CODE_BYTES_MAX), is(2, PROT_READ | PROT_EXEC)];
    "assets that were written become readable": mprotect if [is(0, ASSETS_START), masked(1, !(ASSETS_BYTES_MAX - 1), 0), is(2, PROT_READ)];
    "constants that were readied become readable": mprotect if [is(0, CONSTANTS_START), masked(1, !(OPENED_BYTES_MAX - 1), 0), is(2, PROT_READ)];
    "random bytes for the function": getrandom;
    "return from the handlers that end an invocation": rt_sigreturn;
    "a wait that a stopped and continued worker resumes": restart_syscall;
    "the end": exit_group;
}
