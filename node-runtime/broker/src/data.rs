//! What one call has read, wants to change, is uploading and has done to files.

use std::collections::BTreeMap;

use mfaas_abi::limits::OBJECT_BYTES_MAX;
use mfaas_kv::{FileChangeKind, FileChanged, Transaction};
use mfaas_rules::codes;
use mfaas_volumes::VolumePath;
use uuid::Uuid;

use crate::refusal::Refusal;

/// Uploads of one call at the same time.
const UPLOADS_MAX: usize = 16;
/// Times that one call stores bytes for objects: as many as it may change keys.
const STAGED_MAX: usize = mfaas_kv::limits::WRITTEN_KEYS_MAX;

/// What one call has read, wants to change, is uploading and has done to files.
#[derive(Debug, Default)]
pub(crate) struct CallData {
    pub(crate) transaction: Transaction,
    /// It has asked for something.
    pub(crate) has_begun: bool,
    pub(crate) uploads: Uploads,
    /// What it has stored for objects that it put.
    pub(crate) staged: Vec<Uuid>,
    pub(crate) changed_files: ChangedFiles,
}

impl CallData {
    /// What it counts for in memory, beside its uploads.
    pub(crate) fn held_bytes(&self) -> usize {
        self.transaction.held_bytes() + self.changed_files.bytes
    }

    /// Bytes are to be stored once more.
    pub(crate) fn may_stage(&self) -> Result<(), Refusal> {
        if self.staged.len() < STAGED_MAX {
            return Ok(());
        }
        let message = format!("the call has put {STAGED_MAX} objects, as many as it may");
        Err(Refusal::new(codes::MF1202, message))
    }
}

/// What a call has done to files: of each kind to each file.
#[derive(Debug, Default)]
pub(crate) struct ChangedFiles {
    pub(crate) changes: BTreeMap<(VolumePath, FileChangeKind), FileChanged>,
    /// What they count for in memory.
    pub(crate) bytes: usize,
}

impl ChangedFiles {
    /// For their audit records, when the call is over.
    pub(crate) fn into_audit(self) -> impl Iterator<Item = FileChanged> {
        self.changes.into_values()
    }
}

/// Pieces of what are to become objects, by the call's numbers.
#[derive(Debug, Default)]
pub(crate) struct Uploads(BTreeMap<u32, Vec<u8>>);

impl Uploads {
    /// The next piece of an upload, which may be its first.
    pub(crate) fn append(&mut self, upload: u32, piece: &[u8]) -> Result<(), Refusal> {
        if !self.0.contains_key(&upload) && self.0.len() >= UPLOADS_MAX {
            let message = format!("the call uploads {UPLOADS_MAX} objects already, as many as at once");
            return Err(Refusal::new(codes::MF1202, message));
        }
        fits(self.bytes() + piece.len())?;
        self.0.entry(upload).or_default().extend_from_slice(piece);
        Ok(())
    }

    /// A piece of it was refused, so that it can become nothing any more.
    pub(crate) fn give_up(&mut self, upload: u32) {
        self.0.remove(&upload);
    }

    /// All pieces of an upload, which is none any more, and one more; or this one alone.
    pub(crate) fn finish(&mut self, upload: Option<u32>, piece: &[u8]) -> Result<Vec<u8>, Refusal> {
        let no_upload = || Refusal::new(codes::MF1202, "a piece of this object was refused: put it again");
        let mut bytes = match upload {
            Some(upload) => self.0.remove(&upload).ok_or_else(no_upload)?,
            None => Vec::new(),
        };
        fits(bytes.len() + piece.len())?;
        bytes.extend_from_slice(piece);
        Ok(bytes)
    }

    /// Of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

fn fits(bytes: usize) -> Result<(), Refusal> {
    if bytes <= OBJECT_BYTES_MAX {
        return Ok(());
    }
    let message =
        format!("{bytes} bytes of objects that a call uploads at once, the limit is {OBJECT_BYTES_MAX}");
    Err(Refusal::new(codes::MF1202, message))
}

#[cfg(test)]
mod tests;
