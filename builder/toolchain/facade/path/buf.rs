//! A path that owns its text.

use std::borrow::Borrow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf as Inner;
use std::str::FromStr;

use super::Path;

/// An owned path, as text.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathBuf(pub(super) Inner);

impl PathBuf {
    /// The empty path.
    pub const fn new() -> Self {
        Self(Inner::new())
    }

    /// The empty path, with room for that many bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Inner::with_capacity(capacity))
    }

    /// Room in bytes.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// As a borrowed path.
    pub fn as_path(&self) -> &Path {
        Path::wrap(&self.0)
    }

    /// Appends components; an absolute path replaces all.
    pub fn push<P: AsRef<Path>>(&mut self, path: P) {
        self.0.push(path.as_ref().as_os_str());
    }

    /// Removes the last component.
    pub fn pop(&mut self) -> bool {
        self.0.pop()
    }

    /// Replaces the last component.
    pub fn set_file_name<S: AsRef<OsStr>>(&mut self, file_name: S) {
        self.0.set_file_name(file_name);
    }

    /// Replaces the extension.
    pub fn set_extension<S: AsRef<OsStr>>(&mut self, extension: S) -> bool {
        self.0.set_extension(extension)
    }

    /// Adds an extension.
    pub fn add_extension<S: AsRef<OsStr>>(&mut self, extension: S) -> bool {
        self.0.add_extension(extension)
    }

    /// The text.
    pub fn into_os_string(self) -> OsString {
        self.0.into_os_string()
    }

    /// As a box, without spare room.
    pub fn into_boxed_path(self) -> Box<Path> {
        Path::wrap_box(self.0.into_boxed_path())
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Makes room.
    pub fn reserve(&mut self, additional: usize) {
        self.0.reserve(additional);
    }

    /// Gives up spare room.
    pub fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }
}

impl Deref for PathBuf {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.as_path()
    }
}

impl Borrow<Path> for PathBuf {
    fn borrow(&self) -> &Path {
        self
    }
}

impl fmt::Debug for PathBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PathBuf {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::from(text))
    }
}

impl<P: AsRef<Path>> Extend<P> for PathBuf {
    fn extend<I: IntoIterator<Item = P>>(&mut self, paths: I) {
        paths.into_iter().for_each(|path| self.push(path));
    }
}

impl<P: AsRef<Path>> FromIterator<P> for PathBuf {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        let mut all = Self::new();
        all.extend(paths);
        all
    }
}
