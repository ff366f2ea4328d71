//! Which paths lead into `std`, `core` or `alloc`: written out, or through names that `use`
//! brought into scope.
//!
//! `use std::io; io::stdin()` never writes `std::io::stdin`, and `pub use` carries such names
//! into other modules. Scopes are not resolved: a name that is imported anywhere in the crate is
//! taken to mean the import everywhere. That errs on the side of reporting, and only the few
//! paths that the rules refuse can notice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::path::Path;

/// Different meanings of one name that are followed.
const MEANINGS_MAX: usize = 8;
/// Meanings of all names together.
const LEARNED_MAX: usize = 100_000;
/// Imports that wait for the meaning of a name.
const WAITING_MAX: usize = 100_000;
/// Segments of a resolved path that are kept.
const RESOLVED_MAX: usize = 12;

/// A path from the root on.
pub(crate) type StdPath = Vec<String>;

/// The names that lead into the standard library, and what the crate declares itself.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    meanings: BTreeMap<String, BTreeSet<StdPath>>,
    modules: BTreeSet<String>,
    declares_alloc: bool,
    /// `use` leaves that do not start at the root, still to be followed, by each of their segments.
    waiting: HashMap<String, Vec<Waiting>>,
    leaves: usize,
    learned: usize,
    /// There were more meanings than are followed.
    pub(crate) overflow: bool,
}

#[derive(Debug, Clone)]
struct Waiting {
    /// From the segment on that may be an imported name.
    segments: Vec<String>,
    binds: Option<String>,
}

impl Imports {
    /// A `mod name`.
    pub(crate) fn declare_module(&mut self, name: &str) {
        self.modules.insert(name.to_owned());
    }

    /// An `extern crate root as name`: it makes the root an item of a module, so that
    /// `crate::std::fs` leads into std.
    pub(crate) fn declare_root(&mut self, root: &str, name: &str) {
        self.declares_alloc |= root == "alloc";
        self.learn(name.to_owned(), vec![root.to_owned()]);
    }

    /// One leaf of a `use`. All modules and `alloc` must be declared before.
    pub(crate) fn add(&mut self, leaf: &Path<'_>) {
        let bound = leaf.binds().map(str::to_owned);
        if let Some(rooted) = self.rooted(leaf) {
            if let Some(name) = bound {
                self.learn(name, rooted);
            }
            return;
        }
        self.leaves += 1;
        if self.leaves > WAITING_MAX {
            self.overflow = true;
            return;
        }
        for position in self.resolvable(leaf) {
            let segments = leaf.segments[position..].iter().map(|s| (*s).to_owned()).collect();
            let waiting = Waiting { segments, binds: bound.clone() };
            self.waiting.entry(leaf.segments[position].to_owned()).or_default().push(waiting);
        }
    }

    /// Follows imports of imports until nothing new is learned.
    pub(crate) fn settle(&mut self) {
        let mut pending: Vec<(String, StdPath)> = self
            .meanings
            .iter()
            .flat_map(|(name, paths)| paths.iter().map(|path| (name.clone(), path.clone())))
            .collect();
        while let Some((name, path)) = pending.pop() {
            let waiting = self.waiting.remove(&name).unwrap_or_default();
            for leaf in &waiting {
                let Some(binds) = &leaf.binds else { continue };
                let resolved = joined(&path, leaf.segments[1..].iter().map(String::as_str));
                if self.learn(binds.clone(), resolved.clone()) {
                    pending.push((binds.clone(), resolved));
                }
            }
            self.waiting.insert(name, waiting);
        }
    }

    fn learn(&mut self, name: String, path: StdPath) -> bool {
        let paths = self.meanings.entry(name).or_default();
        if paths.contains(&path) {
            return false;
        }
        if paths.len() >= MEANINGS_MAX || self.learned >= LEARNED_MAX {
            self.overflow = true;
            return false;
        }
        self.learned += 1;
        paths.insert(path)
    }

    /// Every way in which `path` leads into the standard library.
    pub(crate) fn resolve(&self, path: &Path<'_>) -> Vec<StdPath> {
        if let Some(rooted) = self.rooted(path) {
            return vec![rooted];
        }
        let mut found = Vec::new();
        for position in self.resolvable(path) {
            let rest = &path.segments[position + 1..];
            if rest.is_empty() {
                continue;
            }
            let meanings = self.meanings.get(path.segments[position]).into_iter().flatten();
            found.extend(meanings.map(|meaning| joined(meaning, rest.iter().copied())));
        }
        found.extend(self.reexported(path));
        found
    }

    /// `std::…`, `core::…`, `alloc::…`, written out.
    fn rooted(&self, path: &Path<'_>) -> Option<StdPath> {
        let head = *path.segments.first()?;
        let is_root = !path.fragment_head
            && match head {
                "std" | "core" => true,
                // Without `extern crate alloc` it is the tenant's own module, if there is one.
                "alloc" => path.leading || self.declares_alloc || !self.modules.contains("alloc"),
                _ => false,
            };
        is_root.then(|| joined(&[], path.segments.iter().copied()))
    }

    /// Positions at which an imported name may stand: all of them, since a module may be reached
    /// through an alias of its own. A macro fragment's name says nothing.
    fn resolvable(&self, path: &Path<'_>) -> std::ops::Range<usize> {
        usize::from(path.fragment_head)..path.segments.len()
    }

    fn is_local(&self, head: &str) -> bool {
        matches!(head, "crate" | "self" | "super" | "Self") || self.modules.contains(head)
    }

    /// `dep::__private::core::arch`: dependencies re-export the roots for their macros.
    fn reexported(&self, path: &Path<'_>) -> Option<StdPath> {
        let head = path.segments.first()?;
        if self.is_local(head) {
            return None;
        }
        let root = path.segments.iter().skip(1).position(|s| matches!(*s, "std" | "core" | "alloc"))? + 1;
        let below = path.segments.len() - root > 1;
        below.then(|| joined(&[], path.segments[root..].iter().copied()))
    }
}

fn joined<'a>(start: &[String], rest: impl Iterator<Item = &'a str>) -> StdPath {
    start.iter().cloned().chain(rest.map(str::to_owned)).take(RESOLVED_MAX).collect()
}
