//! The other process of a side: this program again, as a worker behind the bare ring or as a plain
//! HTTP server, or on its way to become a node or what a node needs. It ends with its standard input or with the thread
//! that started it.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::function::{ANSWER_BYTES, REQUEST_BYTES, work};
use crate::functions::{Kind, file_name};
use crate::sides::mfaas::become_program;
use crate::sides::{http, line};
use crate::sys::library::{Library, c_path};
use crate::sys::{die_with_parent, pin};

/// What a worker is started with.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// `plain`, `kept`, `per-request`, `http` or `node`.
    mode: String,
    /// The core to stay on.
    #[arg(long)]
    core: usize,
    /// Other cores that `node` may use.
    #[arg(long = "other-core", value_name = "CORE")]
    other_cores: Vec<usize>,
    /// What `node` becomes.
    #[arg(long)]
    program: Option<PathBuf>,
    /// What that is given.
    #[arg(long = "argument", value_name = "ARGUMENT")]
    arguments: Vec<String>,
    /// Where the libraries lie.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// How many functions there are.
    #[arg(long, default_value_t = 1)]
    functions: usize,
    /// Their kind, for `plain`.
    #[arg(long, default_value_t = 0)]
    kind: u64,
    /// Their work, for `plain`.
    #[arg(long, default_value_t = 1)]
    rounds: u64,
}

impl Serve {
    /// Serves until whoever started it has had enough.
    pub fn run(&self) -> anyhow::Result<()> {
        if self.mode == "node" {
            let cores = [&[self.core], &*self.other_cores].concat();
            let program = self.program.as_deref().context("--program is missing")?;
            return become_program(program, &self.arguments, &cores);
        }
        // Before the death signal is set: descriptor 3 must be the parent's, not one of ours.
        let memory = (self.mode != "http").then(|| mfaas_ring::take_inherited(line::FD_LINE)).transpose()?;
        die_with_parent()?;
        pin(self.core)?;
        match (&*self.mode, memory) {
            ("http", _) => http::serve(),
            ("plain", Some(memory)) => {
                let kind = Kind { kind: self.kind, rounds: self.rounds };
                line::serve(memory, |function, request, answer| {
                    Ok(work(&kind.constants(function), request, answer))
                })
            }
            ("kept", Some(memory)) => {
                let libraries = self.open_all()?;
                line::serve(memory, |function, request, answer| call(&libraries, function, request, answer))
            }
            ("per-request", Some(memory)) => {
                let paths = self.paths()?;
                line::serve(memory, |function, request, answer| {
                    let path = paths.get(function as usize).context("no such function")?;
                    Ok(Library::open(path)?.call(request, answer))
                })
            }
            _ => bail!("no such worker: {}", self.mode),
        }
    }

    fn paths(&self) -> anyhow::Result<Vec<CString>> {
        let directory = self.directory.as_deref().context("--directory is missing")?;
        (0..self.functions).map(|id| c_path(&Path::new(directory).join(file_name(id)))).collect()
    }

    fn open_all(&self) -> anyhow::Result<Vec<Library>> {
        self.paths()?.iter().map(|path| Library::open(path)).collect()
    }
}

fn call(
    libraries: &[Library],
    function: u64,
    request: &[u8; REQUEST_BYTES],
    answer: &mut [u8; ANSWER_BYTES],
) -> anyhow::Result<usize> {
    Ok(libraries.get(function as usize).context("no such function")?.call(request, answer))
}
