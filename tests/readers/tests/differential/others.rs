//! The other readers of tar, as far as they are installed.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::read::GzDecoder;
use mfaas_readers::tar::BLOCK;
use sha2::{Digest as _, Sha256};

/// The reader that is always there.
pub(crate) const TAR_CRATE: &str = "tar crate";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Other,
}

/// An entry as another reader saw it.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) path: String,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    /// Of the content.
    pub(crate) sha256: [u8; 32],
}

type Listing = Result<Vec<Listed>, String>;

pub(crate) trait Reader {
    fn name(&self) -> &str;
    /// One listing for each archive.
    fn list(&self, archives: &[&[u8]]) -> Vec<Listing>;
}

/// Those that are installed.
pub(crate) fn readers() -> Vec<Box<dyn Reader>> {
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mut readers: Vec<Box<dyn Reader>> = vec![Box::new(TarCrate)];
    if let Some(version) = version("tar", "--version").filter(|version| version.contains("GNU tar")) {
        readers.push(Box::new(GnuTar { version }));
    }
    if let Some(version) = version("python3", "--version") {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/list.py");
        let command = vec!["python3".to_owned(), "-I".to_owned(), script.to_owned()];
        readers.push(Box::new(Program { version, command }));
    }
    if let Some(version) = version("go", "version") {
        let command = vec![build_go(&scratch).display().to_string()];
        readers.push(Box::new(Program { version, command }));
    }
    readers
}

/// The first line of what a program says about itself; `None` if it does not run.
fn version(program: &str, argument: &str) -> Option<String> {
    let output =
        Command::new(program).arg(argument).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or(program).to_owned())
}

/// An installed Go that cannot compile a file of standard packages is a failure, not an absence.
fn build_go(scratch: &Path) -> PathBuf {
    let program = scratch.join("list-tar");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/list.go");
    let output = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(source)
        .env("GOCACHE", scratch.join("go-cache"))
        .envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOFLAGS", ""), ("CGO_ENABLED", "0")])
        .current_dir(scratch)
        .output()
        .unwrap();
    assert!(output.status.success(), "go build: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// A program that lists a batch: `list.py`, `list.go`.
struct Program {
    version: String,
    command: Vec<String>,
}

impl Reader for Program {
    fn name(&self) -> &str {
        &self.version
    }

    fn list(&self, archives: &[&[u8]]) -> Vec<Listing> {
        let mut batch = tempfile::NamedTempFile::new().unwrap();
        for archive in archives {
            batch.write_all(&(archive.len() as u32).to_le_bytes()).unwrap();
            batch.write_all(archive).unwrap();
        }
        let output =
            Command::new(&self.command[0]).args(&self.command[1..]).arg(batch.path()).output().unwrap();
        assert!(output.status.success(), "{}: {}", self.version, String::from_utf8_lossy(&output.stderr));
        let mut listings = Vec::new();
        let mut entries = Vec::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            if line == "end" {
                listings.push(Ok(std::mem::take(&mut entries)));
            } else if let Some(error) = line.strip_prefix("error ") {
                entries.clear();
                listings.push(Err(error.to_owned()));
            } else {
                entries.push(listed(line));
            }
        }
        listings
    }
}

/// `kind size sha256 path`, the last two in hexadecimal.
fn listed(line: &str) -> Listed {
    let fields: Vec<&str> = line.split(' ').collect();
    let [kind, size, sha256, path] = fields[..] else { panic!("{line}") };
    let kind = match kind {
        "file" => Kind::File,
        "directory" => Kind::Directory,
        _ => Kind::Other,
    };
    let path = String::from_utf8_lossy(&unhex(path)).into_owned();
    Listed { path, kind, size: size.parse().unwrap(), sha256: unhex(sha256).try_into().unwrap() }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

/// GNU tar lists no contents, but the block where an entry begins, from which the content follows.
struct GnuTar {
    version: String,
}

impl Reader for GnuTar {
    fn name(&self) -> &str {
        &self.version
    }

    fn list(&self, archives: &[&[u8]]) -> Vec<Listing> {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("archive");
        let mut listings = Vec::new();
        for archive in archives {
            std::fs::write(&file, archive).unwrap();
            let output = Command::new("tar")
                .args(["--list", "--verbose", "--block-number", "--numeric-owner", "--full-time"])
                .args(["--quoting-style=escape", "--file"])
                .arg(&file)
                .args(archive.starts_with(&[0x1f, 0x8b]).then_some("--gzip"))
                .env("LC_ALL", "C")
                .env("TZ", "UTC")
                .env_remove("TAR_OPTIONS")
                .output()
                .unwrap();
            listings.push(gnu_listing(&output, &plain(archive)));
        }
        listings
    }
}

/// A warning counts like an error: a second reader had doubts.
fn gnu_listing(output: &Output, archive: &[u8]) -> Listing {
    if !output.status.success() || !output.stderr.is_empty() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().filter(|line| !line.contains(": ** ")).map(|line| gnu_entry(line, archive)).collect()
}

/// `block 2: -rw-r--r-- 0/0 13 2023-11-14 22:13:20 src/lib.rs`
fn gnu_entry(line: &str, archive: &[u8]) -> Result<Listed, String> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, block, mode, _, size, _, _, path] = fields[..] else { return Err(format!("it says {line:?}")) };
    let block: usize = block.trim_end_matches(':').parse().map_err(|_| format!("it says {line:?}"))?;
    let size: usize = size.parse().map_err(|_| format!("it says {line:?}"))?;
    let kind = match mode.as_bytes()[0] {
        b'-' => Kind::File,
        b'd' => Kind::Directory,
        _ => Kind::Other,
    };
    let content = content_at(archive, block, size).ok_or_else(|| format!("{path} lies outside"))?;
    let sha256 = Sha256::digest(content).into();
    Ok(Listed { path: path.to_owned(), kind, size: size as u64, sha256 })
}

/// The content of the entry that begins at a block, behind the pax headers that belong to it.
fn content_at(archive: &[u8], block: usize, size: usize) -> Option<&[u8]> {
    let mut at = block * BLOCK;
    while matches!(archive.get(at + 156)?, b'x' | b'g') {
        let digits = std::str::from_utf8(archive.get(at + 124..at + 135)?).ok()?;
        at +=
            BLOCK + usize::from_str_radix(digits.trim_matches(['\0', ' ']), 8).ok()?.next_multiple_of(BLOCK);
    }
    archive.get(at + BLOCK..at + BLOCK + size)
}

/// The archive without its compression.
fn plain(archive: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if archive.starts_with(&[0x1f, 0x8b]) {
        GzDecoder::new(archive).read_to_end(&mut bytes).unwrap();
    } else {
        bytes.extend_from_slice(archive);
    }
    bytes
}

/// The `tar` crate, which repairs.
struct TarCrate;

impl Reader for TarCrate {
    fn name(&self) -> &str {
        TAR_CRATE
    }

    fn list(&self, archives: &[&[u8]]) -> Vec<Listing> {
        let list = |archive: &&[u8]| crate_listing(&plain(archive)).map_err(|error| error.to_string());
        archives.iter().map(list).collect()
    }
}

fn crate_listing(archive: &[u8]) -> std::io::Result<Vec<Listed>> {
    let mut listing = Vec::new();
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            continue;
        }
        let kind = match () {
            () if kind.is_file() => Kind::File,
            () if kind.is_dir() => Kind::Directory,
            () => Kind::Other,
        };
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        let sha256 = Sha256::digest(&content).into();
        listing.push(Listed { path, kind, size: entry.size(), sha256 });
    }
    Ok(listing)
}
