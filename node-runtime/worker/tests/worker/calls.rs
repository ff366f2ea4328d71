//! The rows of the worker's profile, each by a use that is meant and by a twin that is not, made by
//! native code in the place of a function. What is denied ends the invocation; the worker lives.

use std::os::unix::process::ExitStatusExt as _;

use mfaas_abi::Status;
use mfaas_abi::frame::ResponseFrame;
use mfaas_rules::profiles::seccomp::WORKER as ROWS;

use crate::{Node, toolchain};

/// Bit of the numbers of the x32 ABI.
const X32: i64 = 0x4000_0000;
const WINDOW_PAGE: u64 = 256 << 20;

/// What became of one system call.
#[derive(Debug, PartialEq, Eq)]
enum Made {
    /// The kernel looked at it and answered this.
    Answered(i64),
    Denied,
}

struct Native {
    node: Node,
}

impl Native {
    fn new() -> Self {
        Self { node: Node::start(&[toolchain::hostile()]) }
    }

    /// By `syscall`, and the worker answers afterwards.
    fn native(&mut self, number: i64, words: [u64; 3]) -> Made {
        let done = self.node.call_with(0, &system_call(b'n', number, words));
        assert_eq!(self.node.ok(0, "-"), "!", "the worker lives after call {number}");
        match done.status {
            Status::Ok => {
                let frame = ResponseFrame::decode(&done.response).expect("a frame");
                Made::Answered(i64::from_le_bytes(frame.body.try_into().expect("one word")))
            }
            Status::Denied => Made::Denied,
            other => panic!("call {number}: {other}"),
        }
    }
}

#[test]
fn no_more_calls_than_a_handful_are_allowed() {
    let mut names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() <= 9, "{names:?}");
}

#[test]
fn each_row_has_a_use_and_a_twin_that_is_denied() {
    let mut native = Native::new();
    let rows = [
        // A wake that nobody waits for; another call on the same words.
        ("futex", libc::SYS_futex, [WINDOW_PAGE, 1, 1], Made::Answered(0), libc::SYS_futex_waitv, [0; 3]),
        // Reading a clock into nothing is an error of the kernel's; setting one is denied.
        (
            "clock_gettime",
            libc::SYS_clock_gettime,
            [99, 0, 0],
            Made::Answered(-22),
            libc::SYS_clock_settime,
            [0; 3],
        ),
        // Giving no page back; changing the rights of none.
        (
            "madvise",
            libc::SYS_madvise,
            [WINDOW_PAGE, 0, 4],
            Made::Answered(0),
            libc::SYS_mprotect,
            [WINDOW_PAGE, 0, 7],
        ),
        // Making no byte of code executable; the same of another place.
        (
            "mprotect",
            libc::SYS_mprotect,
            [WINDOW_PAGE, 0, 5],
            Made::Answered(0),
            libc::SYS_mprotect,
            [WINDOW_PAGE + 4096, 0, 5],
        ),
        // Giving the core up; choosing another.
        (
            "sched_yield",
            libc::SYS_sched_yield,
            [0; 3],
            Made::Answered(0),
            libc::SYS_sched_setaffinity,
            [0; 3],
        ),
        ("getrandom", libc::SYS_getrandom, [0, 0, 0], Made::Answered(0), libc::SYS_read, [0; 3]),
        ("restart_syscall", libc::SYS_restart_syscall, [0; 3], Made::Answered(-4), libc::SYS_pause, [0; 3]),
        // Its use is the end of every call above that was denied; a handler of one's own is not to be had.
        ("rt_sigreturn", libc::SYS_getrandom, [0; 3], Made::Answered(0), libc::SYS_rt_sigaction, [11, 0, 0]),
        // Its use is below: nothing answers after it.
        ("exit_group", libc::SYS_getrandom, [0; 3], Made::Answered(0), libc::SYS_kill, [0, 0, 0]),
    ];
    for (name, number, words, answer, twin, twins_words) in &rows {
        assert_eq!(&native.native(*number, *words), answer, "{name}");
        assert_eq!(native.native(*twin, *twins_words), Made::Denied, "the twin of {name}");
    }
    let mut tried: Vec<_> = rows.iter().map(|row| row.0).collect();
    tried.sort_unstable();
    let mut names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(tried, names, "every row was tried");
    assert!(native.node.stop().success());
}

/// Where the window's constants begin.
const CONSTANTS: u64 = 2 << 30;

/// The same call with another argument, where a row looks at arguments.
#[test]
fn an_argument_decides() {
    let mut native = Native::new();
    for advice in [libc::MADV_HUGEPAGE, libc::MADV_REMOVE, libc::MADV_FREE, libc::MADV_POPULATE_WRITE] {
        let words = [WINDOW_PAGE, 0, u64::from(advice.unsigned_abs())];
        assert_eq!(native.native(libc::SYS_madvise, words), Made::Denied, "advice {advice}");
    }
    // As far as the data, and with other rights.
    for [bytes, rights] in
        [[1 << 30, 5], [u64::MAX, 5], [0, 0], [0, 1], [0, 3], [0, 4], [0, 7], [0, 5 | 1 << 32]]
    {
        let made = native.native(libc::SYS_mprotect, [WINDOW_PAGE, bytes, rights]);
        assert_eq!(made, Made::Denied, "{bytes:#x} bytes, rights {rights:#x}");
    }
    // Constants can be read and never executed or written.
    assert_eq!(native.native(libc::SYS_mprotect, [CONSTANTS, 0, 1]), Made::Answered(0));
    for [bytes, rights] in [[1 << 30, 1], [0, 0], [0, 2], [0, 3], [0, 5]] {
        let made = native.native(libc::SYS_mprotect, [CONSTANTS, bytes, rights]);
        assert_eq!(made, Made::Denied, "{bytes:#x} bytes of constants, rights {rights:#x}");
    }
    // The upper half of a word that the kernel reads as 32 bits.
    assert_eq!(native.native(libc::SYS_madvise, [WINDOW_PAGE, 0, 4 | 1 << 32]), Made::Answered(0));
    assert!(native.node.stop().success());
}

/// No compiler that made a benign function or this worker knows another ABI: what asks by one has the
/// core, and the process ends.
#[test]
fn another_abi_ends_the_worker() {
    // Numbers 20, 252 and 355 of the 32-bit table are getpid, exit_group and getrandom.
    let x32 = [libc::SYS_getrandom | X32, libc::SYS_futex | X32].map(|number| (b'n', number));
    for (way, number) in x32.into_iter().chain([20, 252, 355].map(|number| (b'i', number))) {
        let mut node = Node::start(&[toolchain::hostile()]);
        node.submit(0, &system_call(way, number, [0; 3]));
        let ended = node.child.wait().expect("our child");
        assert_eq!(ended.signal(), Some(libc::SIGSYS), "call {number} by {way}: {ended}");
        assert_eq!(node.host.oldest_in_flight(), Some(1), "and what it was running is known");
    }
}

#[test]
fn a_worker_that_ends_itself_is_seen_to_end() {
    let mut node = Node::start(&[toolchain::hostile()]);
    node.submit(0, &system_call(b'n', libc::SYS_exit_group, [0; 3]));
    assert!(node.child.wait().expect("our child").success());
    assert_eq!(node.host.oldest_in_flight(), Some(1), "and what it was running is known");
}

/// The body that asks the native code for one system call.
fn system_call(way: u8, number: i64, words: [u64; 3]) -> Vec<u8> {
    let mut body = vec![b'S', way];
    body.extend_from_slice(&number.to_le_bytes());
    for word in words.into_iter().chain([0; 3]) {
        body.extend_from_slice(&word.to_le_bytes());
    }
    body
}
