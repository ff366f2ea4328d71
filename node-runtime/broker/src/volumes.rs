//! Operations on files of volumes: what a function wrote, read within limits and done at once.
//!
//! Nothing of it waits for a commit. So each file that a call changes has its audit record before that, and what is told there afterwards
//! is what was done. A record that says no more than that it was begun may have been done in part: its broker ended meanwhile, or had
//! too much to tell.

use std::collections::btree_map::Entry;

use mfaas_abi::limits::{VOLUME_ENTRIES_MAX, VOLUME_PIECE_BYTES_MAX};
use mfaas_abi::{VolumeReply, VolumeRequest};
use mfaas_broker_protocol::Caller;
use mfaas_ident::{DataAccess, ResourceName};
use mfaas_kv::{AuditedChange, ChangeKind, ChangeOutcome};
use mfaas_rules::codes;
use mfaas_volumes::{ANSWER_MAX, SharedRoom, VolumeError, VolumePath, Volumes};
use tokio::sync::OwnedSemaphorePermit;

use crate::bandwidth::Busy;
use crate::broker::{Broker, of_store};
use crate::data::{CallData, ChangedFiles};
use crate::reads::Read;
use crate::refusal::Refusal;
use crate::volume_store::VolumeStore;

/// Changes of files by one call, those of one kind to one file counted once.
const CHANGES_MAX: usize = 256;
/// What one such change counts for in the memory that a call holds, beside its path: a bound of what it takes.
const CHANGE_BYTES: usize = 512;

/// What a function may ask of a volume, now.
pub(crate) struct OfVolume<'a> {
    store: &'a VolumeStore,
    request: VolumeRequest<'a>,
    /// Of what makes files larger, or makes some.
    room: Option<SharedRoom>,
    _permit: OwnedSemaphorePermit,
}

/// Reads what a function asks of a volume, sees that it may, and waits until it can be done: all of that outside of its tenant's turn.
pub(crate) async fn admit<'a>(
    broker: &'a Broker,
    (resource, access): (&ResourceName, DataAccess),
    request: &'a [u8],
) -> Result<OfVolume<'a>, Refusal> {
    let request = VolumeRequest::decode(request)
        .ok_or_else(|| Refusal::new(codes::MF1207, "the operation is not one of volumes"))?;
    if request.writes() {
        Refusal::unless_write(resource, access)?;
    }
    let no_volumes = "this node has no place for volumes: MFAAS_VOLUMES_URL of its broker names one";
    let store = broker.volumes.as_ref().ok_or_else(|| Refusal::new(codes::MF1205, no_volumes))?;
    store.ready(broker.store()).await?;
    let (bytes, grows) = match &request {
        VolumeRequest::Read { bytes, .. } => ((*bytes as usize).min(VOLUME_PIECE_BYTES_MAX), false),
        VolumeRequest::Write { bytes, .. } | VolumeRequest::Append { bytes, .. } => (bytes.len(), true),
        VolumeRequest::Create { .. } | VolumeRequest::Truncate { .. } => (0, true),
        VolumeRequest::Size { .. }
        | VolumeRequest::List { .. }
        | VolumeRequest::Sync { .. }
        | VolumeRequest::Remove { .. } => (0, false),
    };
    let busy = |_: Busy| {
        let message = format!("more is asked of `{resource}` than may be read and written of it in a second");
        Refusal::new(codes::MF1205, message)
    };
    store.bandwidth.take(resource, bytes).await.map_err(busy)?;
    let room = match grows {
        true => Some(store.sizes.room(&store.volumes, resource).await.map_err(meaning)?),
        false => None,
    };
    let permit = tokio::time::timeout(ANSWER_MAX, store.permits.acquire(resource)).await;
    let silent = |_| Refusal::new(codes::MF1205, format!("other operations on `{resource}` do not end"));
    let permit = permit.map_err(silent)?.map_err(meaning)?;
    Ok(OfVolume { store, request, room, _permit: permit })
}

/// Does what a function asks of the files of a volume, which it may.
pub(crate) async fn answer(
    broker: &Broker,
    (caller, data): (&Caller, &mut CallData),
    resource: &ResourceName,
    OfVolume { store, request, room, _permit }: OfVolume<'_>,
) -> Result<Vec<u8>, Refusal> {
    let volumes = &store.volumes;
    let file = |path: &[u8]| VolumePath::file(resource, path).map_err(wrong_path);
    let note = |read: Read<'_>| broker.reads.note(|| of_store(caller), resource, read);
    let (kind, path) = match request {
        VolumeRequest::Size { path } => {
            let size = volumes.size(&file(path)?).await.map_err(meaning)?;
            note(Read { key: path, is_scan: false, keys: 1, bytes: 0 });
            return Ok(VolumeReply::Size(size).encode());
        }
        VolumeRequest::Read { path, offset, bytes } => {
            let length = (bytes as usize).min(VOLUME_PIECE_BYTES_MAX);
            let read = volumes.read_at(&file(path)?, offset, length).await.map_err(meaning)?;
            note(Read { key: path, is_scan: false, keys: 1, bytes: read.len() });
            return Ok(VolumeReply::Bytes(&read).encode());
        }
        VolumeRequest::List { directory, after, limit } => {
            let path = VolumePath::directory(resource, directory).map_err(wrong_path)?;
            let after = after.map(std::str::from_utf8).transpose();
            let after = after.map_err(|_| Refusal::new(codes::MF1202, "a name is text in UTF-8"))?;
            let limit = (limit as usize).clamp(1, VOLUME_ENTRIES_MAX);
            let found = volumes.list(&path, after, limit).await.map_err(meaning)?;
            note(Read { key: directory, is_scan: true, keys: found.entries.len(), bytes: 0 });
            let entries = found.entries.iter().map(|entry| (entry.name.as_bytes(), entry.size)).collect();
            let next = found.entries.last().filter(|_| found.has_more).map(|entry| entry.name.as_bytes());
            return Ok(VolumeReply::Entries { entries, next }.encode());
        }
        VolumeRequest::Sync { path } => {
            volumes.sync(&file(path)?).await.map_err(meaning)?;
            return Ok(VolumeReply::Done.encode());
        }
        VolumeRequest::Create { path } => (ChangeKind::Create, path),
        VolumeRequest::Write { path, .. } | VolumeRequest::Append { path, .. } => (ChangeKind::Write, path),
        VolumeRequest::Truncate { path, .. } => (ChangeKind::Truncate, path),
        VolumeRequest::Remove { path } => (ChangeKind::Remove, path),
    };
    let what = (file(path)?, kind, room);
    change((broker, store), (caller, &mut data.changed_files), what, &request).await
}

/// Does what changes a file, which has its audit record by then.
async fn change(
    (broker, store): (&Broker, &VolumeStore),
    (caller, files): (&Caller, &mut ChangedFiles),
    (path, kind, room): (VolumePath, ChangeKind, Option<SharedRoom>),
    request: &VolumeRequest<'_>,
) -> Result<Vec<u8>, Refusal> {
    let volume = path.volume();
    let count = files.changes.len();
    let audit = match files.changes.entry((path.clone(), kind)) {
        Entry::Occupied(audit) => audit.into_mut(),
        Entry::Vacant(_) if count >= CHANGES_MAX => {
            let message = format!("the call has made {CHANGES_MAX} changes of files, as many as it may");
            return Err(Refusal::new(codes::MF1202, message));
        }
        Entry::Vacant(place) => {
            broker.admits_change(&caller.tenant)?;
            let text = path.as_text();
            files.bytes += CHANGE_BYTES + text.len();
            let change = AuditedChange { resource: volume, target: &text, kind };
            let id = broker.audit.announce(broker.store(), &of_store(caller), &change).await?;
            place.insert(ChangeOutcome { id, operations: 0, bytes: 0, range: None, has_failed: false })
        }
    };
    audit.operations = audit.operations.saturating_add(1);
    let (reply, range) = carry_out(&store.volumes, &path, request, room).await.map_err(|error| {
        // It may have been done in part.
        audit.has_failed = true;
        if matches!(error, VolumeError::Full) { full(store, volume) } else { meaning(error) }
    })?;
    if let Some((from, to)) = range {
        audit.bytes = audit.bytes.saturating_add(to - from);
        let (first, last) = audit.range.unwrap_or((from, to));
        audit.range = Some((first.min(from), last.max(to)));
    }
    if matches!(kind, ChangeKind::Remove | ChangeKind::Truncate) {
        store.sizes.shrunk(volume);
    }
    Ok(reply)
}

/// What a function hears, and the first byte that was written and the one behind the last.
async fn carry_out(
    volumes: &Volumes,
    path: &VolumePath,
    request: &VolumeRequest<'_>,
    room: Option<SharedRoom>,
) -> Result<(Vec<u8>, Option<(u64, u64)>), VolumeError> {
    let done = VolumeReply::Done.encode();
    let range = |offset: u64, bytes: &[u8]| Some((offset, offset.saturating_add(bytes.len() as u64)));
    match (request, room) {
        (VolumeRequest::Create { .. }, Some(room)) => {
            volumes.create(path, &room).await?;
            Ok((done, None))
        }
        (VolumeRequest::Write { offset, bytes, .. }, Some(room)) => {
            volumes.write_at(path, *offset, bytes, &room).await?;
            Ok((done, range(*offset, bytes)))
        }
        (VolumeRequest::Append { bytes, .. }, Some(room)) => {
            let offset = volumes.append(path, bytes, &room).await?;
            Ok((VolumeReply::Offset(offset).encode(), range(offset, bytes)))
        }
        (VolumeRequest::Truncate { size, .. }, Some(room)) => {
            volumes.truncate(path, *size, &room).await?;
            // Where the file ends from then on.
            Ok((done, Some((*size, *size))))
        }
        (VolumeRequest::Remove { .. }, _) => {
            volumes.remove(path).await?;
            Ok((done, None))
        }
        _ => Err(VolumeError::OtherKind),
    }
}

fn away() -> Refusal {
    Refusal::new(codes::MF1205, "the files of the volume cannot be reached")
}

fn wrong_path(wrong: &'static str) -> Refusal {
    Refusal::new(codes::MF1202, wrong)
}

fn full(store: &VolumeStore, volume: &ResourceName) -> Refusal {
    let most = store.sizes.bytes_max();
    Refusal::new(
        codes::MF1208,
        format!("`{volume}` would hold more than the {most} bytes that a resource may"),
    )
}

/// A function learns that it is our fault, and the operator what it is.
fn meaning(error: VolumeError) -> Refusal {
    let code = match &error {
        VolumeError::NotThere | VolumeError::OtherKind | VolumeError::NotEmpty => codes::MF1212,
        VolumeError::Full => codes::MF1208,
        VolumeError::Restarted => codes::MF1205,
        VolumeError::Unavailable(_)
        | VolumeError::Stale
        | VolumeError::Forbidden
        | VolumeError::Address(_) => {
            tracing::warn!(%error, "an operation on a file failed");
            return away();
        }
    };
    Refusal::new(code, error.to_string())
}
