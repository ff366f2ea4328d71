//! Other machines and other processes.

use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use mfaas_confine::Layer::{Landlock, Namespaces, Seccomp};

use crate::stage::{CANARY, Stage};
use crate::table::Then::{Did, Held};
use crate::table::Twin::{AsRoot, Looks, Outside, Outsider};
use crate::table::{ABSENT, Probe, Went, denied, hidden, row};
use crate::{call, raw, std_errno};

const SIGSYS: Went = Went::Killed;

pub(crate) const NETWORK: &[Probe] = &[
    row(
        "connect_loopback",
        "talks to a service of this machine",
        |s| std_errno(TcpStream::connect(("127.0.0.1", s.port))).map(drop),
        Outside,
        SIGSYS,
        &[
            (&[Seccomp], Held(&[libc::ENETUNREACH, libc::EACCES])),
            (&[Seccomp, Namespaces], Held(&[libc::EACCES])),
            (&[Seccomp, Namespaces, Landlock], Did),
        ],
    ),
    row(
        "connect_by_name",
        "talks to a socket that has a file, as a database has",
        |s| std_errno(UnixStream::connect(s.host.join("socket"))).map(drop),
        Outside,
        SIGSYS,
        &[(&[Seccomp], Held(&[libc::ENOENT])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "connect_abstract",
        "talks to a socket without a file",
        |s| {
            let address = std_errno(SocketAddr::from_abstract_name(&s.tag))?;
            std_errno(UnixStream::connect_addr(&address)).map(drop)
        },
        Outside,
        SIGSYS,
        &[
            (&[Seccomp], Held(&[libc::ECONNREFUSED, libc::EPERM])),
            (&[Seccomp, Namespaces], Held(&[libc::EPERM])),
            (&[Seccomp, Namespaces, Landlock], Did),
        ],
    ),
    denied(
        "listen",
        "listens",
        |_| std_errno(std::net::TcpListener::bind("127.0.0.1:0")).map(drop),
        Outside,
        SIGSYS,
    ),
    denied("datagram", "sends datagrams", |_| socket(libc::AF_INET, libc::SOCK_DGRAM), Outside, SIGSYS),
    denied("six", "speaks IPv6", |_| socket(libc::AF_INET6, libc::SOCK_STREAM), Outside, SIGSYS),
    denied(
        "netlink",
        "speaks to the kernel's network",
        |_| socket(libc::AF_NETLINK, libc::SOCK_RAW),
        Outside,
        SIGSYS,
    ),
    denied(
        "audit_netlink",
        "speaks to the kernel's audit",
        |_| {
            call(
                libc::SYS_socket,
                &[libc::AF_NETLINK as usize, libc::SOCK_RAW as usize, libc::NETLINK_KOBJECT_UEVENT as usize],
            )
        },
        Outside,
        SIGSYS,
    ),
    row(
        "packets",
        "reads every packet",
        |_| socket(libc::AF_PACKET, libc::SOCK_RAW),
        AsRoot,
        SIGSYS,
        &[(&[Seccomp], Held(&[libc::EPERM, libc::EAFNOSUPPORT]))],
    ),
    row(
        "raw_packets",
        "writes packets of its own",
        |_| call(libc::SYS_socket, &[libc::AF_INET as usize, libc::SOCK_RAW as usize, 1]),
        AsRoot,
        SIGSYS,
        &[(&[Seccomp], Held(&[libc::EPERM]))],
    ),
    denied(
        "hypervisor",
        "speaks to the machine below",
        |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM),
        Outside,
        SIGSYS,
    ),
    denied(
        "kernel_crypto",
        "has the kernel compute",
        |_| socket(libc::AF_ALG, libc::SOCK_SEQPACKET),
        Looks(&[libc::EAFNOSUPPORT]),
        SIGSYS,
    ),
    denied(
        "bluetooth",
        "speaks by radio",
        |_| socket(31, libc::SOCK_RAW),
        Looks(&[libc::EAFNOSUPPORT, libc::EPERM]),
        SIGSYS,
    ),
    denied(
        "key_sockets",
        "speaks of network keys",
        |_| socket(15, libc::SOCK_RAW),
        Looks(&[libc::EAFNOSUPPORT, libc::EPERM]),
        SIGSYS,
    ),
    denied(
        "express_data",
        "sees packets before the kernel does",
        |_| socket(44, libc::SOCK_RAW),
        AsRoot,
        SIGSYS,
    ),
    denied(
        "socket_pair",
        "makes a pair of sockets, to pass descriptors",
        |_| {
            let mut pair = [0_i32; 2];
            call(
                libc::SYS_socketpair,
                &[libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0, pair.as_mut_ptr().addr()],
            )
        },
        Outside,
        SIGSYS,
    ),
    denied(
        "send_message",
        "sends through a descriptor",
        |_| call(libc::SYS_sendmsg, &[1, 0, 0]),
        Looks(&[libc::ENOTSOCK, libc::EFAULT]),
        ABSENT,
    ),
    denied(
        "ring_of_calls",
        "makes system calls through a ring",
        |_| {
            let parameters = [0_u8; 120];
            call(libc::SYS_io_uring_setup, &[4, parameters.as_ptr().addr()])
        },
        Outside,
        SIGSYS,
    ),
    denied(
        "ring_enter",
        "drives a ring that it was given",
        |_| call(libc::SYS_io_uring_enter, &[9999, 0, 0, 0, 0, 0]),
        Looks(&[libc::EBADF]),
        ABSENT,
    ),
    denied(
        "ring_register",
        "registers files with a ring",
        |_| call(libc::SYS_io_uring_register, &[9999, 0, 0, 0]),
        Looks(&[libc::EBADF]),
        ABSENT,
    ),
    denied(
        "old_ring",
        "makes file operations in the background",
        |_| {
            let mut context = 0_usize;
            call(libc::SYS_io_setup, &[1, (&raw mut context).addr()])
        },
        Outside,
        ABSENT,
    ),
];

/// The filter, then the pid namespace.
const UNSEEN: &[(&[mfaas_confine::Layer], crate::table::Then)] =
    &[(&[Seccomp], Held(&[libc::ESRCH])), (&[Seccomp, Namespaces, Landlock], Did)];

pub(crate) const PROCESSES: &[Probe] = &[
    row(
        "signal",
        "signals a process of the same user",
        |s| call(libc::SYS_kill, &[s.victim, 0]),
        Outside,
        ABSENT,
        &[
            (&[Seccomp], Held(&[libc::ESRCH])),
            (&[Seccomp, Namespaces], Held(&[libc::EPERM])),
            (&[Seccomp, Namespaces, Landlock], Did),
        ],
    ),
    row(
        "signal_thread",
        "signals a thread of another process",
        |s| call(libc::SYS_tgkill, &[s.victim, s.victim, 0]),
        Outside,
        ABSENT,
        UNSEEN,
    ),
    row(
        "signal_any_thread",
        "signals a thread by its number",
        |s| call(libc::SYS_tkill, &[s.victim, 0]),
        Outside,
        ABSENT,
        UNSEEN,
    ),
    row(
        "signal_with_value",
        "signals with a forged sender",
        |s| {
            let mut info = [0_i32; 32];
            info[2] = -1;
            call(libc::SYS_rt_sigqueueinfo, &[s.victim, 0, info.as_ptr().addr()])
        },
        Outside,
        ABSENT,
        UNSEEN,
    ),
    row(
        "signal_first",
        "signals the first process of its namespace",
        |_| call(libc::SYS_kill, &[1, 0]),
        AsRoot,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::EPERM])), (&[Seccomp, Landlock], Did)],
    ),
    row(
        "process_handle",
        "takes hold of a process",
        |s| call(libc::SYS_pidfd_open, &[s.victim, 0]),
        Outside,
        ABSENT,
        UNSEEN,
    ),
    denied(
        "signal_by_handle",
        "signals by descriptor",
        |_| call(libc::SYS_pidfd_send_signal, &[9999, 0, 0, 0]),
        Looks(&[libc::EBADF]),
        ABSENT,
    ),
    denied(
        "take_descriptor",
        "takes a descriptor out of another process",
        |_| call(libc::SYS_pidfd_getfd, &[9999, 0, 0]),
        Looks(&[libc::EBADF]),
        SIGSYS,
    ),
    row(
        "trace",
        "traces another process",
        |s| call(libc::SYS_ptrace, &[libc::PTRACE_SEIZE as usize, s.victim, 0, 0]),
        Outside,
        SIGSYS,
        UNSEEN,
    ),
    row(
        "trace_first",
        "traces the first process of its namespace",
        |_| call(libc::SYS_ptrace, &[libc::PTRACE_SEIZE as usize, 1, 0, 0]),
        Outsider(&[libc::EPERM]),
        SIGSYS,
        &[(&[Seccomp], Held(&[libc::EPERM]))],
    ),
    row(
        "trace_parent",
        "traces the process that started it",
        |_| {
            call(
                libc::SYS_ptrace,
                &[libc::PTRACE_SEIZE as usize, std::os::unix::process::parent_id() as usize, 0, 0],
            )
        },
        Outside,
        SIGSYS,
        &[(&[Seccomp], Held(&[libc::EPERM]))],
    ),
    row("read_memory", "reads a key out of another's memory", read_memory, Outside, SIGSYS, UNSEEN),
    row("write_memory", "writes into another's memory", write_memory, Outside, SIGSYS, UNSEEN),
    hidden("memory_by_file", "reads another's memory as a file", memory_by_file, Outside),
    hidden("environment_of_another", "reads another's variables", |s| contains(s, "environ"), Outside),
    hidden("arguments_of_another", "reads another's arguments", |s| contains(s, "cmdline"), Outside),
    hidden(
        "descriptors_of_another",
        "opens a descriptor of another",
        |s| std_errno(std::fs::read_dir(format!("/proc/{}/fd", s.victim))).map(drop),
        Outside,
    ),
    row(
        "root_of_another",
        "walks through another's root",
        |s| std_errno(std::fs::metadata(format!("/proc/{}/root/etc", s.victim))).map(drop),
        Outside,
        Went::Errno(libc::ENOENT),
        &[(&[Namespaces], Held(&[libc::EACCES])), (&[Namespaces, Landlock], Did)],
    ),
    row(
        "compare",
        "compares kernel objects with another's",
        |s| raw(libc::SYS_kcmp, [std::process::id() as usize, s.victim, 1, 0, 0, 0]).map(drop),
        Outside,
        ABSENT,
        UNSEEN,
    ),
    row(
        "pin",
        "binds another process to a processor",
        |s| {
            let mask = u64::MAX;
            call(libc::SYS_sched_setaffinity, &[s.victim, 8, (&raw const mask).addr()])
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ESRCH])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "where_it_may_run",
        "asks where another may run",
        |s| {
            let mut mask = [0_u64; 16];
            call(libc::SYS_sched_getaffinity, &[s.victim, 128, mask.as_mut_ptr().addr()])
        },
        Outside,
        Went::Errno(libc::ESRCH),
        &[(&[Namespaces], Did)],
    )
    .weaker("process ids are the host's; the answer changes nothing"),
    row(
        "schedule",
        "changes how another is scheduled",
        |s| {
            let priority = 0_i32;
            call(
                libc::SYS_sched_setscheduler,
                &[s.victim, libc::SCHED_BATCH as usize, (&raw const priority).addr()],
            )
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ESRCH])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "slow_down",
        "makes another slower",
        |s| call(libc::SYS_setpriority, &[0, s.victim, 5]),
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ESRCH])), (&[Seccomp, Namespaces], Did)],
    ),
    denied(
        "be_faster",
        "makes itself more important",
        |_| call(libc::SYS_setpriority, &[0, 0, (-5_isize) as usize]),
        AsRoot,
        ABSENT,
    ),
    row(
        "slow_disk",
        "changes another's place at the disk",
        |s| call(libc::SYS_ioprio_set, &[1, s.victim, 3 << 13]),
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ESRCH])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "limits_of_another",
        "reads another's limits",
        |s| limits_of(s, 0),
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ESRCH])), (&[Seccomp, Namespaces, Landlock], Did)],
    ),
    row(
        "limit_another",
        "takes descriptors from another",
        |s| {
            let new = [1024_u64, 1024];
            limits_of(s, new.as_ptr().addr())
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ESRCH])), (&[Seccomp, Namespaces, Landlock], Did)],
    ),
    row(
        "move_memory",
        "moves another's pages",
        |s| call(libc::SYS_move_pages, &[s.victim, 0, 0, 0, 0, 0]),
        Outside,
        ABSENT,
        UNSEEN,
    ),
    denied(
        "advise_another",
        "has another's memory dropped",
        |_| call(libc::SYS_process_madvise, &[9999, 0, 0, 0, 0]),
        Looks(&[libc::EBADF]),
        ABSENT,
    ),
    denied(
        "reap_memory",
        "has a dying process's memory taken",
        |_| call(libc::SYS_process_mrelease, &[9999, 0]),
        Looks(&[libc::EBADF]),
        ABSENT,
    ),
    row(
        "locks_of_another",
        "reads where another keeps its locks",
        |s| {
            let mut out = [0_usize; 2];
            let address = out.as_mut_ptr().addr();
            call(libc::SYS_get_robust_list, &[s.victim, address, address + 8])
        },
        Outside,
        ABSENT,
        UNSEEN,
    ),
    row(
        "capabilities_of_another",
        "asks what another may do",
        |s| {
            let head = [0x2008_0522, u32::try_from(s.victim).unwrap()];
            let mut sets = [0_u32; 6];
            call(libc::SYS_capget, &[head.as_ptr().addr(), sets.as_mut_ptr().addr()])
        },
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ESRCH])), (&[Seccomp, Namespaces], Did)],
    ),
    row(
        "session_of_another",
        "asks for another's session",
        |s| call(libc::SYS_getsid, &[s.victim]),
        Outside,
        ABSENT,
        &[(&[Seccomp], Held(&[libc::ESRCH])), (&[Seccomp, Namespaces], Did)],
    ),
    denied(
        "own_session",
        "leaves its session, as a daemon does",
        |_| {
            match call(libc::SYS_setsid, &[]) {
                // It leads a group already; the kernel has looked.
                Err(libc::EPERM) => Ok(()),
                other => other,
            }
        },
        Outside,
        ABSENT,
    ),
    denied("own_group", "leaves its process group", |_| call(libc::SYS_setpgid, &[0, 0]), Outside, ABSENT),
    denied(
        "fork",
        "forks, as a daemon does",
        |_| {
            match raw(libc::SYS_fork, [0; 6])? {
                // SAFETY: INV-CONFINE-2 holds emptily; the child has done nothing.
                0 => unsafe { libc::_exit(0) },
                _ => Ok(()),
            }
        },
        Outside,
        ABSENT,
    ),
    denied(
        "type_for_another",
        "types into its terminal",
        |_| call(libc::SYS_ioctl, &[0, 0x5412, 0]),
        Looks(&[libc::ENOTTY, libc::EIO]),
        ABSENT,
    ),
    denied(
        "paste_for_another",
        "pastes into its console",
        |_| call(libc::SYS_ioctl, &[0, 0x541c, 0]),
        Looks(&[libc::ENOTTY]),
        ABSENT,
    ),
    denied(
        "take_terminal",
        "takes a terminal as its own",
        |_| call(libc::SYS_ioctl, &[0, 0x540e, 0]),
        Looks(&[libc::ENOTTY]),
        ABSENT,
    ),
    denied(
        "file_flags",
        "sets the flags of a file, of which one makes it immutable",
        |_| {
            // With the flags that it has: a file system need not be able to take each of them away.
            let mut flags = 0_u64;
            let _ = call(libc::SYS_ioctl, &[0, 0x8008_6601, (&raw mut flags).addr()]);
            call(libc::SYS_ioctl, &[0, 0x4008_6602, (&raw const flags).addr()])
        },
        AsRoot,
        ABSENT,
    ),
];

fn socket(family: i32, kind: i32) -> Result<(), i32> {
    call(libc::SYS_socket, &[family as usize, kind as usize, 0])
}

/// Reads or writes what lies at the victim's canary.
fn transfer(number: libc::c_long, stage: &Stage, local: &mut [u8]) -> Result<(), i32> {
    let near = [local.as_mut_ptr().addr(), local.len()];
    let far = [stage.address, local.len()];
    match raw(number, [stage.victim, near.as_ptr().addr(), 1, far.as_ptr().addr(), 1, 0])? {
        moved if moved == local.len() => Ok(()),
        _ => Err(libc::EIO),
    }
}

fn read_memory(stage: &Stage) -> Result<(), i32> {
    let mut found = vec![0; CANARY.len()];
    transfer(libc::SYS_process_vm_readv, stage, &mut found)?;
    if found == CANARY.as_bytes() { Ok(()) } else { Err(libc::EIO) }
}

fn write_memory(stage: &Stage) -> Result<(), i32> {
    transfer(libc::SYS_process_vm_writev, stage, &mut CANARY.as_bytes().to_vec())
}

fn memory_by_file(stage: &Stage) -> Result<(), i32> {
    use std::os::unix::fs::FileExt;
    let memory = std_errno(std::fs::File::open(format!("/proc/{}/mem", stage.victim)))?;
    let mut found = vec![0; CANARY.len()];
    std_errno(memory.read_exact_at(&mut found, stage.address as u64))?;
    if found == CANARY.as_bytes() { Ok(()) } else { Err(libc::EIO) }
}

fn contains(stage: &Stage, file: &str) -> Result<(), i32> {
    let found = std_errno(std::fs::read(format!("/proc/{}/{file}", stage.victim)))?;
    let holds = found.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
    if holds { Ok(()) } else { Err(libc::EIO) }
}

fn limits_of(stage: &Stage, new: usize) -> Result<(), i32> {
    let mut old = [0_u64; 2];
    call(libc::SYS_prlimit64, &[stage.victim, libc::RLIMIT_NOFILE as usize, new, old.as_mut_ptr().addr()])
}
