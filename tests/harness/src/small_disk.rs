//! A disk that a test fills: what programs do when there is no room is found out on one that has none.

use std::{
    ffi::CString,
    fs::{self, File},
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use rustix::mount::{MountFlags, UnmountFlags};

/// What stands in the way on a full disk.
const FILLER: &str = "filler";

/// A file system of its own, in memory, mounted over a directory; gone with the value.
#[derive(Debug)]
pub struct SmallDisk {
    place: PathBuf,
}

impl SmallDisk {
    /// Mounts one of that size over `place`, with owner and rights of what it hides. `None`, and it is said, where this
    /// user may not mount.
    ///
    /// # Panics
    /// When `place` is no directory.
    #[must_use]
    #[allow(clippy::print_stderr, reason = "a test that shows nothing has to say so")]
    pub fn mount(place: &Path, bytes: u64) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let hidden = fs::metadata(place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        let options = format!(
            "size={bytes},mode={:o},uid={},gid={}",
            hidden.mode() & 0o7777,
            hidden.uid(),
            hidden.gid()
        );
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        match rustix::mount::mount("tmpfs", place, "tmpfs", flags, text(&options).as_c_str()) {
            Ok(()) => Some(Self { place: place.to_path_buf() }),
            Err(errno) => {
                eprintln!(
                    "SKIPPED: no disk of its own at {}: {errno}; run this test as root",
                    place.display()
                );
                None
            }
        }
    }

    /// Gives it another size.
    ///
    /// # Panics
    /// When the kernel does not.
    pub fn resize(&self, bytes: u64) {
        let options = text(&format!("size={bytes}"));
        rustix::mount::mount_remount(&self.place, MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
            .unwrap_or_else(|errno| panic!("{}: {errno}", self.place.display()));
    }

    /// Writes until nothing more fits.
    ///
    /// # Panics
    /// When something else than the end of the disk stops it.
    pub fn fill(&self) {
        let path = self.place.join(FILLER);
        let mut file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        loop {
            match file.write_all(&[0; 4_096]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    /// Takes back what [`Self::fill`] wrote.
    ///
    /// # Panics
    /// When it cannot be removed.
    pub fn clear(&self) {
        fs::remove_file(self.place.join(FILLER))
            .unwrap_or_else(|error| panic!("{}: {error}", self.place.display()));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Programs that still have something open there keep it until they end.
        let _ = rustix::mount::unmount(&self.place, UnmountFlags::DETACH);
    }
}

fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}
