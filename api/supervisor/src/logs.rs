//! The logs of the programs: each program writes into a pipe, the supervisor copies whole lines into files of bounded size and
//! number.
//!
//! Must never make a program wait for its log longer than a write to the disk takes, and never end anything: what cannot be
//! written is counted, and told in the log as soon as it takes lines again.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::SupervisorError;
use crate::layout::Home;

/// A file of a log is set aside before it grows beyond this.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Files of one log that were set aside, `NAME.log.1` the youngest.
const OLD_FILES_MAX: u32 = 4;
/// A longer line is broken.
const LINE_BYTES_MAX: usize = 64 << 10;
/// What a program may have written and we have not read, where the kernel lets a pipe be that large.
const PIPE_BYTES: usize = 1 << 20;
/// How long the last lines of a program that ended may take to be in its log.
const LAST_LINES_WAIT: Duration = Duration::from_secs(1);

/// How lines of our own look among those of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As people read them.
    Text,
    /// A JSON object each (`MFAAS_LOG_JSON=1`).
    Json,
}

/// One log, which takes lines whatever happens to its files.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    form: Form,
    file: Option<File>,
    /// Lines that could not be written, and why the last of them.
    missing: u64,
    cause: String,
}

impl Log {
    /// The log at `path`; its file is made with the first line.
    pub(crate) fn at(path: PathBuf, form: Form) -> Self {
        Self { path, form, file: None, missing: 0, cause: String::new() }
    }

    /// Adds whole lines, all of them or none.
    pub(crate) fn append(&mut self, lines: &[u8]) {
        let mut text = self.notice();
        text.extend(lines);
        match self.write(&text) {
            Ok(()) => self.missing = 0,
            Err(error) => {
                self.missing += lines.iter().filter(|byte| **byte == b'\n').count() as u64;
                self.cause = error.to_string();
            }
        }
    }

    /// The present file, once a line was written.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let mut file = self.file_with_room(text.len() as u64)?;
        let before = file.metadata()?.len();
        file.write_all(text).inspect_err(|_| {
            // The beginning of a line would look like a whole one. If this fails as well, it does.
            let _ = file.set_len(before);
        })
    }

    /// The present file, or the next one where it is full. One that somebody removed is made again.
    fn file_with_room(&mut self, bytes: u64) -> io::Result<&File> {
        let file = match self.file.take() {
            Some(file) if file.metadata()?.nlink() > 0 => file,
            Some(_) | None => open(&self.path)?,
        };
        let len = file.metadata()?.len();
        let is_full = len > 0 && len + bytes > FILE_BYTES_MAX;
        let file = if is_full { self.rotate()? } else { file };
        Ok(self.file.insert(file))
    }

    /// Sets the present file aside. Fails with everything in its place but for the oldest file: that makes room first.
    fn rotate(&self) -> io::Result<File> {
        let old = |number: u32| self.path.with_extension(format!("log.{number}"));
        found(std::fs::remove_file(old(OLD_FILES_MAX)))?;
        let next = self.path.with_extension("log.next");
        let file = open(&next)?;
        for number in (1..OLD_FILES_MAX).rev() {
            found(std::fs::rename(old(number), old(number + 1)))?;
        }
        found(std::fs::rename(&self.path, old(1)))?;
        std::fs::rename(&next, &self.path)?;
        Ok(file)
    }

    /// A line about those that are missing, if any are.
    fn notice(&self) -> Vec<u8> {
        if self.missing == 0 {
            return Vec::new();
        }
        let time = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        let (message, lines, cause) =
            ("lines of this log are missing: they could not be written", self.missing, &self.cause);
        let line = match self.form {
            Form::Text => format!("{time}  WARN mfaas: {message} lines={lines} cause={cause:?}\n"),
            Form::Json => {
                let fields = serde_json::json!({ "message": message, "lines": lines, "cause": cause });
                let line = serde_json::json!({
                    "timestamp": time, "level": "WARN", "fields": fields, "target": "mfaas",
                });
                format!("{line}\n")
            }
        };
        line.into_bytes()
    }
}

/// The supervisor's own log, for what a detached supervisor writes before it knows its log.
pub fn open_supervisor_log(home: &Home) -> Result<File, SupervisorError> {
    let (directory, path) = (home.join("logs"), home.log("supervisor"));
    std::fs::create_dir_all(&directory).map_err(SupervisorError::io("cannot make", directory))?;
    open(&path).map_err(SupervisorError::io("cannot open", path))
}

/// Opens a file of a log for adding lines; its owner alone reads it.
fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).mode(0o600).open(path)
}

/// What is not there needs no moving.
fn found(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A log that several write to.
pub(crate) type SharedLog = Arc<Mutex<Log>>;

/// The log, for the time of one write.
pub(crate) fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a program writes, on its way into its log.
#[derive(Debug)]
pub(crate) struct Copying(Receiver<()>);

impl Copying {
    /// Copies lines from `pipe` until nobody can write into it any more.
    pub(crate) fn start(pipe: PipeReader, log: SharedLog) -> io::Result<Self> {
        // Best effort: beyond its default a pipe counts against what its user may have.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, PIPE_BYTES);
        let (done, wait) = channel();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            copy(pipe, &log);
            drop(done);
        })?;
        Ok(Self(wait))
    }

    /// Waits for the last lines of a program that has ended. Not for ever: a process that it left behind may hold the pipe.
    pub(crate) fn finish(&self) {
        let _ = self.0.recv_timeout(LAST_LINES_WAIT);
    }
}

fn copy(mut pipe: PipeReader, log: &Mutex<Log>) {
    let mut buffer = vec![0; LINE_BYTES_MAX];
    let mut text = Vec::new();
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => {
                text.extend(buffer.iter().take(bytes));
                let whole = whole_lines(&mut text);
                if !whole.is_empty() {
                    lock(log).append(&whole);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    // A program that was killed in the middle of a line.
    if !text.is_empty() {
        text.push(b'\n');
        lock(log).append(&text);
    }
}

/// Takes what ends with a line feed out of `text`, and all of it where a line is too long.
fn whole_lines(text: &mut Vec<u8>) -> Vec<u8> {
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let rest = text.split_off(end);
    let mut whole = std::mem::replace(text, rest);
    if text.len() >= LINE_BYTES_MAX {
        whole.append(text);
        whole.push(b'\n');
    }
    whole
}

#[cfg(test)]
mod tests;
