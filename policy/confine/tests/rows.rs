//! Rows of the compiler's filter that the compiler has no use for.
//!
//! The compiler runs outside of a sandbox under a filter that asks this test about every call. The test
//! writes the call down and lets it pass.
#![allow(unsafe_code, reason = "seccomp's notifications have no safe interface")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the report of a test")]

use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mfaas_rules::profiles::seccomp::{COMPILER, Rule, SeccompRow, Test};

/// A call: its number and its arguments.
type Call = (i32, [u64; 6]);

/// What a row says when no compiler that was watched has made its call.
const UNSEEN: &str = "unseen:";

#[test]
fn every_row_is_needed_or_says_why_it_stays() {
    let seen = watch_all();
    println!("{} different calls", seen.len());
    let allowing = COMPILER.iter().filter(|row| !matches!(row.rule, Rule::Kill));
    let needless: Vec<String> = allowing
        .clone()
        .filter(|row| !row.why.starts_with(UNSEEN) && !seen.iter().any(|call| passes(row, call)))
        .map(|row| format!("{} ({})", row.name, row.why))
        .collect();
    assert!(needless.is_empty(), "rows that nobody needs: {needless:#?}");
    let seen_after_all =
        allowing.filter(|row| row.why.starts_with(UNSEEN) && seen.iter().any(|call| passes(row, call)));
    for row in seen_after_all {
        println!("{} is seen here, though it says: {}", row.name, row.why);
    }
}

/// What the compiler asks for and does without: the kernel's answer in a sandbox is that it is not there.
#[test]
fn what_is_missing_is_known() {
    let missed: BTreeSet<i32> = watch_all()
        .iter()
        .filter(|call| !COMPILER.iter().any(|row| passes(row, call)))
        .map(|(number, _)| *number)
        .collect();
    // glibc falls back to `clone`.
    let known = BTreeSet::from([i32::try_from(libc::SYS_clone3).unwrap()]);
    let unknown: Vec<_> = missed.difference(&known).collect();
    assert!(unknown.is_empty(), "calls without a row: {unknown:?}");
}

fn passes(row: &SeccompRow, (number, arguments): &Call) -> bool {
    let named = number_of(row.name) == *number;
    named
        && match row.rule {
            Rule::Allow => true,
            Rule::Kill => false,
            Rule::AllowIf(checks) => checks.iter().all(|check| match check.test {
                Test::Masked { mask, value } => arguments[usize::from(check.argument)] & mask == value,
                // The filter of a sandbox knows which process it is in; here any is its own.
                Test::OwnProcess => true,
            }),
        }
}

/// Asked of the C library's header by way of the compiled filter's own table: the names of rows are
/// checked there, so a name that is unknown here is a mistake of this test.
fn number_of(name: &str) -> i32 {
    i32::try_from(mfaas_confine::system_call_number(name).unwrap()).unwrap()
}

/// A library with a linker, a procedural macro and its user, a mistake, several units.
fn watch_all() -> BTreeSet<Call> {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    std::fs::create_dir(place.path().join("link")).unwrap();
    for name in ["c", "gcc_s", "util", "rt", "pthread", "dl", "m"] {
        write(&format!("link/lib{name}.a"), "!<arch>\n");
    }
    write(
        "hello.rs",
        "#[unsafe(no_mangle)] pub extern \"C\" fn entry(x: u64) -> usize { format!(\"{x}\").len() }",
    );
    write(
        "seven.rs",
        "extern crate proc_macro;\n#[proc_macro_derive(Seven)]\npub fn seven(_: proc_macro::TokenStream) -> \
         proc_macro::TokenStream { \"pub const SEVEN: u32 = 7;\".parse().unwrap() }",
    );
    write("user.rs", "#[derive(seven::Seven)] pub struct S;\npub fn f() -> u32 { SEVEN }");
    write("wrong.rs", "pub fn f() -> u32 { \"seven\" }");
    let runs: [(&[&str], i32); 6] = [
        (&["--crate-type", "cdylib", "-O", "-Ccodegen-units=1", "-Cpanic=abort", "hello.rs"], 0),
        (&["--crate-type", "proc-macro", "seven.rs"], 0),
        (&["--crate-type", "rlib", "-O", "--extern", "seven=libseven.so", "user.rs"], 0),
        (&["--crate-type", "rlib", "--error-format=json", "wrong.rs"], 1),
        (&["--crate-type", "rlib", "-Ccodegen-units=4", "--emit=dep-info,link", "hello.rs"], 0),
        (&["--crate-type", "rlib", "-Cincremental=inc", "hello.rs"], 0),
    ];
    let mut seen = BTreeSet::new();
    for (arguments, code) in runs {
        let (calls, ended) = watch(place.path(), arguments);
        assert_eq!(ended, Some(code), "{arguments:?}");
        seen.extend(calls);
    }
    seen
}

fn sysroot() -> PathBuf {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// Runs rustc and answers for each of its calls.
fn watch(place: &Path, arguments: &[&str]) -> (BTreeSet<Call>, Option<i32>) {
    let sysroot = sysroot();
    let linker = sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld");
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = Command::new(sysroot.join("bin/rustc"));
    command
        .args(["--edition", "2024", "-Clinker-flavor=ld.lld", "-Clink-arg=--unresolved-symbols=ignore-all"])
        .arg(format!("-Clinker={}", linker.display()))
        .args(["-Lnative=link"])
        .args(arguments)
        .env_clear()
        .env("LD_LIBRARY_PATH", sysroot.join("lib"))
        .current_dir(place)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let out = writer.as_raw_fd();
    // SAFETY: INV-CONFINE-1: the closure makes system calls alone; it neither allocates nor locks.
    unsafe { command.pre_exec(move || ask_about_every_call(out)) };
    let child = std::thread::spawn(move || {
        let status = command.status().unwrap();
        drop(writer);
        status.code()
    });
    let mut message = [0; 8];
    reader.read_exact(&mut message).unwrap();
    let number = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().unwrap());
    let listener = take_descriptor(number(&message[..4]), number(&message[4..]));
    let calls = answer_all(&listener);
    (calls, child.join().unwrap())
}

/// In the child: says who it is and which descriptor its filter's listener will be, then installs it.
fn ask_about_every_call(out: i32) -> std::io::Result<()> {
    let ask = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_USER_NOTIF }];
    let program = libc::sock_fprog { len: 1, filter: ask.as_ptr().cast_mut() };
    // SAFETY: INV-CONFINE-2: takes no pointer.
    let free = unsafe { libc::dup(out) };
    // SAFETY: INV-CONFINE-3: made in the line above; its number is the lowest that is free.
    unsafe { libc::close(free) };
    let mut message = [0; 8];
    message[..4].copy_from_slice(&std::process::id().to_le_bytes());
    message[4..].copy_from_slice(&free.to_le_bytes());
    // SAFETY: INV-CONFINE-2: the buffer has the length given.
    unsafe { libc::write(out, message.as_ptr().cast(), message.len()) };
    // SAFETY: INV-CONFINE-2: takes no pointer.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: INV-CONFINE-2: the program lives in this frame.
    let made = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    if made == i64::from(free) { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The child's descriptor, as soon as it has it.
fn take_descriptor(process: i32, number: i32) -> OwnedFd {
    let pid = rustix::process::Pid::from_raw(process).unwrap();
    let handle = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    for _ in 0..5_000 {
        // SAFETY: INV-CONFINE-2: takes no pointer.
        let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, handle.as_raw_fd(), number, 0) };
        if let Ok(taken) = i32::try_from(taken).map(|taken| taken.max(-1))
            && taken >= 0
        {
            // SAFETY: INV-CONFINE-3: new, and owned by nobody else.
            return unsafe { OwnedFd::from_raw_fd(taken) };
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("no listener: {}", std::io::Error::last_os_error());
}

const NOTIFICATION_RECEIVE: libc::c_ulong = 0xc050_2100;
const NOTIFICATION_SEND: libc::c_ulong = 0xc018_2101;

/// Until no process is left that the filter holds.
fn answer_all(listener: &OwnedFd) -> BTreeSet<Call> {
    let mut calls = BTreeSet::new();
    loop {
        let mut ready = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: INV-CONFINE-2: one entry, which lives in this frame.
        let count = unsafe { libc::poll(&raw mut ready, 1, 60_000) };
        assert!(count > 0, "the compiler hangs");
        if ready.revents & libc::POLLIN == 0 {
            return calls;
        }
        if let Some((id, call)) = receive(listener) {
            calls.insert(call);
            answer(listener, id, call.0);
        }
    }
}

fn receive(listener: &OwnedFd) -> Option<(u64, Call)> {
    // SAFETY: an all-zero notification is a valid value and what the kernel demands (INV-CONFINE-2).
    let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: INV-CONFINE-2: of the size that the request's number holds.
    let received = unsafe { libc::ioctl(listener.as_raw_fd(), NOTIFICATION_RECEIVE, &raw mut notification) };
    (received == 0).then_some((notification.id, (notification.data.nr, notification.data.args)))
}

/// `clone3` does not exist, as in a sandbox; all else passes.
fn answer(listener: &OwnedFd, id: u64, number: i32) {
    let absent = i64::from(number) == libc::SYS_clone3;
    let response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: if absent { -libc::ENOSYS } else { 0 },
        flags: if absent { 0 } else { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 },
    };
    // SAFETY: INV-CONFINE-2: of the size that the request's number holds.
    unsafe { libc::ioctl(listener.as_raw_fd(), NOTIFICATION_SEND, &raw const response) };
}
