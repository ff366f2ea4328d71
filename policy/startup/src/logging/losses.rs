//! Lines that could not be written: counted, and told in one line as soon as one gets through again.
//!
//! Standard error may be a file on a full disk, or a pipe that nobody reads any more. Must never make the program wait for that,
//! or end.

use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// How the lines of the log look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

/// What is missing in the log.
#[derive(Debug)]
pub(crate) struct Losses {
    form: Form,
    missing: Mutex<Missing>,
}

#[derive(Debug, Default)]
struct Missing {
    lines: u64,
    cause: String,
    /// The last bytes that were written do not end a line.
    is_cut: bool,
}

impl Losses {
    pub(crate) fn new(form: Form) -> Self {
        Self { form, missing: Mutex::default() }
    }

    /// Writes a line, after one about those that are missing. What cannot be written is missing from then on.
    pub(crate) fn write(&self, out: &mut impl Write, line: &[u8]) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if missing.lines > 0 {
            let notice = self.notice(&missing);
            if missing.put(out, notice.as_bytes()).is_ok() {
                missing.lines = 0;
            }
        }
        if let Err(error) = missing.put(out, line) {
            missing.lines += 1;
            missing.cause = error.to_string();
        }
    }

    #[cfg(test)]
    pub(crate) fn missing_lines(&self) -> u64 {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).lines
    }

    fn notice(&self, missing: &Missing) -> String {
        let Missing { lines, cause, .. } = missing;
        let mut time = String::new();
        // Fails only where a string does not grow.
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        let text = "lines of this log are missing: they could not be written";
        match self.form {
            Form::Text => {
                format!("{time}  WARN mfaas_startup: {text} lines={lines} cause={cause:?}\n")
            }
            // The system's reasons are plain text, in which Rust quotes nothing that JSON does not.
            Form::Json => format!(
                "{{\"timestamp\":\"{time}\",\"level\":\"WARN\",\"fields\":{{\"message\":\"{text}\",\
                 \"lines\":{lines},\"cause\":{cause:?}}},\"target\":\"mfaas_startup\"}}\n"
            ),
        }
    }
}

impl Missing {
    /// Writes a whole line; where an earlier one was cut, on a line of its own.
    fn put(&mut self, out: &mut impl Write, line: &[u8]) -> io::Result<()> {
        if self.is_cut {
            self.put_bytes(out, b"\n")?;
        }
        self.put_bytes(out, line)
    }

    fn put_bytes(&mut self, out: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match out.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.is_cut = bytes.get(written - 1) != Some(&b'\n');
                    bytes = bytes.get(written..).unwrap_or_default();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
