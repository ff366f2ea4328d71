//! Volumes on an NFS server (version 3), by a client of this process.
//!
//! The server looks up one name at a time and follows no link, and what a file handle names stays the same: so a path leads nowhere but
//! down if each name on it is one and each step before the last is to a directory. What the server says of its files is believed, and
//! so is the network to it: NFS 3 encrypts and signs nothing.
//!
//! Who appends asks where the file ends, and writes there: those of one broker one after the other, those of several not.

mod server;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use mfaas_abi::limits::VOLUME_DEPTH_MAX;
use mfaas_ident::ResourceName;
use nfs3_types::nfs3::{
    COMMIT3args, COMMIT3resfail, COMMIT3resok, CREATE3args, CREATE3resfail, CREATE3resok, GETATTR3args,
    GETATTR3resok, LOOKUP3args, LOOKUP3resfail, LOOKUP3resok, MKDIR3args, MKDIR3resfail, MKDIR3resok,
    NFS_PROGRAM, Nfs3Option, READ3args, READ3resfail, READ3resok, READDIRPLUS3args, READDIRPLUS3resfail,
    READDIRPLUS3resok, REMOVE3args, REMOVE3resfail, REMOVE3resok, RMDIR3args, RMDIR3resfail, RMDIR3resok,
    SETATTR3args, SETATTR3resfail, SETATTR3resok, WRITE3args, WRITE3resfail, WRITE3resok, cookieverf3,
    createhow3, diropargs3, fattr3, filename3, ftype3, nfs_fh3, nfsstat3, sattr3, stable_how, wcc_data,
};
use nfs3_types::xdr_codec::{Opaque, Void};

pub(crate) use self::server::NfsAddress;
use self::server::Server;
use crate::entries::{Entries, Entry};
use crate::error::VolumeError;
use crate::limits::{ENTRY_BYTES, MARK};
use crate::path::VolumePath;
use crate::room::{SharedRoom, take_entry, take_room};

/// Of what is made here: for the user of this program alone.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// How long it counts what a name was found to be, and for how many.
const FOUND_KEPT: Duration = Duration::from_secs(1);
const FOUND_MAX: NonZeroUsize = NonZeroUsize::new(4_096).expect("not zero");
/// How many bytes of a directory are asked for at once.
const LISTED_BYTES: u32 = 64 << 10;
/// Files that are appended to or synced at the same time.
const ALONE_MAX: usize = 64;

/// Files of which something is kept by the server and not stored yet, that are remembered.
const UNSYNCED_MAX: NonZeroUsize = NonZeroUsize::new(65_536).expect("not zero");
/// Where the bytes of a file end that any file system has.
const END_MAX: u64 = i64::MAX as u64;

/// What a name was found to be.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    handle: nfs_fh3,
    is_directory: bool,
    size: u64,
    since: Instant,
}

/// A name in a directory.
type Key = (Vec<u8>, String);

/// What names were found to be.
#[derive(Debug)]
struct Names {
    found: LruCache<Key, Found>,
    /// How often something was forgotten: what was asked before does not count after that.
    forgotten: u64,
}

/// A server that forgets what it has not stored when it is started again: its run.
type ServerRun = [u8; 8];

/// The export in which all volumes lie.
#[derive(Debug)]
pub(crate) struct Nfs {
    pub(crate) server: Server,
    names: Mutex<Names>,
    /// By file, which run keeps the first of what is not stored.
    unsynced: Mutex<LruCache<Vec<u8>, ServerRun>>,
    /// Who appends asks first where the file ends, and who syncs which run has what: one at a time of this broker.
    alone: [tokio::sync::Mutex<()>; ALONE_MAX],
}

/// Does it once more, from the root on, if the server does not know what it had named: it has not done anything then.
macro_rules! unless_stale {
    ($self:ident, $asked:expr) => {
        match $asked.await {
            Err(VolumeError::Stale) => {
                $self.forget_all();
                $asked.await.map_err(|error| match error {
                    VolumeError::Stale => VolumeError::unavailable(error),
                    error => error,
                })
            }
            answered => answered,
        }
    };
}

impl Nfs {
    pub(crate) fn new(address: NfsAddress) -> Self {
        let alone = std::array::from_fn(|_| tokio::sync::Mutex::default());
        let names = Mutex::new(Names { found: LruCache::new(FOUND_MAX), forgotten: 0 });
        let unsynced = Mutex::new(LruCache::new(UNSYNCED_MAX));
        Self { server: Server::new(address), names, unsynced, alone }
    }

    pub(crate) async fn is_marked(&self) -> Result<bool, VolumeError> {
        let root = self.server.root_now().await?;
        Ok(self.look_up(&root, MARK).await?.is_some())
    }

    pub(crate) async fn mark(&self) -> Result<(), VolumeError> {
        let root = self.server.root().await?;
        self.make_file(&root, MARK).await.map(drop)
    }

    pub(crate) async fn size(&self, path: &VolumePath) -> Result<Option<u64>, VolumeError> {
        let asked = || async {
            match self.file(path).await {
                Ok((_, file)) => Ok(Some(self.attributes(&file.handle).await?.size)),
                Err(VolumeError::NotThere) => Ok(None),
                Err(error) => Err(error),
            }
        };
        unless_stale!(self, asked())
    }

    pub(crate) async fn create(&self, path: &VolumePath, room: &SharedRoom) -> Result<(), VolumeError> {
        unless_stale!(self, self.try_create(path, room))
    }

    async fn try_create(&self, path: &VolumePath, room: &SharedRoom) -> Result<(), VolumeError> {
        let (_, name) = path.split_last().ok_or(VolumeError::OtherKind)?;
        let mut directory = self.server.root().await?;
        for name in path.names_from_root().take(path.names().len()) {
            let found = match self.find(&directory, name).await? {
                Some(found) => found,
                None => {
                    take_entry(room)?;
                    self.make_directory(&directory, name).await?
                }
            };
            directory = found.directory()?;
        }
        // It may have been removed by another node a moment ago.
        self.forget(&key_of(&directory, name));
        match self.find(&directory, name).await? {
            Some(found) => found.file().map(drop),
            None => {
                take_entry(room)?;
                self.make_file(&directory, name).await?.file().map(drop)
            }
        }
    }

    pub(crate) async fn read_at(
        &self,
        path: &VolumePath,
        offset: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, VolumeError> {
        unless_stale!(self, self.try_read_at(path, offset, bytes))
    }

    async fn try_read_at(
        &self,
        path: &VolumePath,
        offset: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, VolumeError> {
        let (_, file) = self.file(path).await?;
        let mut read = Vec::new();
        while read.len() < bytes {
            let left = bytes - read.len();
            let offset = offset.saturating_add(read.len() as u64);
            if offset >= END_MAX {
                break;
            }
            let count = u32::try_from(left).unwrap_or(u32::MAX);
            let request = READ3args { file: file.handle.clone(), offset, count };
            let asked =
                self.server.ask::<_, READ3resok<'_>, READ3resfail>(NFS_PROGRAM::NFSPROC3_READ, &request);
            let READ3resok { data, eof, .. } = asked.await?.map_err(meaning)?;
            read.extend_from_slice(&data[..data.len().min(left)]);
            if eof || data.is_empty() {
                break;
            }
        }
        Ok(read)
    }

    pub(crate) async fn write_at(
        &self,
        path: &VolumePath,
        offset: u64,
        bytes: &[u8],
        room: &SharedRoom,
    ) -> Result<(), VolumeError> {
        let asked = || async {
            let (key, file) = self.file(path).await?;
            if bytes.is_empty() {
                return Ok(());
            }
            take_room(room, file.size, offset, bytes.len())?;
            self.write((&key, &file), offset, bytes).await
        };
        unless_stale!(self, asked())
    }

    pub(crate) async fn append(
        &self,
        path: &VolumePath,
        bytes: &[u8],
        room: &SharedRoom,
    ) -> Result<u64, VolumeError> {
        let asked = || async {
            let (key, file) = self.file(path).await?;
            let _alone = self.alone_with(&file.handle).await;
            let size = self.attributes(&file.handle).await?.size;
            if !bytes.is_empty() {
                take_room(room, size, size, bytes.len())?;
                self.write((&key, &file), size, bytes).await?;
            }
            Ok(size)
        };
        unless_stale!(self, asked())
    }

    pub(crate) async fn truncate(
        &self,
        path: &VolumePath,
        size: u64,
        room: &SharedRoom,
    ) -> Result<(), VolumeError> {
        let asked = || async {
            let (key, file) = self.file(path).await?;
            take_room(room, self.attributes(&file.handle).await?.size, size, 0)?;
            let request = SETATTR3args {
                object: file.handle,
                new_attributes: sattr3 { size: Nfs3Option::Some(size), ..sattr3::default() },
                guard: Nfs3Option::None,
            };
            let procedure = NFS_PROGRAM::NFSPROC3_SETATTR;
            let changed =
                self.server.ask_once::<_, SETATTR3resok, SETATTR3resfail>(procedure, &request).await;
            self.forget(&key);
            changed?.map(drop).map_err(meaning)
        };
        unless_stale!(self, asked())
    }

    pub(crate) async fn sync(&self, path: &VolumePath) -> Result<(), VolumeError> {
        let asked = || async {
            let (_, file) = self.file(path).await?;
            let _alone = self.alone_with(&file.handle).await;
            // What is written from here on is remembered anew. Without an answer it is as it was.
            let kept_by = self.lock_unsynced().pop(&file.handle.data.to_vec());
            let mut unsynced = Unsynced { nfs: self, file: &file.handle, run: kept_by };
            let request = COMMIT3args { file: file.handle.clone(), offset: 0, count: 0 };
            let procedure = NFS_PROGRAM::NFSPROC3_COMMIT;
            let asked = self.server.ask::<_, COMMIT3resok, COMMIT3resfail>(procedure, &request).await;
            let stored = asked?.map_err(meaning)?;
            match unsynced.run.take() {
                Some(kept_by) if stored.verf.0 != kept_by => Err(VolumeError::Restarted),
                Some(_) | None => Ok(()),
            }
        };
        unless_stale!(self, asked())
    }

    pub(crate) async fn remove(&self, path: &VolumePath) -> Result<(), VolumeError> {
        unless_stale!(self, self.try_remove(path))
    }

    async fn try_remove(&self, path: &VolumePath) -> Result<(), VolumeError> {
        let (_, name) = path.split_last().ok_or(VolumeError::OtherKind)?;
        let mut directory = self.server.root().await?;
        for name in path.names_from_root().take(path.names().len()) {
            let Some(found) = self.find(&directory, name).await? else { return Ok(()) };
            directory = found.directory()?;
        }
        let Some(found) = self.look_up(&directory, name).await? else { return Ok(()) };
        let (object, server) = (named(&directory, name), &self.server);
        let removed = if found.is_directory {
            let (procedure, request) = (NFS_PROGRAM::NFSPROC3_RMDIR, RMDIR3args { object });
            let asked = server.ask_once::<_, RMDIR3resok, RMDIR3resfail>(procedure, &request);
            asked.await.map(|removed| removed.map(drop))
        } else {
            found.file()?;
            let (procedure, request) = (NFS_PROGRAM::NFSPROC3_REMOVE, REMOVE3args { object });
            let asked = server.ask_once::<_, REMOVE3resok, REMOVE3resfail>(procedure, &request);
            asked.await.map(|removed| removed.map(drop))
        };
        self.forget(&key_of(&directory, name));
        match removed? {
            Ok(()) | Err(nfsstat3::NFS3ERR_NOENT) => Ok(()),
            Err(status) => Err(meaning(status)),
        }
    }

    pub(crate) async fn list(
        &self,
        directory: &VolumePath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Entries, VolumeError> {
        unless_stale!(self, self.try_list(directory, after, limit))
    }

    async fn try_list(
        &self,
        directory: &VolumePath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Entries, VolumeError> {
        let handle = match self.directory(directory).await {
            // Nobody has put anything into the volume yet.
            Err(VolumeError::NotThere) if directory.names().is_empty() => {
                return Ok(Entries { entries: Vec::new(), has_more: false });
            }
            handle => handle?,
        };
        let mut first = BTreeMap::new();
        self.each_entry(&handle, |name, found| {
            if after.is_none_or(|after| name.as_str() > after) {
                first.insert(name, found);
                if first.len() > limit + 1 {
                    first.pop_last();
                }
            }
        })
        .await?;
        let has_more = first.len() > limit;
        let entry = |(name, found): (String, Found)| Entry {
            name,
            size: (!found.is_directory).then_some(found.size),
        };
        Ok(Entries { entries: first.into_iter().take(limit).map(entry).collect(), has_more })
    }

    pub(crate) async fn held(&self, volume: &ResourceName) -> Result<u64, VolumeError> {
        let asked = || async {
            match self.directory(&VolumePath::root(volume)).await {
                Err(VolumeError::NotThere) => Ok(0),
                root => self.held_below(root?, VOLUME_DEPTH_MAX).await,
            }
        };
        unless_stale!(self, asked())
    }

    fn held_below(
        &self,
        directory: nfs_fh3,
        depth: usize,
    ) -> Pin<Box<dyn Future<Output = Result<u64, VolumeError>> + Send + '_>> {
        Box::pin(async move {
            let (mut held, mut below) = (0_u64, Vec::new());
            self.each_entry(&directory, |_, found| {
                held = held.saturating_add(ENTRY_BYTES);
                if found.is_directory {
                    below.push(found.handle);
                } else {
                    held = held.saturating_add(found.size);
                }
            })
            .await?;
            for directory in below.into_iter().filter(|_| depth > 1) {
                match self.held_below(directory, depth - 1).await {
                    Ok(bytes) => held = held.saturating_add(bytes),
                    // Removed meanwhile, or not ours.
                    Err(VolumeError::NotThere | VolumeError::Stale | VolumeError::Forbidden) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(held)
        })
    }

    async fn directory(&self, path: &VolumePath) -> Result<nfs_fh3, VolumeError> {
        let mut handle = self.server.root().await?;
        for name in path.names_from_root() {
            handle = self.find(&handle, name).await?.ok_or(VolumeError::NotThere)?.directory()?;
        }
        Ok(handle)
    }

    /// A file, and by which name it was found.
    async fn file(&self, path: &VolumePath) -> Result<(Key, Found), VolumeError> {
        let (_, name) = path.split_last().ok_or(VolumeError::OtherKind)?;
        let mut handle = self.server.root().await?;
        for name in path.names_from_root().take(path.names().len()) {
            handle = self.find(&handle, name).await?.ok_or(VolumeError::NotThere)?.directory()?;
        }
        let found = self.find(&handle, name).await?.ok_or(VolumeError::NotThere)?.file()?;
        Ok((key_of(&handle, name), found))
    }

    /// What a name of a directory is, or was a moment ago.
    async fn find(&self, directory: &nfs_fh3, name: &str) -> Result<Option<Found>, VolumeError> {
        let key = key_of(directory, name);
        let forgotten = {
            let mut names = self.lock_names();
            if let Some(found) = names.found.get(&key)
                && found.since.elapsed() < FOUND_KEPT
            {
                return Ok(Some(found.clone()));
            }
            names.forgotten
        };
        let found = self.look_up(directory, name).await?;
        let mut names = self.lock_names();
        if let Some(found) = &found
            && names.forgotten == forgotten
        {
            names.found.put(key, found.clone());
        }
        Ok(found)
    }

    async fn look_up(&self, directory: &nfs_fh3, name: &str) -> Result<Option<Found>, VolumeError> {
        let request = LOOKUP3args { what: named(directory, name) };
        let reply =
            self.server.ask::<_, LOOKUP3resok, LOOKUP3resfail>(NFS_PROGRAM::NFSPROC3_LOOKUP, &request);
        let LOOKUP3resok { object, obj_attributes, .. } = match reply.await? {
            Ok(found) => found,
            Err(nfsstat3::NFS3ERR_NOENT) => return Ok(None),
            Err(status) => return Err(meaning(status)),
        };
        let attributes = match obj_attributes {
            Nfs3Option::Some(attributes) => attributes,
            Nfs3Option::None => self.attributes(&object).await?,
        };
        Found::of(object, &attributes).map(Some)
    }

    async fn attributes(&self, handle: &nfs_fh3) -> Result<fattr3, VolumeError> {
        let request = GETATTR3args { object: handle.clone() };
        let reply = self.server.ask::<_, GETATTR3resok, Void>(NFS_PROGRAM::NFSPROC3_GETATTR, &request);
        reply.await?.map(|GETATTR3resok { obj_attributes }| obj_attributes).map_err(meaning)
    }

    async fn make_directory(&self, directory: &nfs_fh3, name: &str) -> Result<Found, VolumeError> {
        let attributes = sattr3 { mode: Nfs3Option::Some(DIRECTORY_MODE), ..sattr3::default() };
        let request = MKDIR3args { where_: named(directory, name), attributes };
        let reply = self.server.ask::<_, MKDIR3resok, MKDIR3resfail>(NFS_PROGRAM::NFSPROC3_MKDIR, &request);
        self.made(directory, name, reply.await?.map(drop)).await
    }

    async fn make_file(&self, directory: &nfs_fh3, name: &str) -> Result<Found, VolumeError> {
        let attributes = sattr3 { mode: Nfs3Option::Some(FILE_MODE), ..sattr3::default() };
        // One that is there already, or is no file, is left as it is.
        let request = CREATE3args { where_: named(directory, name), how: createhow3::GUARDED(attributes) };
        let reply =
            self.server.ask::<_, CREATE3resok, CREATE3resfail>(NFS_PROGRAM::NFSPROC3_CREATE, &request);
        self.made(directory, name, reply.await?.map(drop)).await
    }

    /// What there is now, made by this or by somebody else.
    async fn made(
        &self,
        directory: &nfs_fh3,
        name: &str,
        reply: Result<(), nfsstat3>,
    ) -> Result<Found, VolumeError> {
        match reply {
            Ok(()) | Err(nfsstat3::NFS3ERR_EXIST) => {
                self.find(directory, name).await?.ok_or(VolumeError::NotThere)
            }
            Err(status) => Err(meaning(status)),
        }
    }

    /// Writes all of it.
    async fn write(&self, (key, file): (&Key, &Found), offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        let (mut rest, mut offset) = (bytes, offset);
        while !rest.is_empty() {
            let request = WRITE3args {
                file: file.handle.clone(),
                offset,
                count: u32::try_from(rest.len()).map_err(VolumeError::unavailable)?,
                stable: stable_how::UNSTABLE,
                data: Opaque::borrowed(rest),
            };
            let procedure = NFS_PROGRAM::NFSPROC3_WRITE;
            let asked = self.server.ask_once::<_, WRITE3resok, WRITE3resfail>(procedure, &request).await;
            let WRITE3resok { count, committed, verf, file_wcc } =
                asked.and_then(|answered| answered.map_err(meaning)).inspect_err(|_| self.forget(key))?;
            let written = (count as usize).min(rest.len());
            if written == 0 {
                return Err(VolumeError::unavailable("the file server writes nothing"));
            }
            if committed == stable_how::UNSTABLE {
                self.note_unsynced(&file.handle, verf.0);
            }
            (rest, offset) = (&rest[written..], offset.saturating_add(written as u64));
            self.note_size((key, file), offset, &file_wcc);
        }
        Ok(())
    }

    async fn alone_with(&self, file: &nfs_fh3) -> tokio::sync::MutexGuard<'_, ()> {
        let sum = |sum: usize, byte: &u8| sum.wrapping_mul(31).wrapping_add(usize::from(*byte));
        self.alone[file.data.iter().fold(0, sum) % ALONE_MAX].lock().await
    }

    /// Which run keeps something of a file that is not stored: the first one counts, since what a later one keeps is less.
    fn note_unsynced(&self, file: &nfs_fh3, run: ServerRun) {
        self.lock_unsynced().get_or_insert(file.data.to_vec(), || run);
    }

    /// As if a run of the server had kept it that is over.
    #[cfg(test)]
    pub(crate) async fn note_earlier_run(&self, path: &VolumePath) {
        let (_, file) = self.file(path).await.expect("it is there");
        self.lock_unsynced().put(file.handle.data.to_vec(), *b"earlier\0");
    }

    /// What is known of a file is its size after a write that ended there.
    fn note_size(&self, (key, file): (&Key, &Found), end: u64, told: &wcc_data) {
        let size = match &told.after {
            Nfs3Option::Some(after) => after.size,
            Nfs3Option::None => file.size.max(end),
        };
        let mut names = self.lock_names();
        if let Some(found) = names.found.peek_mut(key)
            && found.handle == file.handle
        {
            found.size = size;
        }
    }

    /// What a name is has to be asked again.
    fn forget(&self, key: &Key) {
        let mut names = self.lock_names();
        names.found.pop(key);
        names.forgotten += 1;
    }

    /// A handle names nothing any more: nobody knows which others do not.
    fn forget_all(&self) {
        self.server.forget_root();
        let mut names = self.lock_names();
        names.found.clear();
        names.forgotten += 1;
    }

    fn lock_names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_unsynced(&self) -> MutexGuard<'_, LruCache<Vec<u8>, ServerRun>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files and directories of a directory, in no order; not what is something else or has a name that no path can have.
    async fn each_entry(
        &self,
        directory: &nfs_fh3,
        mut each: impl FnMut(String, Found),
    ) -> Result<(), VolumeError> {
        let (mut cookie, mut cookieverf) = (0, cookieverf3::default());
        loop {
            let (dircount, maxcount) = (LISTED_BYTES / 4, LISTED_BYTES);
            let request = READDIRPLUS3args { dir: directory.clone(), cookie, cookieverf, dircount, maxcount };
            let reply = self
                .server
                .ask::<_, READDIRPLUS3resok<'_>, READDIRPLUS3resfail>(
                    NFS_PROGRAM::NFSPROC3_READDIRPLUS,
                    &request,
                )
                .await?;
            let READDIRPLUS3resok { cookieverf: next, reply, .. } = reply.map_err(meaning)?;
            let is_last = reply.eof || reply.entries.0.is_empty();
            let before = cookie;
            for entry in reply.entries.0 {
                cookie = entry.cookie;
                let Some(name) = name_of(&entry.name) else { continue };
                let found = match (entry.name_handle, entry.name_attributes) {
                    (Nfs3Option::Some(handle), Nfs3Option::Some(attributes)) => {
                        Found::of(handle, &attributes)
                    }
                    _ => match self.look_up(directory, &name).await {
                        Ok(Some(found)) => Ok(found),
                        Ok(None) => continue,
                        Err(error) => Err(error),
                    },
                };
                match found {
                    Ok(found) => each(name, found),
                    Err(VolumeError::OtherKind) => {}
                    Err(error) => return Err(error),
                }
            }
            if is_last {
                return Ok(());
            }
            if cookie == before {
                return Err(VolumeError::unavailable("the file server lists a directory without an end"));
            }
            cookieverf = next;
        }
    }
}

/// Which run has what of a file: noted again unless that is over.
struct Unsynced<'a> {
    nfs: &'a Nfs,
    file: &'a nfs_fh3,
    run: Option<ServerRun>,
}

impl Drop for Unsynced<'_> {
    fn drop(&mut self) {
        self.run.take().into_iter().for_each(|run| self.nfs.note_unsynced(self.file, run));
    }
}

impl Found {
    pub(crate) fn of(handle: nfs_fh3, attributes: &fattr3) -> Result<Self, VolumeError> {
        let is_directory = match attributes.type_ {
            ftype3::NF3REG => false,
            ftype3::NF3DIR => true,
            _ => return Err(VolumeError::OtherKind),
        };
        Ok(Self { handle, is_directory, size: attributes.size, since: Instant::now() })
    }

    fn directory(self) -> Result<nfs_fh3, VolumeError> {
        if self.is_directory { Ok(self.handle) } else { Err(VolumeError::OtherKind) }
    }

    fn file(self) -> Result<Self, VolumeError> {
        if self.is_directory { Err(VolumeError::OtherKind) } else { Ok(self) }
    }
}

fn key_of(directory: &nfs_fh3, name: &str) -> Key {
    (directory.data.to_vec(), name.to_owned())
}

fn named<'a>(directory: &nfs_fh3, name: &'a str) -> diropargs3<'a> {
    diropargs3 { dir: directory.clone(), name: filename3(Opaque::borrowed(name.as_bytes())) }
}

fn name_of(name: &filename3<'_>) -> Option<String> {
    let names = mfaas_abi::names_of(name.0.as_ref()).ok()?;
    names.first().filter(|_| names.len() == 1).map(|name| (*name).to_owned())
}

fn meaning(status: nfsstat3) -> VolumeError {
    match status {
        nfsstat3::NFS3ERR_NOENT => VolumeError::NotThere,
        nfsstat3::NFS3ERR_STALE | nfsstat3::NFS3ERR_BADHANDLE => VolumeError::Stale,
        nfsstat3::NFS3ERR_ACCES | nfsstat3::NFS3ERR_PERM => VolumeError::Forbidden,
        nfsstat3::NFS3ERR_NOTDIR | nfsstat3::NFS3ERR_ISDIR | nfsstat3::NFS3ERR_NAMETOOLONG => {
            VolumeError::OtherKind
        }
        // Servers say either of a directory that is not empty.
        nfsstat3::NFS3ERR_NOTEMPTY | nfsstat3::NFS3ERR_EXIST => VolumeError::NotEmpty,
        status => VolumeError::Unavailable(format!("the file server says {status}")),
    }
}
