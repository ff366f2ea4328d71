//! The parts of a path.

use std::ffi::OsStr;
use std::iter::FusedIterator;
use std::path::{Component as StdComponent, PrefixComponent};

use super::Path;

/// One part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component<'a> {
    /// A prefix of another system; never made here.
    Prefix(PrefixComponent<'a>),
    /// `/`
    RootDir,
    /// `.`
    CurDir,
    /// `..`
    ParentDir,
    /// A name.
    Normal(&'a OsStr),
}

impl<'a> Component<'a> {
    fn of(part: StdComponent<'a>) -> Self {
        match part {
            StdComponent::Prefix(prefix) => Self::Prefix(prefix),
            StdComponent::RootDir => Self::RootDir,
            StdComponent::CurDir => Self::CurDir,
            StdComponent::ParentDir => Self::ParentDir,
            StdComponent::Normal(name) => Self::Normal(name),
        }
    }

    /// Its text.
    pub fn as_os_str(self) -> &'a OsStr {
        match self {
            Self::Prefix(prefix) => prefix.as_os_str(),
            Self::RootDir => StdComponent::RootDir.as_os_str(),
            Self::CurDir => StdComponent::CurDir.as_os_str(),
            Self::ParentDir => StdComponent::ParentDir.as_os_str(),
            Self::Normal(name) => name,
        }
    }
}

/// The parts of a path, normalised.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Components<'a>(pub(super) std::path::Components<'a>);

/// The parts of a path as text.
#[derive(Debug, Clone)]
pub struct Iter<'a>(pub(super) std::path::Iter<'a>);

/// A path, its parent, and so on.
#[derive(Debug, Clone, Copy)]
pub struct Ancestors<'a>(pub(super) std::path::Ancestors<'a>);

impl<'a> Components<'a> {
    /// What is left.
    pub fn as_path(&self) -> &'a Path {
        Path::wrap(self.0.as_path())
    }
}

impl<'a> Iter<'a> {
    /// What is left.
    pub fn as_path(&self) -> &'a Path {
        Path::wrap(self.0.as_path())
    }
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    fn next(&mut self) -> Option<Component<'a>> {
        self.0.next().map(Component::of)
    }
}

impl DoubleEndedIterator for Components<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(Component::of)
    }
}

impl FusedIterator for Components<'_> {}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a OsStr;

    fn next(&mut self) -> Option<&'a OsStr> {
        self.0.next()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back()
    }
}

impl FusedIterator for Iter<'_> {}

impl<'a> Iterator for Ancestors<'a> {
    type Item = &'a Path;

    fn next(&mut self) -> Option<&'a Path> {
        self.0.next().map(Path::wrap)
    }
}

impl FusedIterator for Ancestors<'_> {}

impl<'a> IntoIterator for &'a Path {
    type Item = &'a OsStr;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a super::PathBuf {
    type Item = &'a OsStr;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
