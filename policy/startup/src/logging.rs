//! The log of every program: lines on stderr, as text or as JSON.
//!
//! What a line quotes was often written by strangers: a path, a header, a compiler's message. Must never let a character of it
//! end the line, or steer a terminal: whoever reads the log takes every line for a program's own. And must never end the program:
//! a line that cannot be written is counted and told later.

mod losses;

use std::borrow::Cow;
use std::io::{self, Write};

use mfaas_trace::TraceError;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use losses::{Form, Losses};

/// Which lines: a filter as in <https://docs.rs/tracing-subscriber/latest/tracing_subscriber/filter/struct.EnvFilter.html>,
/// `info` by default.
const FILTER: &str = "MFAAS_LOG";
/// `1` makes each line a JSON object.
const JSON: &str = "MFAAS_LOG_JSON";

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter cannot be read.
    #[error("MFAAS_LOG is not a log filter: {0}")]
    Filter(String),
    /// Neither 0 nor 1.
    #[error("MFAAS_LOG_JSON is {0:?}; expected 0 or 1")]
    Json(String),
    /// A variable is not UTF-8.
    #[error("{0} is not UTF-8")]
    NotText(&'static str),
    /// Lines cannot be sent where the variables say.
    #[error(transparent)]
    Collector(#[from] TraceError),
    /// It was started before.
    #[error("the log cannot be started: {0}")]
    Started(String),
}

/// Starts logging as `MFAAS_LOG` and `MFAAS_LOG_JSON` say, and sending to a collector. Called once, before anything is logged and
/// when the TLS provider is there.
pub fn start_log() -> Result<(), LoggingError> {
    start_log_here()?;
    start_sending()
}

/// The first half of [`start_log`], for a program that has something to do before its first thread: lines on stderr.
pub fn start_log_here() -> Result<(), LoggingError> {
    let filter = read(FILTER)?.unwrap_or_else(|| "info".to_owned());
    let filter = EnvFilter::try_new(filter).map_err(|error| LoggingError::Filter(error.to_string()))?;
    let log = tracing_subscriber::fmt::layer();
    let log = match read(JSON)?.as_deref() {
        Some("1") => log.with_writer(Lines::new(io::stderr, Form::Json)).json().boxed(),
        None | Some("0") => log.with_writer(Lines::new(io::stderr, Form::Text)).with_ansi(false).boxed(),
        Some(other) => return Err(LoggingError::Json(other.to_owned())),
    };
    let started = tracing_subscriber::registry().with(log).with(ToCollector).with(filter).try_init();
    started.map_err(|error| LoggingError::Started(error.to_string()))
}

/// The second half: from now on, lines and spans go to a collector too, if the variables name one. Starts threads then.
pub fn start_sending() -> Result<(), LoggingError> {
    Ok(mfaas_trace::start(&program_name())?)
}

/// Hands on what is logged, once there is a collector; not what sending logs, which would make another line to send.
#[derive(Debug)]
struct ToCollector;

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for ToCollector {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if let Some(bridge) = mfaas_trace::log_bridge()
            && !mfaas_trace::is_of_the_sender(event.metadata().target())
        {
            bridge.on_event(event, context);
        }
    }
}

/// What the file of this program is called.
fn program_name() -> String {
    let file = std::env::current_exe().ok();
    let name = file.as_deref().and_then(|file| file.file_name()).and_then(|name| name.to_str());
    name.unwrap_or("mfaas").to_owned()
}

/// A variable; an empty one is none.
fn read(name: &'static str) -> Result<Option<String>, LoggingError> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(LoggingError::NotText(name)),
    }
}

/// Makes writers that keep each event on one line.
#[derive(Debug)]
struct Lines<M> {
    writers: M,
    losses: Losses,
}

impl<M> Lines<M> {
    fn new(writers: M, form: Form) -> Self {
        Self { writers, losses: Losses::new(form) }
    }
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Lines<M> {
    type Writer = Line<'a, M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Line { writer: self.writers.make_writer(), losses: &self.losses }
    }
}

/// Is given one event at a time, whole, with the line feed that ends it.
#[derive(Debug)]
struct Line<'a, W> {
    writer: W,
    losses: &'a Losses,
}

impl<W: Write> Write for Line<'_, W> {
    /// Never fails: whoever logs would tell the failure on the very stream that cannot be written, and panic.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let body = text.strip_suffix('\n').unwrap_or(&text);
        let line = format!("{}\n", escaped(body));
        self.losses.write(&mut self.writer, line.as_bytes());
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Control characters and the other ends of lines as JSON writes them, which people read as well. A backslash stays one: in
/// JSON it is doubled already, in a text nobody takes it for a line's end.
fn escaped(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            c if is_plain(c) => line.push(c),
            c => line.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    Cow::Owned(line)
}

#[cfg(test)]
mod tests;
