//! The conversions and comparisons that std has between paths and other text.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::rc::Rc;
use std::sync::Arc;

use super::{Component, Components, Iter, Path, PathBuf};

macro_rules! as_path {
    ($($text:ty),*) => { $(impl AsRef<Path> for $text {
        fn as_ref(&self) -> &Path {
            Path::new(self)
        }
    })* };
}
as_path!(str, String, OsStr, OsString, Cow<'_, OsStr>);

macro_rules! as_its_path {
    ($($parts:ty = $path:expr),*) => { $(
        impl AsRef<Path> for $parts {
            fn as_ref(&self) -> &Path {
                let path: fn(&Self) -> &Path = $path;
                path(self)
            }
        }
        impl AsRef<OsStr> for $parts {
            fn as_ref(&self) -> &OsStr {
                AsRef::<Path>::as_ref(self).as_os_str()
            }
        }
    )* };
}
as_its_path!(
    Path = |path| path,
    PathBuf = |path| path,
    Component<'_> = |part| Path::new(part.as_os_str()),
    Components<'_> = |parts| parts.as_path(),
    Iter<'_> = |parts| parts.as_path()
);

macro_rules! from {
    ($($from:ty => $to:ty: $convert:expr;)*) => { $(impl From<$from> for $to {
        fn from(value: $from) -> Self {
            let convert: fn($from) -> Self = $convert;
            convert(value)
        }
    })* };
}
from! {
    String => PathBuf: |text| PathBuf(text.into());
    OsString => PathBuf: |text| PathBuf(text.into());
    Box<Path> => PathBuf: |path| path.into_path_buf();
    PathBuf => OsString: PathBuf::into_os_string;
    PathBuf => Box<Path>: PathBuf::into_boxed_path;
    PathBuf => Rc<Path>: |path| Rc::from(path.into_boxed_path());
    PathBuf => Arc<Path>: |path| Arc::from(path.into_boxed_path());
    &Path => Box<Path>: |path| path.to_path_buf().into_boxed_path();
    &Path => Rc<Path>: |path| path.to_path_buf().into();
    &Path => Arc<Path>: |path| path.to_path_buf().into();
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for PathBuf {
    fn from(text: &T) -> Self {
        Self(text.into())
    }
}

impl<'a> From<&'a Path> for Cow<'a, Path> {
    fn from(path: &'a Path) -> Self {
        Self::Borrowed(path)
    }
}

impl<'a> From<&'a PathBuf> for Cow<'a, Path> {
    fn from(path: &'a PathBuf) -> Self {
        Self::Borrowed(path)
    }
}

impl From<PathBuf> for Cow<'_, Path> {
    fn from(path: PathBuf) -> Self {
        Self::Owned(path)
    }
}

impl From<Cow<'_, Path>> for PathBuf {
    fn from(path: Cow<'_, Path>) -> Self {
        path.into_owned()
    }
}

impl Clone for Box<Path> {
    fn clone(&self) -> Self {
        self.to_path_buf().into_boxed_path()
    }
}

macro_rules! equal {
    ($($left:ty, $right:ty;)*) => { $(
        impl PartialEq<$right> for $left {
            fn eq(&self, other: &$right) -> bool {
                std::path::Path::new(AsRef::<OsStr>::as_ref(self))
                    == std::path::Path::new(AsRef::<OsStr>::as_ref(other))
            }
        }
        impl PartialEq<$left> for $right {
            fn eq(&self, other: &$left) -> bool {
                other == self
            }
        }
    )* };
}
equal! {
    PathBuf, Path;
    PathBuf, &Path;
    PathBuf, OsStr;
    PathBuf, &OsStr;
    PathBuf, OsString;
    PathBuf, str;
    PathBuf, &str;
    PathBuf, String;
    Path, OsStr;
    Path, OsString;
    Path, &OsStr;
    Path, str;
    Path, String;
    &Path, OsStr;
    &Path, OsString;
}
