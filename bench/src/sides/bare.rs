//! The sides behind the bare ring: nothing at all, and the paper's two language modes.
//!
//! In the language modes the worker of the paper runs functions that were compiled to libraries,
//! either opened once and kept or opened for each request (ATC 2018, section 3).

use std::time::Duration;

use super::line::Line;
use super::{Kit, Side, Timing, scattered};
use crate::functions::{Files, Form, Kind};

/// What the worker behind the ring does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Answers by itself: a bare ping-pong.
    Plain,
    /// Calls a function of a library that it opened at its start.
    Kept,
    /// Opens the library, calls its function, closes it.
    PerRequest,
}

/// A worker behind the bare ring.
#[derive(Debug)]
pub struct Bare {
    line: Line,
    /// Kept as long as the worker may open them.
    _files: Option<Files>,
}

impl Bare {
    /// Starts a worker with `functions` distinct functions.
    pub fn start(kit: &Kit, mode: Mode, kind: Kind, functions: usize) -> anyhow::Result<Self> {
        let numbers = |name: &str, number: u64| [format!("--{name}"), number.to_string()];
        let (mut arguments, files) = match mode {
            Mode::Plain => (vec!["plain".to_owned()], None),
            Mode::Kept | Mode::PerRequest => {
                let files = kit.functions.files(Form::Library, kind, functions)?;
                let mode = if mode == Mode::Kept { "kept" } else { "per-request" };
                let directory = files.directory().display().to_string();
                (vec![mode.to_owned(), "--directory".to_owned(), directory], Some(files))
            }
        };
        arguments.extend(numbers("functions", functions as u64));
        arguments.extend(numbers("kind", kind.kind));
        arguments.extend(numbers("rounds", kind.rounds));
        Ok(Self { line: Line::start(kit, kind, &arguments)?, _files: files })
    }
}

impl Side for Bare {
    fn protections(&self) -> String {
        "none: the function runs in the worker as it is".to_owned()
    }

    fn wake(&mut self) -> anyhow::Result<()> {
        self.line.wake()
    }

    fn rest(&mut self) -> anyhow::Result<()> {
        self.line.rest()
    }

    fn call(&mut self, function: u64) -> anyhow::Result<Timing> {
        self.line.call(function)
    }

    fn pipelined(&mut self, calls: u64, functions: u64) -> anyhow::Result<Duration> {
        self.line.pipelined(calls, |number| scattered(number, functions))
    }

    fn process(&self) -> Option<u32> {
        Some(self.line.process())
    }
}
