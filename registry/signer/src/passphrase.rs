//! Where the passphrase of a key file comes from: a file, a descriptor, or somebody at the terminal.
//!
//! Must never take one from the arguments or the environment, which others can read, nor show it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::arguments::Arguments;

/// A line of a password manager is far below.
const PASSPHRASE_BYTES_MAX: usize = 1024;

/// The bytes of a passphrase, wiped when dropped.
pub(crate) type Passphrase = Zeroizing<Vec<u8>>;

/// Whom to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Terminal,
    /// Its first line.
    File(PathBuf),
}

impl Source {
    /// `--passphrase-file` or `--passphrase-fd`, with a prefix such as `keys-`; the terminal without either.
    pub(crate) fn of(arguments: &mut Arguments, prefix: &str) -> anyhow::Result<Self> {
        let file = arguments.value(&format!("--{prefix}passphrase-file"))?;
        let descriptor = arguments.value(&format!("--{prefix}passphrase-fd"))?;
        Ok(match (file, descriptor) {
            (Some(_), Some(_)) => {
                bail!("--{prefix}passphrase-file and --{prefix}passphrase-fd: give one of them")
            }
            (Some(file), None) => Self::File(file.into()),
            (None, Some(number)) => {
                let number: u32 =
                    number.parse().with_context(|| format!("--{prefix}passphrase-fd {number}"))?;
                Self::File(format!("/proc/self/fd/{number}").into())
            }
            (None, None) => Self::Terminal,
        })
    }

    /// The passphrase of the key file at `path`.
    pub(crate) fn read(&self, path: &Path) -> anyhow::Result<Passphrase> {
        match self {
            Self::Terminal => ask(&format!("Passphrase of {}: ", path.display()))
                .with_context(|| format!("{} takes a passphrase", path.display())),
            Self::File(file) => first_line(file),
        }
    }

    /// A passphrase that the key file at `path` is to take; who types it types it twice.
    pub(crate) fn read_new(&self, path: &Path) -> anyhow::Result<Passphrase> {
        let Self::File(file) = self else {
            let first = ask(&format!("New passphrase for {}: ", path.display()))?;
            ensure!(first == ask("The same again: ")?, "the two passphrases differ");
            return Ok(first);
        };
        first_line(file)
    }
}

fn first_line(path: &Path) -> anyhow::Result<Passphrase> {
    let about = || format!("the passphrase in {}", path.display());
    let file = File::open(path).with_context(about)?;
    let metadata = file.metadata().with_context(about)?;
    let kind = metadata.file_type();
    // A pipe or a terminal has no readers besides.
    let is_stored = !kind.is_fifo() && !kind.is_char_device() && !kind.is_socket();
    ensure!(
        !is_stored || metadata.permissions().mode() & 0o077 == 0,
        "{} can be read by others (mode {:o})",
        path.display(),
        metadata.permissions().mode() & 0o777
    );
    line(file).with_context(about)
}

/// Up to the end of the line, which does not count.
fn line(from: impl Read) -> anyhow::Result<Passphrase> {
    let mut line = Zeroizing::new(Vec::with_capacity(PASSPHRASE_BYTES_MAX + 2));
    // One piece, so that no copy stays behind in a buffer that grew.
    let limit = PASSPHRASE_BYTES_MAX as u64 + 1;
    BufReader::with_capacity(1, from.take(limit)).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    ensure!(!line.is_empty(), "it is empty");
    ensure!(line.len() <= PASSPHRASE_BYTES_MAX, "it is longer than {PASSPHRASE_BYTES_MAX} bytes");
    Ok(line)
}

fn ask(prompt: &str) -> anyhow::Result<Passphrase> {
    let mut terminal = File::options()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .context("there is no terminal to ask at: use --passphrase-file or --passphrase-fd")?;
    let keyboard = terminal.try_clone()?;
    let silent = Silent::new(&keyboard)?;
    // Whoever sees this can begin: nothing that is typed from now on is thrown away.
    terminal.write_all(prompt.as_bytes())?;
    let answer = line(&terminal);
    drop(silent);
    terminal.write_all(b"\n")?;
    answer.context("the passphrase")
}

/// What is typed is not shown as long as this lives.
struct Silent<'a>(&'a File, Termios);

impl<'a> Silent<'a> {
    fn new(terminal: &'a File) -> anyhow::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO);
        // What was typed ahead was shown.
        tcsetattr(terminal, OptionalActions::Flush, &modes)?;
        Ok(Self(terminal, before))
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        // Whoever sits there can still type `stty echo`.
        let _ = tcsetattr(self.0, OptionalActions::Now, &self.1);
    }
}
