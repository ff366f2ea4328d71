//! The archive of a dependency, as registries keep it: one gzip member of tar, one directory
//! `name-version/` around everything.
//!
//! Looser than the reader of uploads where crates of the world need it: any readable name, GNU long
//! names, more and larger files. What is left out (links, devices, names that a person cannot read) is
//! listed, never skipped in silence, and no link is ever made. Whatever two readers could understand
//! differently ends the reading as a whole: a second entry of one path, a path that leads out of the
//! directory, bytes behind the end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mfaas_ident::sanitise_line;
use mfaas_rules::limits::{CRATE_ARCHIVE, CrateArchiveLimits};

use crate::archive::{check_sum, check_unused, header_path, lone_pax, octal, text};
use crate::blocks::{Block, Blocks};
use crate::error::shown;
use crate::path::{Files, Kind};
use crate::{UnpackError, directory, gzip, pax};

/// Bytes of one component: what file systems allow.
const COMPONENT_BYTES_MAX: usize = 255;

/// The files of a dependency's archive, by path below its one directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CrateArchive {
    files: Files,
    left_out: Vec<String>,
}

impl CrateArchive {
    /// Reads `bytes` under every limit of [`CRATE_ARCHIVE`]. `top` is the directory that everything has
    /// to lie in, `name-version`.
    pub fn read(bytes: &[u8], top: &str) -> Result<Self, UnpackError> {
        Self::read_within(bytes, top, &CRATE_ARCHIVE)
    }

    /// The same by the same rules, with other limits.
    pub fn read_within(bytes: &[u8], top: &str, limits: &CrateArchiveLimits) -> Result<Self, UnpackError> {
        if bytes.len() as u64 > limits.archive_bytes_max {
            let (size, limit) = (bytes.len(), limits.archive_bytes_max);
            return Err(UnpackError::malformed(format!("it has {size} bytes, {limit} are read")));
        }
        if !bytes.starts_with(gzip::MAGIC) {
            return Err(UnpackError::malformed("it is not gzip"));
        }
        let mut member = gzip::Member::open(bytes)?;
        let blocks = Blocks::new(&mut member, limits.unpacked_bytes_max);
        let found = Reader { blocks, top, limits, entries: 0, seen: BTreeMap::new(), found: Self::default() }
            .read()?;
        member.close()?;
        Ok(found)
    }

    /// Every file as (path, content), in the byte order of the paths.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, content)| (path.as_str(), content.as_slice()))
    }

    /// The content of one file.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// What is in the archive and not among the files, and why; sanitised.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Writes every file below `root`, an existing empty directory that only the caller can write to:
    /// directories 0755, files 0644. Nothing is overwritten and no link is followed.
    pub fn write_into(&self, root: &Path) -> Result<(), UnpackError> {
        directory::write(root, self.files())
    }
}

struct Reader<'top, R> {
    blocks: Blocks<R>,
    top: &'top str,
    limits: &'top CrateArchiveLimits,
    entries: usize,
    /// Every path so far, directories implied by files included.
    seen: BTreeMap<String, Seen>,
    found: CrateArchive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    File,
    Directory,
}

impl<R: std::io::Read> Reader<'_, R> {
    fn read(mut self) -> Result<CrateArchive, UnpackError> {
        // What the next entry has to follow: a GNU long name, or a pax header with nothing in it.
        let (mut long_name, mut announced) = (None, false);
        while let Some(block) = self.blocks.header()? {
            self.entries += 1;
            if self.entries > self.limits.entries_max {
                return Err(UnpackError::TooManyEntries { limit: self.limits.entries_max });
            }
            check_sum(&block)?;
            check_unused(&block)?;
            let (path, size, flag) = (header_path(&block)?, octal(&block[124..136])?, block[156]);
            if matches!(flag, b'L' | b'K' | b'x' | b'g') && announced {
                return Err(lone_pax());
            }
            match flag {
                b'L' => long_name = Some(self.long_name(&path, size)?),
                b'K' => drop(self.long_name(&path, size)?),
                b'x' | b'g' => self.pax(&path, size)?,
                _ => self.entry(&block, &long_name.take().unwrap_or(path), size)?,
            }
            announced = matches!(flag, b'L' | b'K' | b'x');
        }
        if announced {
            return Err(lone_pax());
        }
        self.blocks.end()?;
        Ok(self.found)
    }

    /// The name behind a GNU header for the next entry, without its closing NUL.
    fn long_name(&mut self, path: &[u8], size: u64) -> Result<Vec<u8>, UnpackError> {
        if size > self.limits.path_bytes_max as u64 + 1 {
            return Err(UnpackError::malformed("a name is longer than is read"));
        }
        let content = self.blocks.content(path, size)?;
        let name = text(&content)?;
        if name.is_empty() {
            return Err(UnpackError::malformed("a long name is empty"));
        }
        Ok(name.to_vec())
    }

    fn pax(&mut self, path: &[u8], size: u64) -> Result<(), UnpackError> {
        if size > pax::BYTES_MAX {
            return Err(UnpackError::malformed("it needs a pax extension, which is not read"));
        }
        pax::check(&self.blocks.content(path, size)?)
    }

    fn entry(&mut self, block: &Block, path: &[u8], size: u64) -> Result<(), UnpackError> {
        let content = self.blocks.content(path, size)?;
        let kind = if block[156] == b'5' { Kind::Directory } else { Kind::File };
        let Some(below) = self.below(path, kind)? else { return Ok(()) };
        match block[156] {
            b'0' | 0 => {
                self.enter(&below, Seen::File)?;
                self.found.files.insert(below, content);
            }
            b'5' if content.is_empty() => self.enter(&below, Seen::Directory)?,
            b'5' => {
                return Err(UnpackError::malformed(format!("the directory {:?} has content", shown(path))));
            }
            flag => {
                if !content.is_empty() {
                    return Err(UnpackError::malformed(format!("{:?} has content", shown(path))));
                }
                self.enter(&below, Seen::File)?;
                self.found.left_out.push(format!("{below}: {}", what(flag)));
            }
        }
        Ok(())
    }

    /// The path below the one directory; `None` for that directory itself and for a name that is left
    /// out. A path that leads elsewhere ends the reading.
    fn below(&mut self, raw: &[u8], kind: Kind) -> Result<Option<String>, UnpackError> {
        let refuse = |rule| Err(UnpackError::Path { path: shown(raw), rule });
        let inner = match kind {
            Kind::Directory => raw.strip_suffix(b"/").unwrap_or(raw),
            Kind::File => raw,
        };
        if kind == Kind::Directory && inner == self.top.as_bytes() {
            return Ok(None);
        }
        let Some(below) = inner.strip_prefix(self.top.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"))
        else {
            return refuse("everything lies in one directory `name-version`");
        };
        let components = below.split(|byte| *byte == b'/');
        if components.clone().any(|part| matches!(part, b"" | b"." | b"..")) {
            return refuse("no empty, '.' or '..' components");
        }
        if below.len() > self.limits.path_bytes_max
            || components.clone().any(|part| part.len() > COMPONENT_BYTES_MAX)
            || components.count() > self.limits.path_depth_max
        {
            return refuse("it is longer or deeper than is read");
        }
        Ok(self.readable(below))
    }

    fn readable(&mut self, below: &[u8]) -> Option<String> {
        let shown = sanitise_line(&String::from_utf8_lossy(below), 400);
        if shown.as_bytes() == below {
            return Some(shown);
        }
        self.found.left_out.push(format!("{shown}: a name that a person cannot read"));
        None
    }

    /// Enters a path and its parents: no path twice, none both a file and a directory.
    fn enter(&mut self, path: &str, kind: Seen) -> Result<(), UnpackError> {
        let parents = path.match_indices('/').map(|(slash, _)| &path[..slash]);
        let all: BTreeSet<(&str, Seen)> =
            parents.map(|parent| (parent, Seen::Directory)).chain([(path, kind)]).collect();
        for (path, kind) in all {
            match self.seen.insert(path.to_owned(), kind) {
                None => {}
                Some(Seen::Directory) if kind == Seen::Directory => {}
                Some(_) => {
                    return Err(UnpackError::Collision {
                        path: shown(path.as_bytes()),
                        other: shown(path.as_bytes()),
                    });
                }
            }
        }
        if self.seen.len() > self.limits.entries_max {
            return Err(UnpackError::TooManyEntries { limit: self.limits.entries_max });
        }
        Ok(())
    }
}

fn what(flag: u8) -> &'static str {
    match flag {
        b'1' => "a hard link, which is not followed",
        b'2' => "a symbolic link, which is not followed",
        b'3' | b'4' => "a device",
        b'6' => "a named pipe",
        b'S' => "a sparse file",
        _ => "an entry of an unknown type",
    }
}

#[cfg(test)]
mod tests;
