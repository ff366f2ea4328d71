//! Paths as text. `Path` and `PathBuf` join, split and compare as std's do, because std's do the
//! work; what std's would ask a file system about cannot be called here.
//!
//! INV-FACADE-1: [`Path`] is `repr(transparent)` over std's `Path`, so a pointer to the one is a
//! pointer to the other, with the same length. Kept by the attribute on the type; the test of the
//! builder that joins and splits paths in a worker would notice.

mod buf;
mod component;
mod conversions;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path as Inner;

pub use buf::PathBuf;
pub use component::{Ancestors, Component, Components, Iter};

use crate::HasFiles;

/// A path, as text.
#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Path(Inner);

/// A path that shows what is no UTF-8 as replacement characters.
pub struct Display<'a>(std::path::Display<'a>);

/// The path does not begin with that prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripPrefixError(());

impl Path {
    /// The text as a path; nothing is copied.
    pub fn new<S: AsRef<OsStr> + ?Sized>(text: &S) -> &Self {
        Self::wrap(Inner::new(text))
    }

    fn wrap(inner: &Inner) -> &Self {
        // SAFETY: INV-FACADE-1; the lifetime is the one of `inner`.
        unsafe { &*(std::ptr::from_ref(inner) as *const Self) }
    }

    fn wrap_box(inner: Box<Inner>) -> Box<Self> {
        // SAFETY: INV-FACADE-1; the box gives up its pointer, which has the same layout.
        unsafe { Box::from_raw(Box::into_raw(inner) as *mut Self) }
    }

    fn unwrap_box(self: Box<Self>) -> Box<Inner> {
        // SAFETY: INV-FACADE-1; as above, the other way round.
        unsafe { Box::from_raw(Box::into_raw(self) as *mut Inner) }
    }

    /// The text.
    pub fn as_os_str(&self) -> &OsStr {
        self.0.as_os_str()
    }

    /// The text, if it is UTF-8.
    pub fn to_str(&self) -> Option<&str> {
        self.0.to_str()
    }

    /// The text, with replacement characters for what is no UTF-8.
    pub fn to_string_lossy(&self) -> Cow<'_, str> {
        self.0.to_string_lossy()
    }

    /// An owned copy.
    pub fn to_path_buf(&self) -> PathBuf {
        PathBuf(self.0.to_path_buf())
    }

    /// Begins at the root.
    pub fn is_absolute(&self) -> bool {
        self.0.is_absolute()
    }

    /// Does not.
    pub fn is_relative(&self) -> bool {
        self.0.is_relative()
    }

    /// Begins at the root.
    pub fn has_root(&self) -> bool {
        self.0.has_root()
    }

    /// Without the last component.
    pub fn parent(&self) -> Option<&Self> {
        self.0.parent().map(Self::wrap)
    }

    /// The path, its parent, and so on.
    pub fn ancestors(&self) -> Ancestors<'_> {
        Ancestors(self.0.ancestors())
    }

    /// The last component, if it is a name.
    pub fn file_name(&self) -> Option<&OsStr> {
        self.0.file_name()
    }

    /// What follows `base`.
    ///
    /// # Errors
    /// The path does not begin with `base`.
    pub fn strip_prefix<P: AsRef<Self>>(&self, base: P) -> Result<&Self, StripPrefixError> {
        self.0.strip_prefix(&base.as_ref().0).map(Self::wrap).map_err(|_| StripPrefixError(()))
    }

    /// Begins with these components.
    pub fn starts_with<P: AsRef<Self>>(&self, base: P) -> bool {
        self.0.starts_with(&base.as_ref().0)
    }

    /// Ends with these components.
    pub fn ends_with<P: AsRef<Self>>(&self, child: P) -> bool {
        self.0.ends_with(&child.as_ref().0)
    }

    /// The file name without its extension.
    pub fn file_stem(&self) -> Option<&OsStr> {
        self.0.file_stem()
    }

    /// The file name up to its first dot.
    pub fn file_prefix(&self) -> Option<&OsStr> {
        self.0.file_prefix()
    }

    /// What follows the last dot of the file name.
    pub fn extension(&self) -> Option<&OsStr> {
        self.0.extension()
    }

    /// This path, then that one; an absolute one replaces it.
    pub fn join<P: AsRef<Self>>(&self, path: P) -> PathBuf {
        PathBuf(self.0.join(&path.as_ref().0))
    }

    /// With another file name.
    pub fn with_file_name<S: AsRef<OsStr>>(&self, file_name: S) -> PathBuf {
        PathBuf(self.0.with_file_name(file_name))
    }

    /// With another extension.
    pub fn with_extension<S: AsRef<OsStr>>(&self, extension: S) -> PathBuf {
        PathBuf(self.0.with_extension(extension))
    }

    /// With one extension more.
    pub fn with_added_extension<S: AsRef<OsStr>>(&self, extension: S) -> PathBuf {
        PathBuf(self.0.with_added_extension(extension))
    }

    /// The components, normalised.
    pub fn components(&self) -> Components<'_> {
        Components(self.0.components())
    }

    /// The components as text.
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.0.iter())
    }

    /// For people.
    pub fn display(&self) -> Display<'_> {
        Display(self.0.display())
    }

    /// The box as an owned path.
    pub fn into_path_buf(self: Box<Self>) -> PathBuf {
        PathBuf(self.unwrap_box().into_path_buf())
    }
}

macro_rules! file_questions {
    ($($name:ident -> $answer:ty = $nothing:expr;)*) => {
        /// What std's `Path` asks the file system. Nothing satisfies the bound, so that a call is
        /// refused with the reason.
        impl Path {
            $(
                /// Cannot be called: a function has no files.
                ///
                /// # Errors
                /// It cannot be called.
                pub fn $name<'a>(&'a self) -> $answer where &'a Self: HasFiles { $nothing }
            )*
        }
    };
}

file_questions! {
    exists -> bool = false;
    is_file -> bool = false;
    is_dir -> bool = false;
    is_symlink -> bool = false;
    try_exists -> std::io::Result<bool> = Ok(false);
    metadata -> std::io::Result<()> = Ok(());
    symlink_metadata -> std::io::Result<()> = Ok(());
    canonicalize -> std::io::Result<PathBuf> = Ok(PathBuf::new());
    read_link -> std::io::Result<PathBuf> = Ok(PathBuf::new());
    read_dir -> std::io::Result<std::iter::Empty<()>> = Ok(std::iter::empty());
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for StripPrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("prefix not found")
    }
}

impl std::error::Error for StripPrefixError {}

impl ToOwned for Path {
    type Owned = PathBuf;

    fn to_owned(&self) -> PathBuf {
        self.to_path_buf()
    }
}

impl From<OsString> for Box<Path> {
    fn from(text: OsString) -> Self {
        PathBuf::from(text).into_boxed_path()
    }
}
