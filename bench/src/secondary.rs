//! What runs beside calls in `mfaas bench isolation`: work without an end that takes what it gets, in a process of its own, so
//! that it can be placed as a build is.
//!
//! It must never begin before it was placed, and never outlive whoever started it by more than one compilation.

mod bulk;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::fs::{Advice, MemfdFlags, fadvise, memfd_create, statfs};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use bulk::Calls;

use crate::functions::compiler;
use crate::load::uniform;
use crate::sides::Kit;
use crate::sides::mfaas::BulkTarget;
use crate::sys::cpu::tree_seconds;
use crate::sys::die_with_parent;

/// Threads at once, at most: each has a word in which it counts.
const THREADS_MAX: usize = 1_024;
const WORD: usize = 8;
/// Steps of one count of the work that computes: some hundred microseconds.
const STEPS: u64 = 1 << 17;
/// What is read and written at once, and how often until it begins again, in bytes and blocks.
const BLOCK_BYTES: usize = 1 << 20;
const BLOCKS: u64 = 16;
/// Builds at a time.
const BUILDS: usize = 2;
/// What they compile: a crate of ours that needs no other, some tenths of a second.
const SOURCE: &str = "../node-runtime/abi/src/lib.rs";
/// A file system that is memory (statfs(2)).
const TMPFS: i64 = 0x0102_1994;
/// How long its processes have to be gone once they were killed.
const END_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(2);

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Work {
    /// Computes, with as many threads as there are cores.
    Cpu,
    /// Writes blocks to a disk, each until it is there, and reads blocks that are not in memory.
    Disk,
    /// Compiles a crate, twice at a time.
    Builds,
    /// Calls a bulk function of a node that compresses a text, on as many connections as there are cores.
    BulkGzip,
    /// The same with one that makes pictures of a photo.
    BulkImages,
}

impl Work {
    /// What the other process is told.
    fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Disk => "disk",
            Self::Builds => "builds",
            Self::BulkGzip => "bulk-gzip",
            Self::BulkImages => "bulk-images",
        }
    }

    /// The bulk function that it calls, a directory of examples/.
    pub fn example(self) -> Option<&'static str> {
        match self {
            Self::Cpu | Self::Disk | Self::Builds => None,
            Self::BulkGzip => Some("gzip"),
            Self::BulkImages => Some("image-augmentation"),
        }
    }

    fn threads(self, cores: usize) -> usize {
        match self {
            Self::Cpu | Self::BulkGzip | Self::BulkImages => cores.min(THREADS_MAX),
            Self::Disk => 2,
            Self::Builds => BUILDS,
        }
    }

    /// What its progress is counted in.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Cpu => "counts/s",
            Self::Disk => "MiB/s",
            Self::Builds | Self::BulkGzip | Self::BulkImages => "CPU s/s",
        }
    }
}

/// The other process.
#[derive(Debug, clap::Args)]
pub struct Secondary {
    /// What to do without an end.
    #[arg(value_enum)]
    work: Work,
    /// How many cores there are.
    #[arg(long)]
    cores: usize,
    /// Where files may be made.
    #[arg(long)]
    directory: PathBuf,
    /// The node that is called.
    #[arg(long, requires = "path")]
    address: Option<SocketAddr>,
    /// The bulk function of that node.
    #[arg(long, requires = "address")]
    path: Option<String>,
}

impl Secondary {
    /// Waits until it was placed, then works until it is killed.
    pub fn run(&self) -> anyhow::Result<()> {
        die_with_parent()?;
        let target = self.address.zip(self.path.clone()).map(|(address, path)| BulkTarget { address, path });
        let mut calls = target.map(|target| Calls::new(self.work, target)).transpose()?;
        std::io::stdin().read_exact(&mut [0]).context("wait to be placed")?;
        calls.as_mut().map_or(Ok(()), Calls::begin)?;
        let calls = calls.map(Arc::new);
        let (ended, end) = mpsc::channel();
        for thread in 0..self.work.threads(self.cores) {
            let (work, directory, ended) = (self.work, self.directory.clone(), ended.clone());
            let calls = calls.clone();
            std::thread::spawn(move || {
                let mut counter = Counter { thread, count: 0 };
                let failed = match work {
                    Work::Cpu => compute(&mut counter),
                    Work::Disk if thread == 0 => write_blocks(&directory, &mut counter),
                    Work::Disk => read_blocks(&directory, &mut counter),
                    Work::Builds => compile(&directory, &mut counter),
                    Work::BulkGzip | Work::BulkImages => call(calls.as_deref(), &mut counter),
                };
                // Whoever listens has ended.
                let _ = ended.send(failed);
            });
        }
        end.recv().context("every thread ended")?
    }
}

/// What a thread has done, in memory that the benchmark reads, also while this process stands still.
struct Counter {
    thread: usize,
    count: u64,
}

impl Counter {
    fn add(&mut self, more: u64) -> anyhow::Result<()> {
        self.count += more;
        let at = (self.thread * WORD) as u64;
        rustix::io::pwrite(std::io::stdout(), &self.count.to_ne_bytes(), at).context("count")?;
        Ok(())
    }
}

fn compute(counter: &mut Counter) -> anyhow::Result<()> {
    let mut random = counter.thread as u64;
    loop {
        for _ in 0..STEPS {
            std::hint::black_box(uniform(&mut random));
        }
        counter.add(1)?;
    }
}

fn write_blocks(directory: &Path, counter: &mut Counter) -> anyhow::Result<()> {
    let file = File::create_new(directory.join("written")).context("make a file")?;
    let block = vec![0x5a; BLOCK_BYTES];
    for number in (0..BLOCKS).cycle() {
        file.write_all_at(&block, number * BLOCK_BYTES as u64).context("write")?;
        file.sync_data().context("wait for the disk")?;
        counter.add(BLOCK_BYTES as u64)?;
    }
    Ok(())
}

fn read_blocks(directory: &Path, counter: &mut Counter) -> anyhow::Result<()> {
    let path = directory.join("read");
    let mut block = vec![0xa5; BLOCK_BYTES];
    let mut file =
        File::options().read(true).write(true).create_new(true).open(path).context("make a file")?;
    for _ in 0..BLOCKS {
        file.write_all(&block).context("write")?;
    }
    file.sync_data().context("wait for the disk")?;
    for number in (0..BLOCKS).cycle() {
        // The page cache is not the disk.
        fadvise(&file, 0, None, Advice::DontNeed).context("leave the page cache")?;
        file.read_exact_at(&mut block, number * BLOCK_BYTES as u64).context("read")?;
        counter.add(BLOCK_BYTES as u64)?;
    }
    Ok(())
}

fn compile(directory: &Path, counter: &mut Counter) -> anyhow::Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(SOURCE);
    let out = directory.join(format!("build-{}", counter.thread));
    std::fs::create_dir(&out).context("make a directory")?;
    loop {
        let status = compiler()
            .args(["--edition", "2024", "-O", "-Ccodegen-units=1", "--crate-type", "rlib"])
            .args(["--crate-name", "beside", "--out-dir"])
            .arg(&out)
            .arg(&source)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("start rustc")?;
        ensure!(status.success(), "rustc ended with {status}");
        counter.add(1)?;
    }
}

fn call(calls: Option<&Calls>, counter: &mut Counter) -> anyhow::Result<()> {
    calls.context("no node to call")?.repeat(counter)
}

/// It and what it has started, killed with this value.
#[derive(Debug)]
pub struct Running {
    child: Child,
    work: Work,
    counted: File,
    _directory: tempfile::TempDir,
}

impl Running {
    /// Starts it in a process that waits to be let go; calls are made to `bulk`.
    pub fn start(kit: &Kit, work: Work, cores: usize, bulk: Option<BulkTarget>) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("a directory for the secondary")?;
        let kind = statfs(directory.path()).context("look at the file system")?.f_type;
        ensure!(
            work != Work::Disk || kind != TMPFS,
            "{} is in memory: name a directory on a disk in TMPDIR",
            directory.path().display()
        );
        let counted = File::from(memfd_create("counted", MemfdFlags::CLOEXEC).context("memory to count in")?);
        counted.set_len((THREADS_MAX * WORD) as u64).context("memory to count in")?;
        let mut command = Command::new(kit.programs.bench()?);
        command.args(["secondary", work.as_str(), "--cores", &cores.to_string(), "--directory"]);
        command.arg(directory.path());
        if let Some(BulkTarget { address, path }) = bulk {
            command.args(["--address", &address.to_string(), "--path", &path]);
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(counted.try_clone().context("memory to count in")?)
            // Of the benchmark's session still: where the kernel groups by sessions (sched_autogroup), a priority says
            // nothing to another one.
            .process_group(0)
            .spawn()
            .context("start the secondary")?;
        Ok(Self { child, work, counted, _directory: directory })
    }

    /// Its process.
    pub fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Lets it begin.
    pub fn go(&mut self) -> anyhow::Result<()> {
        let mut input = self.child.stdin.take().context("it was let go before")?;
        input.write_all(&[1]).context("let the secondary go")
    }

    /// What it has done since its begin, in the unit of its work without "a second"; of calls how many were answered: their CPU
    /// time is the node's.
    pub fn progress(&mut self) -> anyhow::Result<f64> {
        if let Some(status) = self.child.try_wait().context("look after the secondary")? {
            anyhow::bail!("the secondary ended with {status}");
        }
        Ok(match self.work {
            Work::Cpu | Work::BulkGzip | Work::BulkImages => self.counts()? as f64,
            Work::Disk => self.counts()? as f64 / BLOCK_BYTES as f64,
            Work::Builds => tree_seconds(self.child.id())?,
        })
    }

    fn counts(&self) -> anyhow::Result<u64> {
        let mut words = vec![0; THREADS_MAX * WORD];
        self.counted.read_exact_at(&mut words, 0).context("read what was counted")?;
        Ok(words.chunks_exact(WORD).map(|word| word.try_into().map_or(0, u64::from_ne_bytes)).sum())
    }

    /// Kills it and what it has started, and waits until all of them are gone.
    pub fn end(&mut self) -> anyhow::Result<()> {
        let group = self.process();
        // It is gone, or its group is.
        let _ = kill_process_group(group, Signal::KILL);
        let deadline = Instant::now() + END_MAX;
        let mut reaped = false;
        while !reaped || test_kill_process_group(group).is_ok() {
            ensure!(Instant::now() < deadline, "the secondary does not end");
            reaped |= self.child.try_wait().context("wait for the secondary")?.is_some();
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whoever wants to know has asked before.
        let _ = self.end();
    }
}
