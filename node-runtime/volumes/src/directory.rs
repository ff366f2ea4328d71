//! Volumes below a directory.
//!
//! Two layers keep a path below its volume, whatever others put there meanwhile: the kernel resolves it beneath the volume's directory
//! and follows no link (`openat2`), and the threads that ask for it reach nothing outside of the root (landlock).

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use mfaas_abi::limits::VOLUME_DEPTH_MAX;
use mfaas_ident::ResourceName;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use tokio::sync::Semaphore;

use crate::entries::{Entries, Entry};
use crate::error::VolumeError;
use crate::limits::{COUNTED_MAX, ENTRY_BYTES, MARK};
use crate::path::VolumePath;
use crate::room::{SharedRoom, take_entry, take_room};
use crate::threads::ConfinedThreads;

/// Of what is made here: for the user of this program alone.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// How often a path is resolved again that somebody moves meanwhile.
const RESOLVED_MAX: u32 = 16;

/// How often it is tried at the same time to open the root: what hangs does so for good.
const OPENING_MAX: usize = 4;

/// The root of all volumes.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// As it was found last.
    opened: Mutex<Option<Arc<Opened>>>,
    opening: Arc<Semaphore>,
    layers: Layers,
}

/// What keeps paths below their volumes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layers {
    pub(crate) resolve: ResolveFlags,
    pub(crate) threads: fn(&Path) -> std::io::Result<ConfinedThreads>,
}

impl Layers {
    pub(crate) const ALL: Self = Self {
        resolve: ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS),
        threads: ConfinedThreads::below,
    };
}

#[derive(Debug)]
struct Opened {
    root: Root,
    threads: ConfinedThreads,
}

#[derive(Debug)]
struct Root {
    directory: OwnedFd,
    resolve: ResolveFlags,
    /// Which one it is.
    identity: (u64, u64),
}

impl Opened {
    /// What is at the path now: the same as before, if it is.
    fn open(path: &Path, layers: Layers, before: Option<Arc<Self>>) -> std::io::Result<Arc<Self>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&directory)?;
        let identity = (stat.st_dev, stat.st_ino);
        if let Some(before) = before.filter(|before| before.root.identity == identity) {
            return Ok(before);
        }
        let root = Root { directory, resolve: layers.resolve, identity };
        Ok(Arc::new(Self { root, threads: (layers.threads)(path)? }))
    }
}

impl Directory {
    pub(crate) fn at(path: &Path) -> Self {
        Self::with(path, Layers::ALL)
    }

    pub(crate) fn with(path: &Path, layers: Layers) -> Self {
        let opening = Arc::new(Semaphore::new(OPENING_MAX));
        Self { path: path.to_owned(), opened: Mutex::default(), opening, layers }
    }

    async fn run<T: Send + 'static>(
        &self,
        volume: Option<&ResourceName>,
        work: impl FnOnce(&Root) -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let opened = opened.ok_or_else(|| VolumeError::unavailable("the directory was not opened yet"))?;
        let for_work = Arc::clone(&opened);
        opened.threads.run(volume, move || work(&for_work.root)).await
    }

    /// Does something with a file or directory of a volume.
    async fn on<T: Send + 'static>(
        &self,
        path: &VolumePath,
        work: impl FnOnce(&Root, &VolumePath) -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let for_work = path.clone();
        self.run(Some(path.volume()), move |root| work(root, &for_work)).await
    }

    /// Opens what is at the path now: something else may have been mounted there.
    async fn open(&self) -> Result<(), VolumeError> {
        let permit = Arc::clone(&self.opening).acquire_owned().await.map_err(VolumeError::unavailable)?;
        let before = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (path, layers) = (self.path.clone(), self.layers);
        let opening = tokio::task::spawn_blocking(move || {
            let _until_done = permit;
            Opened::open(&path, layers, before)
        });
        let opened = opening
            .await
            .map_err(VolumeError::unavailable)?
            .map_err(|error| VolumeError::Unavailable(format!("opening {}: {error}", self.path.display())))?;
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        Ok(())
    }

    pub(crate) async fn is_marked(&self) -> Result<bool, VolumeError> {
        self.open().await?;
        self.run(None, |root| match root.resolve(root.directory.as_fd(), MARK, OFlags::PATH) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(meaning(errno)),
        })
        .await
    }

    pub(crate) async fn mark(&self) -> Result<(), VolumeError> {
        self.run(None, |root| {
            let flags = OFlags::CREATE | OFlags::RDWR;
            let mark = root.resolve(root.directory.as_fd(), MARK, flags).map_err(meaning)?;
            rustix::fs::fsync(&mark).map_err(meaning)?;
            root.sync()
        })
        .await
    }

    pub(crate) async fn size(&self, path: &VolumePath) -> Result<Option<u64>, VolumeError> {
        self.on(path, move |root, path| match root.file(path, OFlags::RDONLY) {
            Ok((_, stat)) => Ok(Some(size_of(&stat))),
            Err(VolumeError::NotThere) => Ok(None),
            Err(error) => Err(error),
        })
        .await
    }

    pub(crate) async fn create(&self, path: &VolumePath, room: &SharedRoom) -> Result<(), VolumeError> {
        let room = Arc::clone(room);
        self.on(path, move |root, path| root.create(path, &room)).await
    }

    pub(crate) async fn read_at(
        &self,
        path: &VolumePath,
        offset: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, VolumeError> {
        self.on(path, move |root, path| {
            let (file, stat) = root.file(path, OFlags::RDONLY)?;
            let there = size_of(&stat).saturating_sub(offset).min(bytes as u64) as usize;
            let mut read = vec![0; there];
            let mut filled = 0;
            while filled < read.len() {
                match rustix::io::pread(&file, &mut read[filled..], offset + filled as u64)
                    .map_err(meaning)?
                {
                    // It was made smaller meanwhile.
                    0 => break,
                    more => filled += more,
                }
            }
            read.truncate(filled);
            Ok(read)
        })
        .await
    }

    pub(crate) async fn write_at(
        &self,
        path: &VolumePath,
        offset: u64,
        bytes: &[u8],
        room: &SharedRoom,
    ) -> Result<(), VolumeError> {
        let (bytes, room) = (bytes.to_vec(), Arc::clone(room));
        self.on(path, move |root, path| {
            let (file, stat) = root.file(path, OFlags::WRONLY)?;
            if bytes.is_empty() {
                return Ok(());
            }
            take_room(&room, size_of(&stat), offset, bytes.len())?;
            let (mut rest, mut offset) = (&*bytes, offset);
            while !rest.is_empty() {
                let written = rustix::io::pwrite(&file, rest, offset).map_err(meaning)?;
                (rest, offset) = (&rest[written..], offset + written as u64);
            }
            Ok(())
        })
        .await
    }

    pub(crate) async fn append(
        &self,
        path: &VolumePath,
        bytes: &[u8],
        room: &SharedRoom,
    ) -> Result<u64, VolumeError> {
        let (bytes, room) = (bytes.to_vec(), Arc::clone(room));
        self.on(path, move |root, path| {
            let (file, stat) = root.file(path, OFlags::WRONLY | OFlags::APPEND)?;
            let size = size_of(&stat);
            if bytes.is_empty() {
                return Ok(size);
            }
            take_room(&room, size, size, bytes.len())?;
            // At once, so that it stays together.
            let written = rustix::io::write(&file, &bytes).map_err(meaning)?;
            let end = rustix::fs::tell(&file).map_err(meaning)?;
            if written < bytes.len() {
                return Err(VolumeError::unavailable("only a part of it could be appended"));
            }
            Ok(end.saturating_sub(written as u64))
        })
        .await
    }

    pub(crate) async fn truncate(
        &self,
        path: &VolumePath,
        size: u64,
        room: &SharedRoom,
    ) -> Result<(), VolumeError> {
        let room = Arc::clone(room);
        self.on(path, move |root, path| {
            let (file, stat) = root.file(path, OFlags::WRONLY)?;
            take_room(&room, size_of(&stat), size, 0)?;
            rustix::fs::ftruncate(&file, size).map_err(meaning)
        })
        .await
    }

    pub(crate) async fn sync(&self, path: &VolumePath) -> Result<(), VolumeError> {
        self.on(path, move |root, path| {
            let (file, _) = root.file(path, OFlags::RDONLY)?;
            rustix::fs::fsync(&file).map_err(meaning)?;
            // Its name as well, which may be new.
            let (above, _) = path.split_last().ok_or(VolumeError::OtherKind)?;
            for depth in (0..=above.len()).rev() {
                sync_names(&root.directory(path.volume(), &above[..depth], OFlags::RDONLY)?)?;
            }
            // And that of the volume.
            root.sync()
        })
        .await
    }

    pub(crate) async fn remove(&self, path: &VolumePath) -> Result<(), VolumeError> {
        self.on(path, move |root, path| {
            let (above, name) = path.split_last().ok_or(VolumeError::OtherKind)?;
            let directory = match root.directory(path.volume(), above, OFlags::PATH) {
                Ok(directory) => directory,
                Err(VolumeError::NotThere) => return Ok(()),
                Err(error) => return Err(error),
            };
            let kind = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(meaning(errno)),
            };
            let flags = match kind {
                FileType::RegularFile => AtFlags::empty(),
                FileType::Directory => AtFlags::REMOVEDIR,
                _ => return Err(VolumeError::OtherKind),
            };
            match rustix::fs::unlinkat(&directory, name, flags) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(Errno::NOTEMPTY | Errno::EXIST) => Err(VolumeError::NotEmpty),
                Err(errno) => Err(meaning(errno)),
            }
        })
        .await
    }

    pub(crate) async fn list(
        &self,
        directory: &VolumePath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Entries, VolumeError> {
        let after = after.map(str::to_owned);
        self.on(directory, move |root, path| {
            let directory = match root.directory(path.volume(), path.names(), OFlags::RDONLY) {
                // Nobody has put anything into the volume yet.
                Err(VolumeError::NotThere) if path.names().is_empty() => {
                    return Ok(Entries { entries: Vec::new(), has_more: false });
                }
                directory => directory?,
            };
            let mut first = BTreeMap::new();
            each_entry(&directory, |name, is_directory| {
                if after.as_deref().is_none_or(|after| name > after) {
                    first.insert(name.to_owned(), is_directory);
                    if first.len() > limit + 1 {
                        first.pop_last();
                    }
                }
                Ok(())
            })?;
            let has_more = first.len() > limit;
            let mut entries = Vec::new();
            for (name, is_directory) in first.into_iter().take(limit) {
                let size = if is_directory { None } else { Some(file_size(directory.as_fd(), &name)?) };
                entries.push(Entry { name, size });
            }
            Ok(Entries { entries, has_more })
        })
        .await
    }

    pub(crate) async fn held(&self, volume: &ResourceName) -> Result<u64, VolumeError> {
        self.on(&VolumePath::root(volume), move |root, path| {
            let directory = match root.directory(path.volume(), &[], OFlags::RDONLY) {
                Err(VolumeError::NotThere) => return Ok(0),
                directory => directory?,
            };
            root.held(&directory, VOLUME_DEPTH_MAX, Instant::now() + COUNTED_MAX)
        })
        .await
    }
}

impl Root {
    /// Opens what is at a path below a directory, as many times as somebody moves what is on the way.
    fn resolve(&self, below: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        // What only names something takes no others.
        let opening =
            if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NOCTTY | OFlags::NONBLOCK };
        let flags = flags | opening | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = if flags.contains(OFlags::CREATE) { FILE_MODE } else { Mode::empty() };
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(below, path, flags, mode, self.resolve) {
                Err(Errno::AGAIN | Errno::INTR) if tries < RESOLVED_MAX => tries += 1,
                opened => return opened,
            }
        }
    }

    /// A directory of a volume.
    fn directory(
        &self,
        volume: &ResourceName,
        names: &[String],
        flags: OFlags,
    ) -> Result<OwnedFd, VolumeError> {
        let volume = self.resolve(self.directory.as_fd(), volume.as_str(), OFlags::PATH | OFlags::DIRECTORY);
        let volume = volume.map_err(meaning)?;
        let path = if names.is_empty() { ".".to_owned() } else { names.join("/") };
        self.resolve(volume.as_fd(), &path, flags | OFlags::DIRECTORY).map_err(meaning)
    }

    /// A file of a volume.
    fn file(&self, path: &VolumePath, flags: OFlags) -> Result<(OwnedFd, Stat), VolumeError> {
        let volume = self.directory(path.volume(), &[], OFlags::PATH)?;
        let file = self.resolve(volume.as_fd(), &path.as_text(), flags).map_err(meaning)?;
        let stat = rustix::fs::fstat(&file).map_err(meaning)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            Ok((file, stat))
        } else {
            Err(VolumeError::OtherKind)
        }
    }

    fn create(&self, path: &VolumePath, room: &SharedRoom) -> Result<(), VolumeError> {
        let (_, name) = path.split_last().ok_or(VolumeError::OtherKind)?;
        let mut directory = None;
        for name in path.names_from_root().take(path.names().len()) {
            let above = directory.as_ref().map_or(self.directory.as_fd(), OwnedFd::as_fd);
            let open = || self.resolve(above, name, OFlags::PATH | OFlags::DIRECTORY);
            let opened = match open() {
                Err(Errno::NOENT) => {
                    take_entry(room)?;
                    match rustix::fs::mkdirat(above, name, DIRECTORY_MODE) {
                        Ok(()) | Err(Errno::EXIST) => open(),
                        Err(errno) => Err(errno),
                    }
                }
                opened => opened,
            };
            directory = Some(opened.map_err(meaning)?);
        }
        match self.file(path, OFlags::RDONLY) {
            Err(VolumeError::NotThere) => {}
            found => return found.map(drop),
        }
        take_entry(room)?;
        let directory = directory.ok_or(VolumeError::OtherKind)?;
        let file = self.resolve(directory.as_fd(), name, OFlags::CREATE | OFlags::RDWR).map_err(meaning)?;
        let stat = rustix::fs::fstat(&file).map_err(meaning)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(()),
            _ => Err(VolumeError::OtherKind),
        }
    }

    /// Waits until the names of volumes survive a failure of power.
    fn sync(&self) -> Result<(), VolumeError> {
        let root = self.resolve(self.directory.as_fd(), ".", OFlags::RDONLY | OFlags::DIRECTORY);
        sync_names(&root.map_err(meaning)?)
    }

    /// What lies in a directory, as far down as paths lead.
    fn held(&self, directory: &OwnedFd, depth: usize, until: Instant) -> Result<u64, VolumeError> {
        let mut held: u64 = 0;
        each_entry(directory, |name, is_directory| {
            // Nobody waits any more.
            if Instant::now() > until {
                return Err(VolumeError::silent(COUNTED_MAX));
            }
            let below = if !is_directory {
                file_size(directory.as_fd(), name)?
            } else if depth > 1 {
                match self.resolve(directory.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY) {
                    Ok(below) => self.held(&below, depth - 1, until)?,
                    Err(errno) if is_skipped(errno) => 0,
                    Err(errno) => return Err(meaning(errno)),
                }
            } else {
                0
            };
            held = held.saturating_add(ENTRY_BYTES).saturating_add(below);
            Ok(())
        })?;
        Ok(held)
    }
}

/// Waits until the names in a directory survive a failure of power, where its file system knows how.
fn sync_names(directory: &OwnedFd) -> Result<(), VolumeError> {
    match rustix::fs::fsync(directory) {
        Ok(()) | Err(Errno::INVAL | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(meaning(errno)),
    }
}

/// The files and directories of a directory, in no order, and whether they are directories; not what is something else or has a name
/// that no path can have.
fn each_entry(
    directory: &OwnedFd,
    mut each: impl FnMut(&str, bool) -> Result<(), VolumeError>,
) -> Result<(), VolumeError> {
    for entry in Dir::read_from(directory).map_err(meaning)? {
        let entry = entry.map_err(meaning)?;
        let Some(name) = name_of(entry.file_name()) else { continue };
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(errno) if is_skipped(errno) => continue,
                Err(errno) => return Err(meaning(errno)),
            },
            kind => kind,
        };
        match kind {
            FileType::RegularFile => each(name, false)?,
            FileType::Directory => each(name, true)?,
            _ => {}
        }
    }
    Ok(())
}

fn name_of(name: &CStr) -> Option<&str> {
    let names = mfaas_abi::names_of(name.to_bytes()).ok()?;
    names.first().copied().filter(|_| names.len() == 1)
}

/// Nothing of one that is skipped.
fn file_size(directory: BorrowedFd<'_>, name: &str) -> Result<u64, VolumeError> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(size_of(&stat)),
        Err(errno) if is_skipped(errno) => Ok(0),
        Err(errno) => Err(meaning(errno)),
    }
}

/// Of an entry that was removed or exchanged meanwhile, or is not ours: what lies beside it is found all the same.
fn is_skipped(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE | Errno::ACCESS | Errno::PERM)
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn meaning(errno: Errno) -> VolumeError {
    match errno {
        Errno::NOENT => VolumeError::NotThere,
        // A directory, a link, a pipe, or a way out of the volume.
        Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::XDEV | Errno::NXIO | Errno::NAMETOOLONG => {
            VolumeError::OtherKind
        }
        errno => VolumeError::unavailable(std::io::Error::from(errno)),
    }
}
