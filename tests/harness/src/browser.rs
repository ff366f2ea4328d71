//! Runs a script of `tests/browser`, which drives a real Chromium, and reads what it found.
//!
//! The script gets one JSON document as its argument and talks over its standard output, line by line:
//! `ask WORD` waits until the test has done what the word stands for, `result JSON` is what it found, and
//! everything else is for people. A script that fails, hangs or leaves a process behind fails the test; so
//! does a machine without a browser, because a check that is skipped is no check.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

use crate::checkout;

/// Where Debian's package puts it; the scripts start the same.
const CHROMIUM: &str = "/usr/bin/chromium";
/// What Debian 12 has.
const NODE_MAJOR_MIN: u32 = 18;
/// How long a browser may take to end once it was told to.
const END_TIME_MAX: Duration = Duration::from_secs(5);
/// Names the run in the environment of every process of it.
const RUN: &str = "MFAAS_BROWSER_RUN";

/// Runs `tests/browser/{script}` with `config` and gives what it found. `asked` is called with each word
/// that the script asks for.
///
/// # Panics
/// When the machine lacks what it takes, when the script fails or takes longer than `limit`, and when a
/// process of it outlives it.
pub fn browse(script: &str, config: &Value, limit: Duration, mut asked: impl FnMut(&str)) -> Value {
    demand_browser();
    let directory = checkout().join("tests/browser");
    let mut run = Run::start(&directory, script, config);
    let found = run.follow(limit, &mut asked);
    let status = run.end(found.is_err());
    let said = run.said();
    let left = run.clear();
    assert!(left.is_empty(), "{script} left processes behind: {left:?}\n{said}");
    match found {
        Ok(Some(found)) if status == Some(0) => found,
        Ok(_) => panic!("{script} failed (status {status:?}):\n{said}"),
        Err(why) => panic!("{script} {why}:\n{said}"),
    }
}

/// Makes sure that this machine has what [`browse`] takes, before a test works for minutes and finds out then.
///
/// # Panics
/// When it lacks something, with what to do about it.
pub fn demand_browser() {
    let directory = checkout().join("tests/browser");
    let lacks = |what: &str| panic!("{what}: run `scripts/prepare --tests`, which installs it");
    if !Path::new(CHROMIUM).exists() {
        lacks(&format!("there is no {CHROMIUM}"));
    }
    let version = Command::new("node").arg("--version").output();
    let version =
        version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|text| text.parse().ok());
    if major.unwrap_or(0) < NODE_MAJOR_MIN {
        lacks(&format!(
            "there is no node of version {NODE_MAJOR_MIN} or later (`node --version`: {version:?})"
        ));
    }
    let text = fs::read_to_string(directory.join("package-lock.json")).unwrap_or_default();
    let lock: Value = serde_json::from_str(&text).unwrap_or_default();
    for (path, package) in
        lock["packages"].as_object().into_iter().flatten().filter(|(path, _)| !path.is_empty())
    {
        let text = fs::read_to_string(directory.join(path).join("package.json")).unwrap_or_default();
        let installed: Value = serde_json::from_str(&text).unwrap_or_default();
        if installed["version"].is_null() || installed["version"] != package["version"] {
            lacks(&format!("tests/browser lacks {path} {}", package["version"]));
        }
    }
}

/// A script that runs.
struct Run {
    id: String,
    child: Child,
    lines: Receiver<String>,
    readers: Vec<JoinHandle<Vec<String>>>,
    /// Its home and its temporary directory; gone with the run.
    _home: TempDir,
}

impl Run {
    fn start(directory: &Path, script: &str, config: &Value) -> Self {
        let home = TempDir::with_prefix("mfaas-browser-").unwrap_or_else(|error| panic!("temp dir: {error}"));
        let file = home.path().join("config.json");
        fs::write(&file, config.to_string()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let id = uuid::Uuid::new_v4().simple().to_string();
        let mut child = Command::new("node")
            .arg(directory.join(script))
            .arg(&file)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env(RUN, &id)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("node: {error}"));
        let (sender, lines) = channel();
        let readers = vec![reader(child.stdout.take(), Some(sender)), reader(child.stderr.take(), None)];
        Self { id, child, lines, readers, _home: home }
    }

    /// Does what is asked for until the script has said what it found, ended, or taken too long.
    fn follow(&mut self, limit: Duration, asked: &mut dyn FnMut(&str)) -> Result<Option<Value>, String> {
        let ends_at = Instant::now() + limit;
        let mut found = None;
        loop {
            match self.lines.recv_timeout(ends_at.saturating_duration_since(Instant::now())) {
                Ok(line) => match line.split_once(' ') {
                    Some(("ask", word)) => {
                        asked(word);
                        self.answer();
                    }
                    Some(("result", text)) => {
                        let value = serde_json::from_str(text);
                        found = Some(value.map_err(|error| format!("found what is no JSON ({error})"))?);
                    }
                    Some(_) | None => {}
                },
                Err(RecvTimeoutError::Disconnected) => return Ok(found),
                Err(RecvTimeoutError::Timeout) => return Err(format!("took longer than {limit:?}")),
            }
        }
    }

    fn answer(&mut self) {
        // A script that is gone shows in its status.
        if let Some(input) = &mut self.child.stdin {
            let _ = input.write_all(b"done\n").and_then(|()| input.flush());
        }
    }

    /// Lets the script end unless it had its time already, or ends it: on SIGTERM it closes its browser. Its
    /// exit code.
    fn end(&mut self, at_once: bool) -> Option<i32> {
        drop(self.child.stdin.take());
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)].into_iter().skip(usize::from(at_once)) {
            if let (Some(signal), Some(pid)) = (signal, Pid::from_raw(self.child.id().cast_signed())) {
                let _ = rustix::process::kill_process_group(pid, signal);
            }
            let ends_at = Instant::now() + END_TIME_MAX;
            while Instant::now() < ends_at {
                if let Ok(Some(status)) = self.child.try_wait() {
                    return status.code();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        None
    }

    /// Everything that it printed.
    fn said(&mut self) -> String {
        // A reader ends with the last process that holds the pipe, which `clear` may still have to end.
        let done = self.readers.iter().all(|reader| wait_until(|| reader.is_finished()));
        if !done {
            return "(its output is still held open)".to_owned();
        }
        let lines = self.readers.drain(..).flat_map(|reader| reader.join().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Ends what is left of the run, whole process groups at a time, and names it.
    fn clear(&self) -> Vec<i32> {
        if wait_until(|| self.processes().is_empty()) {
            return Vec::new();
        }
        let left = self.processes();
        let groups: BTreeSet<i32> = left.iter().filter_map(|pid| group_of(*pid)).collect();
        for group in groups.into_iter().filter_map(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        left
    }

    /// Processes that were started with the name of this run in their environment.
    fn processes(&self) -> Vec<i32> {
        let entry = format!("{RUN}={}", self.id);
        let is_of_it = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_of_it).collect()
    }
}

/// Reads lines to the end, keeps them, and passes them on.
fn reader(
    stream: Option<impl Read + Send + 'static>,
    sender: Option<Sender<String>>,
) -> JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let lines = stream.map(BufReader::new).into_iter().flat_map(|stream| stream.lines());
        for line in lines.map_while(Result::ok) {
            if let Some(sender) = &sender {
                // Whoever no longer listens has its reason.
                let _ = sender.send(line.clone());
            }
            kept.push(line);
        }
        kept
    })
}

fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
    let ends_at = Instant::now() + END_TIME_MAX;
    while Instant::now() < ends_at {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    holds()
}

/// The process group of a process, its fifth field in `/proc/PID/stat`; the second may hold anything.
fn group_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

/// Where scripts put pictures of the pages: `target/tmp/{name}`, emptied.
///
/// # Panics
/// When it cannot be made.
pub fn pictures(target: &str, name: &str) -> PathBuf {
    let directory = Path::new(target).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    directory
}
