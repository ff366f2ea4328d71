//! The rules for paths, and the register that finds two spellings of one path.
//!
//! A path here never begins with `/`, never has an empty, `.` or `..` component, and consists
//! of `[A-Za-z0-9._-]` only, so it means the same on every file system, in every shell word and
//! in every log line.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use mfaas_rules::limits::ARCHIVE;

use crate::UnpackError;
use crate::error::shown;

/// The two fields of a ustar header that make up a path.
const NAME_BYTES_MAX: usize = 100;
const PREFIX_BYTES_MAX: usize = 155;

/// Files by path, each path in its one spelling.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
}

/// Checks a path as an archive spells it and returns its one spelling, or `None` for the root
/// directory itself (`.` and `./`).
///
/// Two ways of writing are common and mean nothing else: GNU tar's exact leading `./` and a
/// directory's single trailing `/`. Both are dropped. Everything else must be in its one
/// spelling already.
pub(crate) fn parse(raw: &[u8], kind: Kind) -> Result<Option<String>, UnpackError> {
    let refuse = |rule| UnpackError::Path { path: shown(raw), rule };
    if kind == Kind::Directory && matches!(raw, b"." | b"./") {
        return Ok(None);
    }
    let inner = raw.strip_prefix(b"./").unwrap_or(raw);
    let inner = match kind {
        Kind::Directory => inner.strip_suffix(b"/").unwrap_or(inner),
        Kind::File => inner,
    };
    if inner.is_empty() || inner.len() > ARCHIVE.path_bytes_max {
        return Err(refuse("1 to 200 bytes"));
    }
    let mut depth = 0;
    for component in inner.split(|byte| *byte == b'/') {
        check_component(component).map_err(refuse)?;
        depth += 1;
    }
    if depth > ARCHIVE.path_depth_max {
        return Err(refuse("at most 16 components"));
    }
    if !fits_ustar(inner) {
        return Err(refuse("a name of at most 100 bytes below a directory path of at most 155"));
    }
    let path = String::from_utf8(inner.to_vec()).map_err(|_| refuse("only A-Z a-z 0-9 . _ -"))?;
    check_forbidden(&path)?;
    Ok(Some(path))
}

/// Whether a ustar header can hold the path, so that every tree can be packed again.
fn fits_ustar(path: &[u8]) -> bool {
    let splits = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    path.len() <= NAME_BYTES_MAX
        || splits.map(|(at, _)| at).any(|at| at <= PREFIX_BYTES_MAX && path.len() - at - 1 <= NAME_BYTES_MAX)
}

fn check_component(component: &[u8]) -> Result<(), &'static str> {
    if component.is_empty() {
        return Err("no absolute paths and no empty components");
    }
    if matches!(component, b"." | b"..") {
        return Err("no '.' or '..' components");
    }
    if component[0] == b'-' {
        return Err("no component starts with '-'");
    }
    if !component.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
        return Err("only A-Z a-z 0-9 . _ - in names");
    }
    Ok(())
}

/// Files that cargo and rustup obey, which is how an upload would run programs on the build
/// host, and version-control data, which is private and never source.
fn check_forbidden(path: &str) -> Result<(), UnpackError> {
    // Named is what is forbidden, not what lies in it: an archive may hold `.cargo/config.toml` without an
    // entry for `.cargo`, a directory never does, and both are refused in the same words.
    let refuse = |end: usize, why| Err(UnpackError::Forbidden { path: path[..end].to_owned(), why });
    if path.eq_ignore_ascii_case("build.rs") {
        return refuse(path.len(), "build scripts are never run");
    }
    let mut end = 0;
    for component in path.split('/') {
        end += component.len();
        match component.to_ascii_lowercase().as_str() {
            ".cargo" => return refuse(end, "cargo's configuration is the service's"),
            "rust-toolchain" | "rust-toolchain.toml" => return refuse(end, "the toolchain is the service's"),
            ".git" => return refuse(end, "version-control data is not source"),
            _ => {}
        }
        end += 1;
    }
    Ok(())
}

/// Every path seen so far, directories implied by files included, by its case-folded spelling.
/// It counts them too: a directory costs as much as a file, named or implied.
#[derive(Debug, Default)]
pub(crate) struct Register {
    seen: HashMap<String, Seen>,
    /// Entries that are no path.
    others: usize,
    root_named: bool,
}

#[derive(Debug)]
struct Seen {
    spelling: String,
    kind: Kind,
    /// Named by an entry of its own, not only as some file's parent.
    named: bool,
}

impl Register {
    /// Enters a checked path and its parents. Refuses a repeated path, a spelling that differs
    /// only in case, and a path that is a file here and a directory there.
    pub(crate) fn enter(&mut self, path: &str, kind: Kind) -> Result<(), UnpackError> {
        for (slash, _) in path.match_indices('/') {
            self.enter_one(&path[..slash], Kind::Directory, false)?;
        }
        self.enter_one(path, kind, true)
    }

    /// Enters the root directory itself, which an archive may name once.
    pub(crate) fn enter_root(&mut self) -> Result<(), UnpackError> {
        if std::mem::replace(&mut self.root_named, true) {
            return Err(UnpackError::Collision { path: ".".to_owned(), other: ".".to_owned() });
        }
        Ok(())
    }

    /// Counts an entry that is no path.
    pub(crate) fn count(&mut self) -> Result<(), UnpackError> {
        self.others += 1;
        self.check_count()
    }

    fn check_count(&self) -> Result<(), UnpackError> {
        if self.seen.len() + self.others > ARCHIVE.entries_max {
            return Err(UnpackError::TooManyEntries { limit: ARCHIVE.entries_max });
        }
        Ok(())
    }

    fn enter_one(&mut self, path: &str, kind: Kind, named: bool) -> Result<(), UnpackError> {
        match self.seen.entry(path.to_ascii_lowercase()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Seen { spelling: path.to_owned(), kind, named });
                self.check_count()
            }
            Entry::Occupied(mut occupied) => {
                let seen = occupied.get_mut();
                if seen.spelling != path || seen.kind != kind || (seen.named && named) {
                    return Err(UnpackError::Collision {
                        path: path.to_owned(),
                        other: seen.spelling.clone(),
                    });
                }
                seen.named |= named;
                Ok(())
            }
        }
    }
}
