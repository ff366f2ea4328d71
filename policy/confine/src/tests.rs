//! Filters are run by a small interpreter of their BPF; profiles are refused when incomplete. What
//! the kernel makes of both is in `tests/sandbox`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use mfaas_rules::profiles::seccomp::{
    COMPILER, DEPENDENCY_BUILD, Rule, SeccompRow, THROWAWAY_LOAD, WORKER, with,
};

use crate::filter::{Unlisted, compile};
use crate::{Access, Limits, Mount, Profile, syscalls};

const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const TRAP: u32 = libc::SECCOMP_RET_TRAP;

/// What a filter answers to a call.
fn run(program: &[libc::sock_filter], arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let mut data = [number.to_le_bytes(), arch.to_le_bytes(), [0; 4], [0; 4]].concat();
    data.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));
    let (mut position, mut accumulator) = (0, 0);
    loop {
        let one = program[position];
        position += 1;
        let taken = match u32::from(one.code) {
            0x20 => {
                let offset = one.k as usize;
                accumulator = u32::from_le_bytes(data[offset..offset + 4].try_into().unwrap());
                continue;
            }
            0x54 => {
                accumulator &= one.k;
                continue;
            }
            0x05 => {
                position += one.k as usize;
                continue;
            }
            0x06 => return one.k,
            0x15 => accumulator == one.k,
            0x35 => accumulator >= one.k,
            code => panic!("instruction {code:#x}"),
        };
        position += usize::from(if taken { one.jt } else { one.jf });
    }
}

fn compiler(number: libc::c_long, arguments: [u64; 6]) -> u32 {
    run(
        &compile(COMPILER, Unlisted::DoesNotExist).unwrap(),
        X86_64,
        u32::try_from(number).unwrap(),
        arguments,
    )
}

#[test]
fn every_row_names_a_system_call_and_compiles() {
    for rows in [COMPILER, THROWAWAY_LOAD, DEPENDENCY_BUILD, WORKER] {
        assert!(compile(rows, Unlisted::Signals).unwrap().len() < 4096, "the kernel's limit");
        for row in rows {
            assert!(syscalls::number(row.name).is_some(), "{}", row.name);
            assert!(!row.why.is_empty());
        }
    }
}

/// The names are found by halving, and so are the numbers of a filter: few steps lead to any.
#[test]
fn rows_are_found_by_halving() {
    assert!(syscalls::is_sorted());
    for rows in [COMPILER.to_vec(), with(COMPILER, DEPENDENCY_BUILD), WORKER.to_vec()] {
        let program = compile(&rows, Unlisted::Signals).unwrap();
        for number in (0..1024).chain([u32::MAX]) {
            let expected = rows.iter().any(|row| syscalls::number(row.name) == Some(number));
            let answer = run(&program, X86_64, number, [0; 6]);
            assert!(expected || answer == TRAP || number == u32::MAX, "{number}: {answer:#x}");
        }
    }
}

#[test]
fn no_row_is_hidden_by_another() {
    let (probe, trusted) = (with(COMPILER, THROWAWAY_LOAD), with(COMPILER, DEPENDENCY_BUILD));
    for rows in [COMPILER, WORKER, probe.as_slice(), trusted.as_slice()] {
        for row in rows.iter().filter(|row| !matches!(row.rule, Rule::AllowIf(_))) {
            let same = rows.iter().filter(|other| other.name == row.name).count();
            assert_eq!(same, 1, "{}", row.name);
        }
    }
}

#[test]
fn rows_do_what_they_say() {
    let compiler_rows = compile(COMPILER, Unlisted::DoesNotExist).unwrap();
    for row in COMPILER {
        let number = syscalls::number(row.name).unwrap();
        let answer = run(&compiler_rows, X86_64, number, [u64::MAX; 6]);
        let expected = match row.rule {
            Rule::Allow => ALLOW,
            Rule::Kill => KILL,
            Rule::AllowIf(_) => ABSENT,
        };
        assert_eq!(answer, expected, "{}", row.name);
    }
    assert_eq!(compiler(libc::SYS_setuid, [0; 6]), ABSENT);
    let worker = compile(WORKER, Unlisted::Signals).unwrap();
    let futex = u32::try_from(libc::SYS_futex).unwrap();
    assert_eq!(run(&worker, X86_64, futex, [0; 6]), ALLOW);
    for number in 0..1024 {
        let known = WORKER.iter().any(|row| syscalls::number(row.name) == Some(number));
        assert!(known || run(&worker, X86_64, number, [0; 6]) == TRAP, "{number}");
    }
}

/// Code, assets and constants are opened from their first byte, with the rights of each, and none as far as what lies behind it.
#[test]
fn a_worker_opens_parts_of_its_window_and_no_further() {
    const MIB: u64 = 1 << 20;
    let worker = compile(WORKER, Unlisted::Signals).unwrap();
    let mprotect = u32::try_from(libc::SYS_mprotect).unwrap();
    let opens =
        |start, bytes, rights| run(&worker, X86_64, mprotect, [start, bytes, rights, 0, 0, 0]) == ALLOW;
    let (code, assets, constants) = (256 * MIB, 1024 * MIB, 2048 * MIB);
    let (read, execute, write) = (1, 1 | 4, 1 | 2);
    for (start, rights, most) in
        [(code, execute, 768 * MIB), (assets, read, 254 * MIB), (constants, read, 768 * MIB)]
    {
        for bytes in [4096, 2 * MIB, 200 * MIB, most - 4096, most] {
            assert!(opens(start, bytes, rights), "{start:#x} {bytes:#x}");
            for other in
                [0, read, execute, write, execute | write].into_iter().filter(|other| *other != rights)
            {
                assert!(!opens(start, bytes, other), "{start:#x} {bytes:#x} as {other}");
            }
            assert!(!opens(start + 4096, bytes, rights), "{start:#x}: not from its first byte");
        }
    }
    for bytes in [768 * MIB + 1, 769 * MIB, 1023 * MIB, 1024 * MIB, u64::MAX] {
        assert!(!opens(code, bytes, execute), "{bytes:#x} of code would reach the assets");
    }
    for bytes in [256 * MIB, 257 * MIB, 1024 * MIB, u64::MAX] {
        assert!(!opens(assets, bytes, read), "{bytes:#x} of assets would reach the data");
    }
}

#[test]
fn foreign_calls_kill_whatever_their_number_is() {
    let rows = compile(WORKER, Unlisted::Signals).unwrap();
    for number in 0..512 {
        assert_eq!(run(&rows, I386, number, [0; 6]), KILL);
        assert_eq!(run(&rows, X86_64, number | 0x4000_0000, [0; 6]), KILL);
    }
    assert_eq!(run(&rows, X86_64, u32::MAX, [0; 6]), KILL);
}

#[test]
fn arguments_are_looked_at() {
    let clone = |flags: u64| compiler(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]);
    let thread = 0x003d_0f00;
    let spawn = 0x4111;
    assert_eq!((clone(thread), clone(spawn)), (ALLOW, ALLOW));
    // fork, a new user namespace in either shape, CLONE_PARENT, CLONE_PTRACE.
    for flags in
        [0x11, thread | 0x1000_0000, spawn | 0x1000_0000, spawn | 0x8000, spawn | 0x2000, spawn | 0x80]
    {
        assert_eq!(clone(flags), ABSENT, "{flags:#x}");
    }
    let ioctl = |command: u64| compiler(libc::SYS_ioctl, [2, command, 0, 0, 0, 0]);
    assert_eq!(ioctl(0x5401), ALLOW, "TCGETS");
    assert_eq!(ioctl(0xdead_beef_0000_5401), ALLOW, "the kernel ignores the upper half");
    assert_eq!(ioctl(0x5412), ABSENT, "TIOCSTI");
    let prlimit = |pid: u64, new: u64| compiler(libc::SYS_prlimit64, [pid, 7, new, 1, 0, 0]);
    assert_eq!((prlimit(0, 0), prlimit(1, 0), prlimit(0, 1)), (ALLOW, ABSENT, ABSENT));
    assert_eq!(prlimit(0, 1 << 40), ABSENT, "a pointer counts whole");
    let own = u64::from(std::process::id());
    let tgkill = |process: u64, signal: u64| compiler(libc::SYS_tgkill, [process, 1, signal, 0, 0, 0]);
    assert_eq!((tgkill(own, 6), tgkill(own, 10)), (ALLOW, ALLOW));
    assert_eq!((tgkill(own, 9), tgkill(own + 1, 6), tgkill(1, 10)), (ABSENT, ABSENT, ABSENT));
}

#[test]
fn additions_allow_and_still_refuse() {
    let trusted = compile(&with(COMPILER, DEPENDENCY_BUILD), Unlisted::DoesNotExist).unwrap();
    let answer = |number: libc::c_long, first: u64| {
        run(&trusted, X86_64, u32::try_from(number).unwrap(), [first, 0, 0, 0, 0, 0])
    };
    assert_eq!((answer(libc::SYS_clone, 0x11), answer(libc::SYS_kill, 1)), (ALLOW, ALLOW));
    assert_eq!(answer(libc::SYS_clone, 0x11 | 0x1000_0000), ABSENT, "a new user namespace");
    assert_eq!((answer(libc::SYS_socketpair, 1), answer(libc::SYS_socketpair, 2)), (ALLOW, ABSENT));
    assert_eq!((answer(libc::SYS_socket, 1), answer(libc::SYS_ptrace, 0)), (KILL, KILL));
}

#[test]
fn rows_without_sense_are_refused() {
    let row = |name, rule| SeccompRow { name, rule, why: "a test" };
    assert!(compile(&[], Unlisted::Signals).is_err());
    assert!(compile(&[row("no_such_call", Rule::Allow)], Unlisted::Signals).is_err());
    assert!(compile(&[row("read", Rule::AllowIf(&[]))], Unlisted::Signals).is_err());
}

const LIMITS: Limits = Limits {
    cpu_seconds: 1,
    data_bytes: 1 << 20,
    address_space_bytes: 1 << 30,
    file_bytes: 1 << 20,
    descriptors: 16,
    processes: 4,
    stack_bytes: 1 << 20,
    scratch_bytes: 1 << 20,
};

fn mount(source: &str, target: &str, access: Access) -> Mount {
    Mount { source: PathBuf::from(source), target: PathBuf::from(target), access }
}

fn refused(mounts: Vec<Mount>, limits: Limits, rows: Vec<SeccompRow>) -> bool {
    Profile::new(mounts, limits, rows).is_err()
}

#[test]
fn a_profile_says_everything() {
    let program = || mount("/bin/true", "/program", Access::Execute);
    let rows = || COMPILER.to_vec();
    assert!(!refused(vec![program()], LIMITS, rows()));
    assert!(refused(Vec::new(), LIMITS, rows()), "nothing to execute");
    assert!(refused(vec![mount("/bin", "/bin", Access::Read)], LIMITS, rows()), "nothing to execute");
    assert!(refused(vec![program()], LIMITS, Vec::new()), "no system calls");
    assert!(refused(vec![program()], Limits { processes: 0, ..LIMITS }, rows()));
    assert!(refused(vec![program()], Limits { data_bytes: u64::MAX, ..LIMITS }, rows()));
}

#[test]
fn mounts_stand_where_they_say() {
    let with = |source: &str, target: &str| {
        let mounts =
            vec![mount("/bin/true", "/a/program", Access::Execute), mount(source, target, Access::Read)];
        refused(mounts, LIMITS, COMPILER.to_vec())
    };
    assert!(!with("/usr", "/usr"));
    assert!(!with("/usr", "/a/program2"));
    for target in
        ["/", "usr", "/a/../usr", "/usr/", "/a//b", "/./usr", "/a", "/a/program", "/tmp", "/dev/null", ""]
    {
        assert!(with("/usr", target), "{target}");
    }
    assert!(with("relative", "/usr"));
}
