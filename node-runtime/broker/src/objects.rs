//! Operations on objects: their names are entries of the database, and their bytes lie in the store of objects, each time under a
//! number of their own. So objects change with the rest of what a call changes, and a name is never a path of anything.

use std::time::Duration;

use bytes::Bytes;
use mfaas_abi::limits::{KV_KEYS_MAX, OBJECT_PIECE_BYTES_MAX};
use mfaas_abi::{ObjectReply, ObjectRequest};
use mfaas_blobs::{BlobError, Blobs};
use mfaas_broker_protocol::Caller;
use mfaas_ident::{DataAccess, ResourceName};
use mfaas_kv::{Blob, Key, Place, Store, Value};
use mfaas_rules::codes;
use uuid::Uuid;

use crate::broker::{Broker, of_store};
use crate::data::CallData;
use crate::meters;
use crate::reads::Read;
use crate::refusal::Refusal;

/// The store answers within this time, or is not there.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Why the store of objects cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectsError {
    #[error(transparent)]
    Store(#[from] BlobError),
    #[error(transparent)]
    Database(#[from] mfaas_kv::KvError),
}

/// Opens the store of objects. One that is new is marked, if the database knows of nothing that would lie in another one.
pub(crate) async fn open(url: &str, store: &Store) -> Result<Blobs, ObjectsError> {
    let objects = Blobs::open(url)?;
    match objects.ready().await {
        Err(BlobError::Unmarked { .. }) if !store.knows_blobs().await? => objects.mark().await?,
        ready => ready?,
    }
    Ok(objects)
}

/// Does what a function asks of objects, which it may look at or also change.
pub(crate) async fn answer(
    broker: &Broker,
    (caller, data): (&Caller, &mut CallData),
    (resource, access): (&ResourceName, DataAccess),
    request: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let request = ObjectRequest::decode(request)
        .ok_or_else(|| Refusal::new(codes::MF1207, "the operation is not one of objects"))?;
    if request.writes() {
        Refusal::unless_write(resource, access)?;
    }
    let no_store = "this node has no store of objects: MFAAS_OBJECTS_URL of its broker names one";
    let objects = broker.objects.as_ref().ok_or_else(|| Refusal::new(codes::MF1205, no_store))?;
    let store = &broker.store;
    let place = |name: &[u8]| Ok::<_, Refusal>(Place { resource: resource.clone(), key: Key::new(name)? });
    let note = |read: Read<'_>| broker.reads.note(|| of_store(caller), resource, read);
    match request {
        ObjectRequest::Size { name } => {
            let blob = data.transaction.get_blob(store, &place(name)?).await?;
            note(Read { key: name, is_scan: false, keys: 1, bytes: 0 });
            Ok(ObjectReply::Size(blob.map(|blob| blob.bytes)).encode())
        }
        ObjectRequest::Read { name, offset, bytes } => {
            let place = place(name)?;
            let Some(blob) = data.transaction.get_blob(store, &place).await? else {
                return Ok(ObjectReply::Piece(None).encode());
            };
            let length = u64::from(bytes).min(OBJECT_PIECE_BYTES_MAX as u64);
            let end = offset.saturating_add(length).min(blob.bytes);
            let piece = if offset < end {
                read((objects, store), (&place, blob), offset..end).await?
            } else {
                Bytes::new()
            };
            note(Read { key: name, is_scan: false, keys: 1, bytes: piece.len() });
            Ok(ObjectReply::Piece(Some((blob.bytes, &piece))).encode())
        }
        ObjectRequest::Append { upload, bytes } => {
            data.uploads.append(upload, bytes)?;
            broker.stored.has_room(resource, data.uploads.bytes() as u64)?;
            Ok(ObjectReply::Done.encode())
        }
        ObjectRequest::Put { name, upload, bytes } => {
            let bytes = data.uploads.finish(upload, bytes)?.into();
            put((broker, objects), data, place(name)?, bytes).await?;
            Ok(ObjectReply::Done.encode())
        }
        ObjectRequest::Delete { name } => {
            data.transaction.delete(place(name)?)?;
            Ok(ObjectReply::Done.encode())
        }
        ObjectRequest::List { prefix, after, limit } => {
            let after = after.map(Key::new).transpose()?;
            let limit = (limit as usize).min(KV_KEYS_MAX);
            let page = data.transaction.scan(store, resource, prefix, after.as_ref(), limit).await?;
            let object = |(key, value): &(Key, Value)| {
                Ok::<_, Refusal>((key.clone(), value.clone().into_blob()?.bytes))
            };
            let objects: Vec<(Key, u64)> = page.entries.iter().map(object).collect::<Result<_, Refusal>>()?;
            let objects = objects.iter().map(|(key, bytes)| (key.as_bytes(), *bytes)).collect::<Vec<_>>();
            note(Read { key: prefix, is_scan: true, keys: objects.len(), bytes: 0 });
            let next = page.next.as_ref().map(Key::as_bytes);
            Ok(ObjectReply::Page { objects, next }.encode())
        }
    }
}

/// Stores bytes, which an object of the call then has.
async fn put(
    (broker, objects): (&Broker, &Blobs),
    data: &mut CallData,
    place: Place,
    bytes: Bytes,
) -> Result<(), Refusal> {
    let count = bytes.len() as u64;
    broker.stored.has_room(&place.resource, count)?;
    let blob = broker.store.announce(&place.resource, count).await?;
    data.staged.push(blob.id);
    broker.stored.announced(&place.resource, count);
    within(objects, objects.put_numbered(blob.id, bytes)).await?;
    data.transaction.put_blob(place, blob)?;
    Ok(())
}

/// A piece of the bytes that an entry names, or named when the call saw it.
async fn read(
    (objects, store): (&Blobs, &Store),
    (place, blob): (&Place, Blob),
    range: std::ops::Range<u64>,
) -> Result<Bytes, Refusal> {
    if let Some(piece) = within(objects, objects.get_numbered(blob.id, range)).await? {
        return Ok(piece);
    }
    if store.names(place, blob).await? {
        tracing::error!(resource = %place.resource, blob = %blob.id, "the store of objects lacks what an object names");
        return Err(Refusal::new(codes::MF1205, "the store of objects has lost the bytes of this object"));
    }
    Err(mfaas_kv::KvError::Conflict.into())
}

/// What the store answers in time. A function learns that it is our fault, and the operator what it is.
async fn within<T>(objects: &Blobs, asked: impl Future<Output = Result<T, BlobError>>) -> Result<T, Refusal> {
    let answered = tokio::time::timeout(ANSWER_MAX, asked).await;
    answered.unwrap_or_else(|_| Err(objects.silent(ANSWER_MAX))).map_err(|error| {
        tracing::warn!(%error, "an operation on an object failed");
        Refusal::new(codes::MF1205, "the store of objects does not answer")
    })
}

/// A call is over that has stored these: what no object names of it is removed next.
pub(crate) async fn abandon(store: &Store, staged: &[Uuid]) {
    if staged.is_empty() {
        return;
    }
    if let Err(error) = store.abandon(staged).await {
        tracing::warn!(%error, "what a call has stored in vain stays for an hour");
    }
}

/// Removes what no entry names any more, or has named in time. Whether there may be more.
pub(crate) async fn sweep(objects: &Blobs, store: &Store) -> Result<bool, ObjectsError> {
    let doomed = store.doom().await?;
    for number in &doomed {
        let deleted = tokio::time::timeout(ANSWER_MAX, objects.delete_numbered(*number)).await;
        deleted.unwrap_or_else(|_| Err(objects.silent(ANSWER_MAX)))?;
    }
    if doomed.is_empty() {
        return Ok(false);
    }
    store.removed(&doomed).await?;
    meters::swept_blobs(doomed.len());
    Ok(true)
}
