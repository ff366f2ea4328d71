//! Attacks, each one system call: by its number, with arguments that do no harm where it is
//! allowed.

use std::arch::asm;
use std::process::ExitCode;

/// Exit codes of an attacker.
pub(crate) const COULD: u8 = 0;
pub(crate) const REFUSED: u8 = 10;
pub(crate) const ABSENT: u8 = 11;

/// A call that only an attack makes.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    number: libc::c_long,
    arguments: [usize; 5],
}

const fn attack_by(name: &'static str, number: libc::c_long, arguments: [usize; 5]) -> Attack {
    Attack { name, number, arguments }
}

const CLONE_NEWUSER: usize = 0x1000_0000;

/// Pointers are null where the call would do something with what they point to.
pub(crate) const ATTACKS: &[Attack] = &[
    attack_by("ptrace", libc::SYS_ptrace, [0; 5]),
    attack_by("process_vm_readv", libc::SYS_process_vm_readv, [1, 0, 0, 0, 0]),
    attack_by("process_vm_writev", libc::SYS_process_vm_writev, [1, 0, 0, 0, 0]),
    attack_by("pidfd_getfd", libc::SYS_pidfd_getfd, [9999, 0, 0, 0, 0]),
    attack_by("mount", libc::SYS_mount, [0; 5]),
    attack_by("umount2", libc::SYS_umount2, [0; 5]),
    attack_by("pivot_root", libc::SYS_pivot_root, [0; 5]),
    attack_by("unshare", libc::SYS_unshare, [CLONE_NEWUSER, 0, 0, 0, 0]),
    attack_by("setns", libc::SYS_setns, [9999, 0, 0, 0, 0]),
    attack_by("open_tree", libc::SYS_open_tree, [9999, 0, 0, 0, 0]),
    attack_by("move_mount", libc::SYS_move_mount, [9999, 0, 9999, 0, 0]),
    attack_by("fsopen", libc::SYS_fsopen, [0; 5]),
    attack_by("chroot", libc::SYS_chroot, [0; 5]),
    attack_by("bpf", libc::SYS_bpf, [9999, 0, 0, 0, 0]),
    attack_by("perf_event_open", libc::SYS_perf_event_open, [0; 5]),
    attack_by("keyctl", libc::SYS_keyctl, [0, usize::MAX - 2, 0, 0, 0]),
    attack_by("add_key", libc::SYS_add_key, [0; 5]),
    attack_by("request_key", libc::SYS_request_key, [0; 5]),
    attack_by("io_uring_setup", libc::SYS_io_uring_setup, [0; 5]),
    attack_by("userfaultfd", libc::SYS_userfaultfd, [usize::MAX, 0, 0, 0, 0]),
    attack_by("init_module", libc::SYS_init_module, [0; 5]),
    attack_by("finit_module", libc::SYS_finit_module, [9999, 0, 9999, 0, 0]),
    attack_by("kexec_load", libc::SYS_kexec_load, [0, 9999, 0, 9999, 0]),
    attack_by("socket", libc::SYS_socket, [1, 1, 0, 0, 0]),
    attack_by("socketpair", libc::SYS_socketpair, [9999, 0, 0, 0, 0]),
];

/// One attempt, in its own process.
pub(crate) fn attack(name: &str) -> ExitCode {
    if let Some(attack) = ATTACKS.iter().find(|attack| attack.name == name) {
        return call(attack.number, attack.arguments);
    }
    let file = c"absent-directory/name".as_ptr() as usize;
    match name {
        "nothing" => ExitCode::SUCCESS,
        "i386" => i386_getpid(),
        "x32" => call(libc::SYS_getpid | 0x4000_0000, [0; 5]),
        "fork" => fork(),
        "clone3" => call(libc::SYS_clone3, [0; 5]),
        "kill" => call(libc::SYS_kill, [std::process::id() as usize, 0, 0, 0, 0]),
        "setsid" => call(libc::SYS_setsid, [0; 5]),
        "setuid" => call(libc::SYS_setuid, [1000, 0, 0, 0, 0]),
        "symlink" => call(libc::SYS_symlink, [file, file, 0, 0, 0]),
        "memfd_create" => call(libc::SYS_memfd_create, [file, 0, 0, 0, 0]),
        "capget" => call(libc::SYS_capget, [0; 5]),
        "become_root" => call(libc::SYS_setuid, [0; 5]),
        "descriptors" => any((3..1024).any(|number| works(libc::SYS_fcntl, [number, 1, 0, 0, 0]))),
        "capabilities" => capabilities(),
        "first_process_memory" => call(libc::SYS_ptrace, [16, 1, 0, 0, 0]),
        "privileges_by_execution" => {
            const PR_GET_NO_NEW_PRIVS: usize = 39;
            // The answer is 1 where an execution cannot give privileges.
            any(raw(libc::SYS_prctl, [PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0]) == Ok(0))
        }
        unknown => panic!("no attack {unknown}"),
    }
}

fn any(could: bool) -> ExitCode {
    ExitCode::from(if could { COULD } else { REFUSED })
}

fn raw(number: libc::c_long, [a, b, c, d, e]: [usize; 5]) -> Result<libc::c_long, i32> {
    // SAFETY: the kernel checks every pointer it is given; none of them points to memory of this
    // process that it would write to.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    if result == -1 { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(result) }
}

fn works(number: libc::c_long, arguments: [usize; 5]) -> bool {
    raw(number, arguments).is_ok()
}

fn call(number: libc::c_long, arguments: [usize; 5]) -> ExitCode {
    match raw(number, arguments) {
        Ok(_) => ExitCode::from(COULD),
        Err(libc::ENOSYS) => ExitCode::from(ABSENT),
        Err(_) => ExitCode::from(REFUSED),
    }
}

/// As `fork` of a C library does it.
fn fork() -> ExitCode {
    match raw(libc::SYS_fork, [0; 5]) {
        // SAFETY: ends the child at once; it has done nothing.
        Ok(0) => unsafe { libc::_exit(0) },
        Ok(_) => ExitCode::from(COULD),
        Err(libc::ENOSYS) => ExitCode::from(ABSENT),
        Err(_) => ExitCode::from(REFUSED),
    }
}

/// `getpid` through the 32-bit gate: number 20 there, `writev` in the 64-bit table.
pub(crate) fn i386_getpid() -> ExitCode {
    let answer: i32;
    // SAFETY: getpid takes no argument and touches no memory; the gate changes rax and r8 to r11.
    unsafe {
        asm!("int 0x80", inlateout("eax") 20 => answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    any(answer > 0)
}

pub(crate) fn x32_getpid() {
    let _ = raw(libc::SYS_getpid | 0x4000_0000, [0; 5]);
}

fn capabilities() -> ExitCode {
    let sets = rustix::thread::capabilities(None).unwrap();
    any(!(sets.effective | sets.permitted | sets.inheritable).is_empty())
}
