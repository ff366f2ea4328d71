//! A crate's directory, read once into memory: no link is followed, nothing special is opened, and
//! whatever is left out is named.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirEntry, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use mfaas_ident::sanitise_line;
use mfaas_rules::crate_facts::{LicenceFacts, Role};
use mfaas_rules::limits::{CRATE_FACTS, MANIFEST};
use mfaas_unpack::CrateArchive;
use rustix::fs::OFlags;

use crate::error::BuilderError;

/// Directories at the root that cargo compiles for the crate's own tests and examples alone.
const ASIDE: &[&str] = &["tests", "benches", "examples", "fuzz"];
/// What lies in every checkout and is no source.
const LEFT_OUT_AT_ROOT: &[&str] = &["target", ".git"];

/// The files of a crate.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// Content by path within the crate; the paths are sanitised, and those are unread whose names
    /// the sanitiser had to change.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// What was not read, and why.
    pub(super) unread: Vec<String>,
    entries: usize,
    bytes: u64,
}

/// Reads every regular file below `root`, within the limits of [`CRATE_FACTS`].
pub(super) fn read(root: &Path) -> Result<Directory, BuilderError> {
    let mut found = Directory::default();
    let mut pending: Vec<(PathBuf, String, usize)> = vec![(root.to_path_buf(), String::new(), 0)];
    while let Some((directory, prefix, depth)) = pending.pop() {
        for entry in std::fs::read_dir(&directory).map_err(BuilderError::io(&directory))? {
            let entry = entry.map_err(BuilderError::io(&directory))?;
            found.entries += 1;
            if found.entries > CRATE_FACTS.entries_max {
                found.unread.push(format!("more than {} files and directories", CRATE_FACTS.entries_max));
                return Ok(found);
            }
            let name = entry.file_name();
            if prefix.is_empty() && LEFT_OUT_AT_ROOT.iter().any(|skip| name == *skip) {
                continue;
            }
            let written = format!("{prefix}{}", name.to_string_lossy());
            let path = sanitise_line(&written, 400);
            if name.to_str().is_none() || path != written {
                found.unread.push(format!("{path}: a name that a person cannot read"));
            } else if let Some(below) = found.entry(&entry, path, depth)? {
                pending.push((entry.path(), below, depth + 1));
            }
        }
    }
    Ok(found)
}

impl Directory {
    /// The files of an archive, within the same limits.
    pub(super) fn of_archive(archive: &CrateArchive) -> Self {
        let mut found = Self { unread: archive.left_out().to_vec(), ..Self::default() };
        for (path, content) in archive.files() {
            found.entries += 1;
            if found.entries > CRATE_FACTS.entries_max {
                found.unread.push(format!("more than {} files", CRATE_FACTS.entries_max));
                break;
            }
            let limit = found.left();
            if content.len() as u64 > limit {
                found.unread.push(format!("{path}: more than the {limit} bytes that are read of it"));
                continue;
            }
            found.bytes += content.len() as u64;
            found.files.insert(path.to_owned(), content.to_vec());
        }
        found
    }

    /// Bytes that are read of the next file.
    fn left(&self) -> u64 {
        CRATE_FACTS.file_bytes_max.min(CRATE_FACTS.total_bytes_max.saturating_sub(self.bytes))
    }

    /// Takes one entry; answers the prefix of a directory that is to be read next.
    fn entry(
        &mut self,
        entry: &DirEntry,
        path: String,
        depth: usize,
    ) -> Result<Option<String>, BuilderError> {
        let kind = entry.file_type().map_err(BuilderError::io(entry.path()))?;
        if kind.is_dir() {
            if depth < CRATE_FACTS.depth_max {
                return Ok(Some(format!("{path}/")));
            }
            self.unread.push(format!("{path}: directories deeper than {}", CRATE_FACTS.depth_max));
        } else if kind.is_file() {
            self.file(&entry.path(), path)?;
        } else {
            self.unread.push(format!("{path}: a link or a special file, which is not followed"));
        }
        Ok(None)
    }

    fn file(&mut self, disk: &Path, path: String) -> Result<(), BuilderError> {
        // Between the listing and this moment someone may have put a link or a pipe here.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(disk);
        let mut content = Vec::new();
        let limit = self.left();
        file.map_err(BuilderError::io(disk))?
            .take(limit + 1)
            .read_to_end(&mut content)
            .map_err(BuilderError::io(disk))?;
        if content.len() as u64 > limit {
            self.unread.push(format!("{path}: more than the {limit} bytes that are read of it"));
            return Ok(());
        }
        self.bytes += content.len() as u64;
        self.files.insert(path, content);
        Ok(())
    }
}

/// What Cargo.toml says about the crate, as written; sanitised.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ManifestFacts {
    /// What it may be used under.
    pub(crate) licence: LicenceFacts,
    /// `package.links`.
    pub(crate) links: Option<String>,
    /// `package.edition`.
    pub(crate) edition: Option<String>,
}

/// What Cargo.toml says about the files.
#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) name: Option<String>,
    pub(super) proc_macro: bool,
    /// The files that cargo compiles first, as named or by default.
    pub(super) roots: BTreeSet<String>,
    build_script: Option<String>,
    /// What it says about the crate beside that.
    pub(super) manifest: ManifestFacts,
    /// A root lies among the tests: then they are no tests.
    nothing_aside: bool,
}

impl Package {
    /// Reads Cargo.toml. One that is missing or unreadable is noted, for a crate cannot be compiled
    /// without it.
    pub(super) fn read(found: &Directory) -> Self {
        let manifest = found.files.get("Cargo.toml").filter(|bytes| bytes.len() <= MANIFEST.bytes_max * 16);
        let table = manifest
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .and_then(|text| text.parse::<toml::Table>().ok())
            .unwrap_or_default();
        Self::of(&table, found)
    }

    fn of(table: &toml::Table, found: &Directory) -> Self {
        let at = |section: &str, key: &str| table.get(section).and_then(|section| section.get(key));
        let text = |section: &str, key: &str| at(section, key).and_then(toml::Value::as_str);
        let path = |written: &str| joined("Cargo.toml", written).unwrap_or_else(|| written.to_owned());
        let library = path(text("lib", "path").unwrap_or("src/lib.rs"));
        let build_script = match at("package", "build") {
            Some(toml::Value::Boolean(false)) => None,
            Some(toml::Value::String(written)) => Some(path(written)),
            _ => found.files.contains_key("build.rs").then(|| "build.rs".to_owned()),
        };
        let named = text("package", "name");
        let name = named.map(|name| format!("{name} {}", text("package", "version").unwrap_or("")));
        let is_true = |key| at("lib", key).and_then(toml::Value::as_bool) == Some(true);
        let word = |key| text("package", key).map(|written| sanitise_line(written, 200));
        let manifest = ManifestFacts {
            licence: LicenceFacts { expression: word("license"), file: word("license-file") },
            links: word("links"),
            edition: word("edition"),
        };
        Self {
            manifest,
            name: name.map(|name| sanitise_line(name.trim(), 200)),
            proc_macro: is_true("proc-macro") || is_true("proc_macro"),
            nothing_aside: is_aside(&library) || build_script.as_deref().is_some_and(is_aside),
            roots: build_script.iter().cloned().chain([library]).collect(),
            build_script,
        }
    }

    /// What a file is for, as far as its place tells.
    pub(super) fn role(&self, path: &str) -> Role {
        if self.build_script.as_deref() == Some(path) {
            Role::BuildScript
        } else if is_aside(path) && !self.nothing_aside {
            Role::Aside
        } else {
            Role::Library
        }
    }
}

fn is_aside(path: &str) -> bool {
    path.split_once('/').is_some_and(|(first, _)| ASIDE.contains(&first))
}

/// `written` as seen from the file `from`, without `.` and `..`; `None` if it leads outside.
pub(super) fn joined(from: &str, written: &str) -> Option<String> {
    if written.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in written.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests;
