//! For tests of handlers, with `cargo test` on a developer's machine.
//!
//! ```
//! use mfaas::{Binding, DataError, Kv, Write};
//!
//! struct Visits;
//!
//! impl Binding for Visits {
//!     const NAME: &'static str = "visits";
//!     type Value = i64;
//! }
//!
//! async fn count(page: String, visits: Kv<Visits, Write>) -> Result<String, DataError> {
//!     mfaas::sleep(std::time::Duration::from_millis(5)).await;
//!     Ok(visits.increment(&page, 1).await?.to_string())
//! }
//!
//! let visit = || mfaas::testing::block_on(count("a".to_owned(), mfaas::testing::kv()));
//! assert_eq!([visit(), visit()], [Ok("1".to_owned()), Ok("2".to_owned())]);
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mfaas_abi::limits::{KV_KEYS_MAX, OBJECT_PIECE_BYTES_MAX, VOLUME_ENTRIES_MAX, VOLUME_PIECE_BYTES_MAX};
use mfaas_abi::{
    CalleeReply, DONE, KvExpiry, KvReply, KvRequest, ObjectReply, ObjectRequest, OperationKind, Status,
    VolumeReply, VolumeRequest, names_of, split_binding,
};
use mfaas_shim::Outcome;
use serde::de::DeserializeOwned;

use crate::{Access, Asset, Binding, Cache, Call, Callee, IntoResponse, Json, Kv, Objects, Response, Volume};

mod http;

pub use http::{http, secret};

/// Where the places of data in memory begin: a function has no such binding, so that these are none in a node.
const PLACES: u32 = 1 << 31;

/// A file in memory.
const FILE_BYTES_MAX: usize = 64 << 20;

/// The codes of a limit, of a value that cannot be incremented, of a resource that is full and of a path where no file is, as a node gives
/// them.
const LIMIT: u32 = 1202;
const NOT_A_NUMBER: u32 = 1203;
const FULL: u32 = 1208;
const NO_FILE: u32 = 1212;

/// An entry, and when it expires.
type Entry = (Vec<u8>, Option<Instant>);

/// What a function answers to the body of a request.
type Answer = Rc<dyn Fn(&[u8]) -> Option<Outcome>>;

/// Keys and values.
type Entries<'a> = Vec<(&'a [u8], &'a [u8])>;

/// What lies under one binding.
#[derive(Default)]
struct Data {
    name: &'static str,
    kind: Kind,
    entries: BTreeMap<Vec<u8>, Entry>,
    uploads: BTreeMap<u32, Vec<u8>>,
    directories: BTreeSet<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Values,
    Objects,
    Files,
}

thread_local! {
    static ALL: RefCell<Vec<Data>> = const { RefCell::new(Vec::new()) };
    static CALLEES: RefCell<Vec<Answer>> = const { RefCell::new(Vec::new()) };
}

/// Data of this thread, for the parameter of a handler: nothing at first, and the same for each binding of a name. What is
/// changed stays, also if the handler fails, and no other call is in the way of a change.
pub fn kv<B: Binding, A: Access>() -> Kv<B, A> {
    Kv::at(place_of(B::NAME, Kind::Values))
}

/// The same of a cache, in which everything stays.
pub fn cache<B: Binding, A: Access>() -> Cache<B, A> {
    Cache::at(place_of(B::NAME, Kind::Values))
}

/// An asset of these bytes: for example `include_bytes!`, or a file that was read and leaked.
pub const fn asset<B>(bytes: &'static [u8]) -> Asset<B> {
    Asset::of(bytes)
}

/// The same of objects.
pub fn objects<B: Binding, A: Access>() -> Objects<B, A> {
    Objects::at(place_of(B::NAME, Kind::Objects))
}

/// The same of files.
pub fn volume<B: Binding, A: Access>() -> Volume<B, A> {
    Volume::at(place_of(B::NAME, Kind::Files))
}

fn place_of(name: &'static str, kind: Kind) -> u32 {
    let place = ALL.with_borrow_mut(|all| {
        let is_it = |data: &Data| data.name == name && data.kind == kind;
        all.iter().position(is_it).unwrap_or_else(|| {
            all.push(Data { name, kind, ..Data::default() });
            all.len() - 1
        })
    });
    PLACES + place as u32
}

/// A function that answers as this handler does, for the parameter of another one.
pub fn call<F: Callee, A: DeserializeOwned, R: IntoResponse>(
    answer: impl Fn(Json<A>) -> R + 'static,
) -> Call<F> {
    let place = CALLEES.with_borrow_mut(|all| {
        all.push(Rc::new(move |body| {
            let (status, response) = match serde_json::from_slice(body) {
                Ok(request) => answer(Json(request)).into_response(),
                Err(error) => (Status::Ok, Response::text(error.to_string()).with_status(400)),
            };
            let reply = response.into_reply(status).ok()?;
            let bytes = CalleeReply { http_status: reply.http_status, body: &reply.body }.encode();
            Some(Outcome { code: DONE, bytes })
        }));
        all.len() - 1
    });
    Call::at(PLACES + place as u32)
}

/// Runs what is `async` to its end on this thread. Not for handlers, which their node runs.
///
/// # Panics
/// If `future` waits for what this crate does not offer.
pub fn block_on<F: Future>(future: F) -> F::Output {
    mfaas_shim::block_on(future, |kind, operation| {
        let (place, request) = split_binding(operation)?;
        if let Some(server) = place.checked_sub(http::SERVERS) {
            return http::answer(server, request);
        }
        let place = place.checked_sub(PLACES)? as usize;
        if kind == OperationKind::Call {
            // It may call another one.
            let answer = CALLEES.with_borrow(|all| all.get(place).map(Rc::clone))?;
            return answer(request);
        }
        ALL.with_borrow_mut(|all| {
            let data = all.get_mut(place)?;
            Some(match data.kind {
                Kind::Values => data.answer(&KvRequest::decode(request)?),
                Kind::Objects => {
                    let bytes = data.answer_of_objects(&ObjectRequest::decode(request)?);
                    Outcome { code: DONE, bytes }
                }
                Kind::Files => match data.answer_of_files(&VolumeRequest::decode(request)?) {
                    Ok(bytes) => Outcome { code: DONE, bytes },
                    Err((code, message)) => Outcome { code, bytes: message.as_bytes().to_vec() },
                },
            })
        })
    })
}

impl Data {
    fn answer(&mut self, request: &KvRequest<'_>) -> Outcome {
        let now = Instant::now();
        self.entries.retain(|_, (_, expires)| expires.is_none_or(|at| now < at));
        let reply = match request {
            KvRequest::Get { keys } => {
                KvReply::Values(keys.iter().map(|key| Some(&*self.entries.get(*key)?.0)).collect()).encode()
            }
            KvRequest::Put { key, value, expiry } => {
                let expires = match expiry {
                    KvExpiry::Never => None,
                    KvExpiry::AfterMs(ms) => now.checked_add(Duration::from_millis(*ms)),
                };
                self.entries.insert(key.to_vec(), (value.to_vec(), expires));
                KvReply::Done.encode()
            }
            KvRequest::Delete { key } => {
                self.entries.remove(*key);
                KvReply::Done.encode()
            }
            KvRequest::Increment { key, by } => {
                let before = self.entries.get(*key).map_or(b"0".to_vec(), |(value, _)| value.clone());
                let number =
                    std::str::from_utf8(&before).ok().and_then(|text| text.trim().parse::<i64>().ok());
                let Some(sum) = number.and_then(|number| number.checked_add(*by)) else {
                    let bytes = b"the value, or the sum, is no whole number of 64 bits".to_vec();
                    return Outcome { code: NOT_A_NUMBER, bytes };
                };
                let expires = self.entries.get(*key).and_then(|(_, expires)| *expires);
                self.entries.insert(key.to_vec(), (sum.to_string().into_bytes(), expires));
                KvReply::Number(sum).encode()
            }
            KvRequest::CompareAndSet { key, expected, value } => {
                let before = self.entries.get(*key);
                let is_expected = before.map(|(value, _)| &**value) == *expected;
                let expires = before.and_then(|(_, expires)| *expires);
                match value {
                    Some(value) if is_expected => {
                        drop(self.entries.insert(key.to_vec(), (value.to_vec(), expires)))
                    }
                    None if is_expected => drop(self.entries.remove(*key)),
                    Some(_) | None => {}
                }
                KvReply::Changed(is_expected).encode()
            }
            KvRequest::Scan { prefix, after, limit } => {
                let (entries, next) = self.page(prefix, *after, *limit);
                KvReply::Page { entries, next }.encode()
            }
        };
        Outcome { code: DONE, bytes: reply }
    }

    fn answer_of_objects(&mut self, request: &ObjectRequest<'_>) -> Vec<u8> {
        let reply = match request {
            ObjectRequest::Size { name } => {
                ObjectReply::Size(self.entries.get(*name).map(|(bytes, _)| bytes.len() as u64))
            }
            ObjectRequest::Read { name, offset, bytes } => {
                ObjectReply::Piece(self.entries.get(*name).map(|(all, _)| {
                    let length = (*bytes as usize).min(OBJECT_PIECE_BYTES_MAX);
                    let begin = usize::try_from(*offset).unwrap_or(usize::MAX).min(all.len());
                    let end = begin.saturating_add(length).min(all.len());
                    (all.len() as u64, &all[begin..end])
                }))
            }
            ObjectRequest::Append { upload, bytes } => {
                self.uploads.entry(*upload).or_default().extend_from_slice(bytes);
                ObjectReply::Done
            }
            ObjectRequest::Put { name, upload, bytes } => {
                let before = upload.and_then(|upload| self.uploads.remove(&upload)).unwrap_or_default();
                self.entries.insert(name.to_vec(), ([&before, *bytes].concat(), None));
                ObjectReply::Done
            }
            ObjectRequest::Delete { name } => {
                self.entries.remove(*name);
                ObjectReply::Done
            }
            ObjectRequest::List { prefix, after, limit } => {
                let (entries, next) = self.page(prefix, *after, *limit);
                let objects = entries.into_iter().map(|(name, bytes)| (name, bytes.len() as u64)).collect();
                ObjectReply::Page { objects, next }
            }
        };
        reply.encode()
    }

    fn answer_of_files(&mut self, request: &VolumeRequest<'_>) -> Result<Vec<u8>, (u32, &'static str)> {
        let reply = match *request {
            VolumeRequest::Size { path } => {
                let path = self.path(path)?;
                VolumeReply::Size(self.entries.get(path).map(|(bytes, _)| bytes.len() as u64))
            }
            VolumeRequest::Create { path } => {
                let path = self.path(path)?;
                self.directories.extend(above(path).map(<[u8]>::to_vec));
                self.entries.entry(path.to_vec()).or_default();
                VolumeReply::Done
            }
            VolumeRequest::Read { path, offset, bytes } => {
                let all = self.file(path)?;
                let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(all.len());
                let end = begin.saturating_add((bytes as usize).min(VOLUME_PIECE_BYTES_MAX)).min(all.len());
                VolumeReply::Bytes(&all[begin..end])
            }
            VolumeRequest::Write { path, offset, bytes } => {
                let all = self.file(path)?;
                let begin = size(offset)?;
                let end = size(offset.saturating_add(bytes.len() as u64))?;
                if !bytes.is_empty() {
                    all.resize(all.len().max(end), 0);
                    all[begin..end].copy_from_slice(bytes);
                }
                VolumeReply::Done
            }
            VolumeRequest::Append { path, bytes } => {
                let all = self.file(path)?;
                let offset = all.len() as u64;
                size(offset + bytes.len() as u64)?;
                all.extend_from_slice(bytes);
                VolumeReply::Offset(offset)
            }
            VolumeRequest::Truncate { path, size: bytes } => {
                self.file(path)?.resize(size(bytes)?, 0);
                VolumeReply::Done
            }
            VolumeRequest::Sync { path } => {
                self.file(path)?;
                VolumeReply::Done
            }
            VolumeRequest::Remove { path } => {
                self.remove(path)?;
                VolumeReply::Done
            }
            VolumeRequest::List { directory, after, limit } => return self.list(directory, after, limit),
        };
        Ok(reply.encode())
    }

    /// A path at which there may be a file.
    fn path<'a>(&self, path: &'a [u8]) -> Result<&'a [u8], (u32, &'static str)> {
        if names_of(path).map_err(|wrong| (LIMIT, wrong))?.is_empty() {
            return Err((LIMIT, "the volume itself is no file"));
        }
        let is_other =
            self.directories.contains(path) || above(path).any(|above| self.entries.contains_key(above));
        if is_other {
            Err((NO_FILE, "there is a directory at this path, or a file above it"))
        } else {
            Ok(path)
        }
    }

    fn file(&mut self, path: &[u8]) -> Result<&mut Vec<u8>, (u32, &'static str)> {
        let path = self.path(path)?;
        self.entries.get_mut(path).map(|(bytes, _)| bytes).ok_or((NO_FILE, "there is no file at this path"))
    }

    fn remove(&mut self, path: &[u8]) -> Result<(), (u32, &'static str)> {
        if !self.directories.contains(path) {
            self.entries.remove(self.path(path)?);
            return Ok(());
        }
        let below = [path, b"/"].concat();
        if self.entries.keys().chain(&self.directories).any(|path| path.starts_with(&below)) {
            return Err((NO_FILE, "the directory is not empty"));
        }
        self.directories.remove(path);
        Ok(())
    }

    fn list(
        &self,
        directory: &[u8],
        after: Option<&[u8]>,
        limit: u32,
    ) -> Result<Vec<u8>, (u32, &'static str)> {
        let names = names_of(directory).map_err(|wrong| (LIMIT, wrong))?;
        if !names.is_empty() && !self.directories.contains(directory) {
            return Err((NO_FILE, "there is no directory at this path"));
        }
        let within = if names.is_empty() { Vec::new() } else { [directory, b"/"].concat() };
        let files = self.entries.iter().map(|(path, (bytes, _))| (path, Some(bytes.len() as u64)));
        let all = files.chain(self.directories.iter().map(|path| (path, None)));
        let names = all.filter_map(|(path, size)| Some((path.strip_prefix(&*within)?, size)));
        let names: BTreeMap<&[u8], Option<u64>> = names.filter(|(name, _)| !name.contains(&b'/')).collect();
        let mut rest = names.into_iter().filter(|(name, _)| after.is_none_or(|after| *name > after));
        let limit = (limit as usize).clamp(1, VOLUME_ENTRIES_MAX);
        let entries: Vec<_> = rest.by_ref().take(limit).collect();
        let next = rest.next().and_then(|_| entries.last()).map(|(name, _)| *name);
        Ok(VolumeReply::Entries { entries, next }.encode())
    }

    fn page(&self, prefix: &[u8], after: Option<&[u8]>, limit: u32) -> (Entries<'_>, Option<&[u8]>) {
        let limit = (limit as usize).clamp(1, KV_KEYS_MAX);
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        let of_prefix = self.entries.range::<[u8], _>((from, Bound::Unbounded));
        let mut of_prefix = of_prefix.take_while(|(key, _)| key.starts_with(prefix));
        let entries: Entries<'_> =
            of_prefix.by_ref().take(limit).map(|(key, (value, _))| (&**key, &**value)).collect();
        let next = of_prefix.next().and_then(|_| entries.last()).map(|(key, _)| *key);
        (entries, next)
    }
}

/// The directories above a file.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end])
}

/// Bytes of a file in memory.
fn size(bytes: u64) -> Result<usize, (u32, &'static str)> {
    let size = usize::try_from(bytes).ok().filter(|size| *size <= FILE_BYTES_MAX);
    size.ok_or((FULL, "a file in memory has 64 MiB at most"))
}
