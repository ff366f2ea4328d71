//! Operations on objects: their names are entries of the database, and their bytes lie in the store of objects, each time under a
//! number of their own. So objects change with the rest of what a call changes, and a name is never a path of anything.

use std::time::Duration;

use bytes::Bytes;
use mfaas_abi::limits::{KV_KEYS_MAX, OBJECT_PIECE_BYTES_MAX};
use mfaas_abi::{ObjectReply, ObjectRequest};
use mfaas_blobs::{BlobError, Blobs};
use mfaas_broker_protocol::Caller;
use mfaas_ident::{DataAccess, ResourceName};
use mfaas_kv::limits::BLOB_BYTES;
use mfaas_kv::{Blob, Key, KvError, Place, Store, StoreKind, Stores, Transaction, Value};
use mfaas_rules::codes;
use tokio::task::JoinSet;

use crate::broker::{Broker, of_store};
use crate::data::CallData;
use crate::meters;
use crate::reads::Read;
use crate::refusal::Refusal;

/// Bytes that are removed at a time.
const DELETIONS: usize = 16;
/// The store answers within this time, or is not there.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Why the store of objects cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectsError {
    #[error(transparent)]
    Store(#[from] BlobError),
    #[error(transparent)]
    Database(#[from] KvError),
}

/// Opens the store of objects. The first one is marked; later an empty place is not taken for it. One that does not answer now may do so
/// later, and keeps nobody from other data.
pub(crate) async fn open(url: &str, store: &Store) -> Result<Blobs, ObjectsError> {
    let objects = Blobs::open(url)?;
    let ready = tokio::time::timeout(ANSWER_MAX, objects.ready()).await;
    match ready.unwrap_or_else(|_| Err(objects.silent(ANSWER_MAX))) {
        Ok(()) => {}
        Err(BlobError::Unmarked { .. }) if !store.has_opened_store(StoreKind::Object).await? => {
            objects.mark().await?
        }
        Err(error @ BlobError::Unmarked { .. }) => return Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "functions reach no objects until their store answers");
            return Ok(objects);
        }
    }
    store.note_opened_store(StoreKind::Object).await?;
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
    let stores = &broker.data;
    may_reach(stores, &data.transaction, resource, request.writes())?;
    let place = |name: &[u8]| Ok::<_, Refusal>(Place { resource: resource.clone(), key: Key::new(name)? });
    let note = |read: Read<'_>| broker.reads.note(|| of_store(caller), resource, read);
    match request {
        ObjectRequest::Size { name } => {
            let blob = data.transaction.get_blob(stores, &place(name)?).await?;
            note(Read { key: name, is_scan: false, keys: 1, bytes: 0 });
            Ok(ObjectReply::Size(blob.map(|blob| blob.bytes)).encode())
        }
        ObjectRequest::Read { name, offset, bytes } => {
            let place = place(name)?;
            let Some(blob) = data.transaction.get_blob(stores, &place).await? else {
                note(Read { key: name, is_scan: false, keys: 1, bytes: 0 });
                return Ok(ObjectReply::Piece(None).encode());
            };
            let length = u64::from(bytes).min(OBJECT_PIECE_BYTES_MAX as u64);
            let end = offset.saturating_add(length).min(blob.bytes);
            let piece = if offset < end {
                read((objects, broker.store()), (&place, blob), offset..end).await?
            } else {
                Bytes::new()
            };
            note(Read { key: name, is_scan: false, keys: 1, bytes: piece.len() });
            Ok(ObjectReply::Piece(Some((blob.bytes, &piece))).encode())
        }
        ObjectRequest::Append { upload, bytes } => {
            append(broker, (caller, &mut *data), resource, (upload, bytes))
                .inspect_err(|_| data.uploads.give_up(upload))?;
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
            let page = data.transaction.scan(stores, resource, prefix, after.as_ref(), limit).await?;
            let object = |(key, value): &(Key, Value)| {
                Ok::<_, Refusal>((key.clone(), value.clone().into_blob()?.bytes))
            };
            let objects: Vec<(Key, u64)> = page.entries.iter().map(object).collect::<Result<_, Refusal>>()?;
            let objects = objects.iter().map(|(key, bytes)| (key.as_bytes(), *bytes)).collect::<Vec<_>>();
            note(Read { key: prefix, is_scan: true, keys: objects.len(), bytes: 0 });
            let next = page.next.as_ref().map(Key::as_bytes);
            Refusal::unless_too_long(ObjectReply::Page { objects, next }.encode())
        }
    }
}

/// Objects have their names in PostgreSQL, where a call that changes data elsewhere changes none.
fn may_reach(
    stores: &Stores,
    transaction: &Transaction,
    resource: &ResourceName,
    writes: bool,
) -> Result<(), Refusal> {
    if !stores.is_in_postgres(resource)? {
        let message = format!(
            "`{resource}` lies in Redis, which keeps no objects: MFAAS_REDIS_FILE of the broker names it"
        );
        return Err(Refusal::new(codes::MF1205, message));
    }
    if writes {
        stores.may_change(transaction, resource)?;
    }
    Ok(())
}

/// Keeps a piece of what is to become an object.
fn append(
    broker: &Broker,
    (caller, data): (&Caller, &mut CallData),
    resource: &ResourceName,
    (upload, piece): (u32, &[u8]),
) -> Result<(), Refusal> {
    broker.stored.has_room(resource, (data.uploads.bytes() + piece.len()) as u64)?;
    broker.keep_piece(&caller.tenant, &mut data.uploads, (upload, piece))
}

/// Stores bytes, which an object of the call then has.
async fn put(
    (broker, objects): (&Broker, &Blobs),
    data: &mut CallData,
    place: Place,
    bytes: Bytes,
) -> Result<(), Refusal> {
    data.may_stage()?;
    data.transaction.may_change(&place)?;
    let (count, resource) = (bytes.len() as u64, &place.resource);
    broker.stored.has_room(resource, count + BLOB_BYTES)?;
    broker.stored.announced(resource, count + BLOB_BYTES);
    let blob = broker.store().announce(resource, count).await?;
    data.staged.push(blob.id);
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
    Err(KvError::Conflict.into())
}

/// What the store answers in time. A function learns that it is our fault, and the operator what it is.
async fn within<T>(objects: &Blobs, asked: impl Future<Output = Result<T, BlobError>>) -> Result<T, Refusal> {
    let answered = tokio::time::timeout(ANSWER_MAX, asked).await;
    answered.unwrap_or_else(|_| Err(objects.silent(ANSWER_MAX))).map_err(|error| {
        tracing::warn!(%error, "an operation on an object failed");
        Refusal::new(codes::MF1205, "the store of objects does not answer")
    })
}

/// Removes what no entry names any more, or has named in time. Whether there may be more.
pub(crate) async fn sweep(objects: &Blobs, store: &Store) -> Result<bool, KvError> {
    let doomed = store.doom().await?;
    let (mut removed, mut deleting) = (Vec::new(), JoinSet::new());
    let mut waiting = doomed.iter().copied();
    loop {
        for number in waiting.by_ref().take(DELETIONS - deleting.len()) {
            let objects = objects.clone();
            deleting.spawn(async move {
                let deleted = tokio::time::timeout(ANSWER_MAX, objects.delete_numbered(number)).await;
                (number, deleted.unwrap_or_else(|_| Err(objects.silent(ANSWER_MAX))))
            });
        }
        match deleting.join_next().await {
            Some(Ok((number, Ok(())))) => removed.push(number),
            Some(Ok((number, Err(error)))) => {
                tracing::warn!(%number, %error, "bytes of an object without a name could not be removed; it is tried again");
                // A store that is away is not asked for all of them.
                waiting = [].iter().copied();
            }
            Some(Err(_)) => {}
            None => break,
        }
    }
    store.removed(&removed).await?;
    meters::swept_blobs(removed.len());
    // What could not be removed is tried again later.
    Ok(!doomed.is_empty() && removed.len() == doomed.len())
}
