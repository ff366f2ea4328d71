//! What runs inside: each probe tries one thing. Exit code 0 means that it could.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The argument that makes this executable a probe.
pub(crate) const PROBE: &str = "probe";
/// Exit code of an attempt that was refused.
pub(crate) const REFUSED: u8 = 10;

/// A probe by its name, with its arguments.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let could = match arguments.as_slice() {
        ["read", path] => std::fs::read(path).is_ok(),
        ["see", path] => std::fs::symlink_metadata(path).is_ok(),
        ["write", path] => std::fs::write(path, "written").is_ok(),
        ["execute", path] => {
            Command::new(path).args([PROBE, "nothing"]).status().is_ok_and(|status| status.success())
        }
        ["connect", port] => TcpStream::connect(format!("127.0.0.1:{port}")).is_ok(),
        ["signal", pid] => signal(pid),
        ["environment"] => std::env::vars_os().count() == 0,
        ["allocate", bytes] => allocate(bytes.parse().unwrap()),
        ["threads", count] => threads(count.parse().unwrap()),
        ["fill", path, bytes] => fill(path, bytes.parse().unwrap()),
        ["files", count] => files(count.parse().unwrap()),
        ["flood", bytes] => flood(bytes.parse().unwrap()),
        ["input"] => std::io::stdin().read(&mut [0]).is_ok_and(|length| length == 0),
        ["spin", ..] => spin(),
        ["sleep", seconds, ..] => sleep(seconds.parse().unwrap()),
        ["leave", marker] => Command::new("/probe").args([PROBE, "sleep", "600", marker]).spawn().is_ok(),
        ["each", count, marker, rest @ ..] => each(count.parse().unwrap(), marker, rest),
        ["hold-memory", bytes, _marker] => hold_memory(bytes.parse().unwrap()),
        ["bomb", marker] => bomb(marker),
        ["search", first, second, roots @ ..] => search(&[*first, *second].concat(), roots),
        ["nothing"] => true,
        unknown => panic!("no probe {unknown:?}"),
    };
    if could { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) }
}

fn signal(pid: &str) -> bool {
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::test_kill_process(pid).is_ok()
}

fn allocate(bytes: usize) -> bool {
    const CHUNK: usize = 1 << 20;
    let mut held = Vec::new();
    for _ in 0..bytes / CHUNK {
        held.push(vec![1_u8; CHUNK]);
    }
    std::hint::black_box(held).len() == bytes / CHUNK
}

/// Prints how many threads it could have at once.
fn threads(count: usize) -> bool {
    let mut held = 0;
    for _ in 0..count {
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        if thread.spawn(|| std::thread::sleep(Duration::from_secs(600))).is_err() {
            break;
        }
        held += 1;
    }
    println!("{held}");
    held == count
}

fn fill(path: &str, bytes: usize) -> bool {
    let chunk = vec![7_u8; 1 << 20];
    let mut file = std::fs::File::create(path).unwrap();
    (0..bytes.div_ceil(chunk.len())).all(|_| file.write_all(&chunk).is_ok())
}

/// Files of 1 MiB each, and then time for somebody to notice.
fn files(count: usize) -> bool {
    let all = (0..count).all(|number| fill(&format!("file-{number}"), 1 << 20));
    std::thread::sleep(Duration::from_secs(30));
    all
}

fn flood(bytes: usize) -> bool {
    let chunk = vec![b'x'; 64 << 10];
    (0..bytes / chunk.len()).all(|_| std::io::stdout().write_all(&chunk).is_ok())
}

fn spin() -> bool {
    let mut number = 0_u64;
    loop {
        number = std::hint::black_box(number.wrapping_add(1));
    }
}

fn sleep(seconds: u64) -> bool {
    println!("sleeping");
    std::thread::sleep(Duration::from_secs(seconds));
    true
}

/// Starts so many probes with the marker behind their arguments, and waits for all of them.
fn each(count: usize, marker: &str, probe: &[&str]) -> bool {
    let start = || Command::new("/probe").arg(PROBE).args(probe).arg(marker).spawn();
    let started: Vec<_> = (0..count).filter_map(|_| start().ok()).collect();
    println!("started {}", started.len());
    started.into_iter().all(|mut child| child.wait().is_ok_and(|status| status.success()))
}

/// Long enough for somebody to notice.
fn hold_memory(bytes: usize) -> bool {
    let held = vec![1_u8; bytes];
    std::thread::sleep(Duration::from_secs(2));
    std::hint::black_box(held).len() == bytes
}

/// Processes after which a bomb grows no more.
const BOMB_PROCESSES_MAX: u32 = 1_500;

/// Each starts others like itself, for ever.
fn bomb(marker: &str) -> bool {
    // Numbers are those of the sandbox's own processes. A sandbox that does not end this in time fails its test; it
    // must not take the machine with it, which has no number left for anybody then.
    let mut started = 0;
    while started < BOMB_PROCESSES_MAX {
        if let Ok(child) = Command::new("/probe").args([PROBE, "bomb", marker]).spawn() {
            started = child.id();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Whether the text is in any file below these directories, or in a variable. What cannot be read
/// does not hold it.
fn search(wanted: &str, roots: &[&str]) -> bool {
    const FILE_BYTES_MAX: u64 = 64 << 20;
    let holds = |bytes: &[u8]| bytes.windows(wanted.len()).any(|window| window == wanted.as_bytes());
    let mut found = std::env::vars_os().any(|(_, value)| holds(value.as_encoded_bytes()));
    let mut open: Vec<std::path::PathBuf> = roots.iter().map(std::path::PathBuf::from).collect();
    let mut files = 0_u64;
    while let Some(path) = open.pop() {
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            open.extend(entries.map(|entry| entry.path()));
        } else if metadata.is_file() && metadata.len() <= FILE_BYTES_MAX {
            files += 1;
            found |= std::fs::read(&path).is_ok_and(|bytes| holds(&bytes));
        }
    }
    println!("{files} files");
    found
}
