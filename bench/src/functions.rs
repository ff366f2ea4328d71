//! The functions that every side runs: built once in each form by the pinned compiler, then
//! changed into as many distinct files as a row asks for.
//!
//! A thousand functions are a thousand files with constants of their own, not a thousand
//! compilations: to caches, page tables and the dynamic linker they are as different as any.

mod examples;
mod toolchain;

pub use examples::Example;
pub(crate) use toolchain::compiler;

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::function::{ANSWER_BYTES, Constants, MAGIC, REQUEST_BYTES, work};
use crate::sys::Tsc;

/// Of calls in numbers, one in so many is verified in full.
pub const VERIFIED_EVERY: u64 = 64;

/// Names of the directories in which functions are built, followed by the process that builds.
const PREFIX: &str = "mfaas-bench-";

/// How a function is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An image with std for the executor.
    Hosted,
    /// The same as the compiler links it: its code does not verify.
    AsLinked,
    /// An image without std, without writable data, for the executor.
    Smallest,
    /// An image with std for the executor, whose handler may wait.
    Waiting,
    /// The same, whose handler reaches data.
    Data,
    /// A library with std for dlopen.
    Library,
}

/// All forms, built.
#[derive(Debug)]
pub struct Functions {
    directory: tempfile::TempDir,
    hosted: Base,
    as_linked: Base,
    smallest: Base,
    waiting: Base,
    data: Base,
    library: Base,
}

/// One built file and where its constants lie.
#[derive(Debug)]
struct Base {
    bytes: Vec<u8>,
    at: usize,
}

impl Base {
    fn of(bytes: Vec<u8>) -> anyhow::Result<Self> {
        let magic = MAGIC.to_ne_bytes();
        let mut places = bytes.windows(8).enumerate().filter(|(_, window)| **window == magic);
        let (at, _) = places.next().context("a built function without its constants")?;
        anyhow::ensure!(places.next().is_none(), "a built function with two places for its constants");
        Ok(Self { bytes, at })
    }

    fn patched(&self, constants: &Constants) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let words = [constants.magic, constants.kind, constants.id, constants.rounds];
        for (place, word) in bytes[self.at..self.at + 32].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

impl Functions {
    /// Compiles every form, some seconds in all. What was built is removed with this value.
    pub fn build() -> anyhow::Result<Self> {
        sweep(&std::env::temp_dir());
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let directory =
            tempfile::Builder::new().prefix(&prefix).tempdir().context("a directory to build in")?;
        let built = toolchain::build(directory.path())?;
        Ok(Self {
            directory,
            hosted: Base::of(built.hosted)?,
            as_linked: Base::of(built.as_linked)?,
            smallest: Base::of(built.smallest)?,
            waiting: Base::of(built.waiting)?,
            data: Base::of(built.data)?,
            library: Base::of(built.library)?,
        })
    }

    /// A bulk function of examples/, compiled now: some tens of seconds. Once for each.
    pub fn example(&self, name: &str) -> anyhow::Result<Example> {
        examples::build(self.directory.path(), name)
    }

    fn base(&self, form: Form) -> &Base {
        match form {
            Form::Hosted => &self.hosted,
            Form::AsLinked => &self.as_linked,
            Form::Smallest => &self.smallest,
            Form::Waiting => &self.waiting,
            Form::Data => &self.data,
            Form::Library => &self.library,
        }
    }

    /// The file of one function.
    pub fn file(&self, form: Form, constants: &Constants) -> Vec<u8> {
        self.base(form).patched(constants)
    }

    /// Bytes of one file.
    pub fn file_bytes(&self, form: Form) -> usize {
        self.base(form).bytes.len()
    }

    /// A fresh directory with `count` files, `0.so` to `count - 1.so`, whose ids are their numbers.
    pub fn files(&self, form: Form, kind: Kind, count: usize) -> anyhow::Result<Files> {
        let directory = tempfile::Builder::new().prefix("files-").tempdir_in(self.directory.path())?;
        for id in 0..count {
            let path = directory.path().join(file_name(id));
            std::fs::write(&path, self.file(form, &kind.constants(id as u64)))
                .with_context(|| format!("write {}", path.display()))?;
        }
        Ok(Files { directory, count })
    }
}

/// Removes what runs that were killed left behind: directories named after processes that are gone.
fn sweep(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            // What is somebody else's stays; it is in nobody's way.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Files of many functions, removed with this value.
#[derive(Debug)]
pub struct Files {
    directory: tempfile::TempDir,
    count: usize,
}

impl Files {
    /// Where they lie.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// One of them.
    pub fn path(&self, id: usize) -> PathBuf {
        self.directory.path().join(file_name(id))
    }
}

/// The file of function `id` in a directory of [`Functions::files`].
pub fn file_name(id: usize) -> String {
    format!("{id}.so")
}

/// What a function does, without who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// One of the kinds of [`crate::function`].
    pub kind: u64,
    /// Work of one call.
    pub rounds: u64,
}

impl Kind {
    /// Answers at once.
    pub const EMPTY: Self = Self { kind: crate::function::EMPTY, rounds: 1 };
    /// SHA-512 over 64 bytes.
    pub const HASH: Self = Self { kind: crate::function::HASH, rounds: 1 };
    /// Never answers.
    pub const SPIN: Self = Self { kind: crate::function::SPIN, rounds: 1 };
    /// Answers after so many lines for the log.
    pub const fn log(lines: u64) -> Self {
        Self { kind: crate::function::LOG, rounds: lines }
    }

    /// Waits once with so many bytes of memory in use; [`Form::Waiting`] alone does.
    pub const fn wait(bytes: u64) -> Self {
        Self { kind: crate::function::WAIT, rounds: bytes }
    }
    /// The same without waiting.
    pub const fn hold(bytes: u64) -> Self {
        Self { kind: crate::function::HOLD, rounds: bytes }
    }

    /// Puts a value of so many bytes; this and what follows only as [`Form::Data`].
    pub const fn put(bytes: u64) -> Self {
        Self { kind: crate::function::PUT, rounds: bytes }
    }
    /// Gets that value so many times.
    pub const fn get(times: u64) -> Self {
        Self { kind: crate::function::GET, rounds: times }
    }
    /// Puts an object.
    pub const PUT_OBJECT: Self = Self { kind: crate::function::PUT_OBJECT, rounds: 1 };
    /// Reads that object so many times.
    pub const fn read_object(times: u64) -> Self {
        Self { kind: crate::function::READ_OBJECT, rounds: times }
    }
    /// Writes a file.
    pub const WRITE_FILE: Self = Self { kind: crate::function::WRITE_FILE, rounds: 1 };
    /// Reads that file so many times.
    pub const fn read_file(times: u64) -> Self {
        Self { kind: crate::function::READ_FILE, rounds: times }
    }
    /// Calls another function so many times.
    pub const fn call(times: u64) -> Self {
        Self { kind: crate::function::CALL, rounds: times }
    }

    /// Runs for about so long on the core that this is called on.
    pub fn busy_micros(micros: f64, tsc: Tsc) -> Self {
        const TRIED: u64 = 200_000;
        let trial = Self { kind: crate::function::BUSY, rounds: TRIED };
        // The fastest of a few: what slows one of them down is not the function.
        let cycles = (0..7).map(|_| trial.cycles()).min().unwrap_or(1).max(1);
        let rounds = tsc.cycles(micros) as f64 * TRIED as f64 / cycles as f64;
        Self { rounds: (rounds as u64).max(1), ..trial }
    }

    /// The constants of function `id`.
    pub fn constants(self, id: u64) -> Constants {
        Constants { magic: MAGIC, kind: self.kind, id, rounds: self.rounds }
    }

    /// Cycles of one plain call.
    fn cycles(self) -> u64 {
        let (request, mut answer) = ([1; REQUEST_BYTES], [0; ANSWER_BYTES]);
        let begin = crate::sys::stamp();
        std::hint::black_box(work(&self.constants(0), &request, &mut answer));
        crate::sys::stamp().wrapping_sub(begin)
    }
}

/// The 64 bytes of a call: different for every number.
pub fn request(number: u64) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    for (place, bytes) in request.chunks_exact_mut(8).enumerate() {
        let word = number.wrapping_add(place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    request
}

/// An error that says what is wrong with any answer but the right one.
pub fn verified(constants: &Constants, request: &[u8; REQUEST_BYTES], answer: &[u8]) -> anyhow::Result<()> {
    let mut expected = [0; ANSWER_BYTES];
    let bytes = work(constants, request, &mut expected);
    anyhow::ensure!(
        answer == &expected[..bytes],
        "function {} gave a wrong answer of {} bytes",
        constants.id,
        answer.len()
    );
    Ok(())
}

/// Like [`verified`] for one call in [`VERIFIED_EVERY`], by its number; of the others only who
/// answered and how long the answer is. For calls in numbers: to do each one's work again would
/// measure the caller.
pub fn glanced(
    number: u64,
    constants: &Constants,
    request: &[u8; REQUEST_BYTES],
    answer: &[u8],
) -> anyhow::Result<()> {
    if number.is_multiple_of(VERIFIED_EVERY) {
        return verified(constants, request, answer);
    }
    let bytes = if constants.kind == crate::function::HASH { ANSWER_BYTES } else { 16 };
    anyhow::ensure!(
        answer.len() == bytes && answer.starts_with(&constants.id.to_ne_bytes()),
        "function {} gave a wrong answer of {} bytes",
        constants.id,
        answer.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests;
