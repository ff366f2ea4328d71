//! What one call has read, wants to change, is uploading, has done to files and has not read yet of answers.

use std::collections::BTreeMap;

use bytes::Bytes;
use mfaas_abi::limits::{HTTP_PIECE_BYTES_MAX, OBJECT_BYTES_MAX};
use mfaas_kv::{ChangeKind, ChangeOutcome, Transaction};
use mfaas_rules::codes;
use mfaas_volumes::VolumePath;
use uuid::Uuid;

use crate::refusal::Refusal;

/// Bodies of answers that a call has not read to their ends, together: further ones are given up.
const ANSWERS_BYTES_MAX: usize = 4 << 20;
/// Uploads of one call at the same time.
const UPLOADS_MAX: usize = 16;
/// Times that one call stores bytes for objects: as many as it may change keys.
const STAGED_MAX: usize = mfaas_kv::limits::WRITTEN_KEYS_MAX;

/// What one call has read, wants to change, is uploading, has done to files and has not read yet of answers.
#[derive(Debug, Default)]
pub(crate) struct CallData {
    pub(crate) transaction: Transaction,
    /// It has asked for something.
    pub(crate) has_begun: bool,
    pub(crate) uploads: Uploads,
    /// What it has stored for objects that it put.
    pub(crate) staged: Vec<Uuid>,
    pub(crate) changed_files: ChangedFiles,
    pub(crate) answers: Answers,
}

impl CallData {
    /// What it counts for in memory, beside its uploads.
    pub(crate) fn held_bytes(&self) -> usize {
        self.transaction.held_bytes() + self.changed_files.bytes + self.answers.bytes()
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
    pub(crate) changes: BTreeMap<(VolumePath, ChangeKind), ChangeOutcome>,
    /// What they count for in memory.
    pub(crate) bytes: usize,
}

impl ChangedFiles {
    /// For their audit records, when the call is over.
    pub(crate) fn into_audit(self) -> impl Iterator<Item = ChangeOutcome> {
        self.changes.into_values()
    }
}

/// Bodies of answers of servers, by the call's numbers of its requests.
#[derive(Debug, Default)]
pub(crate) struct Answers(BTreeMap<u32, Bytes>);

impl Answers {
    /// One that the call is to read the rest of.
    pub(crate) fn keep(&mut self, exchange: u32, body: Bytes) -> Result<(), Refusal> {
        let others = self.bytes() - self.0.get(&exchange).map_or(0, Bytes::len);
        if others + body.len() > ANSWERS_BYTES_MAX {
            let message =
                format!("answers of which a call has not read all have {ANSWERS_BYTES_MAX} bytes at most");
            return Err(Refusal::new(codes::MF1202, message));
        }
        self.0.insert(exchange, body);
        Ok(())
    }

    /// A piece of one, which is gone when that was its last.
    pub(crate) fn piece(&mut self, exchange: u32, offset: usize) -> Result<Bytes, Refusal> {
        let gone = || Refusal::new(codes::MF1207, "the call has no such answer, or has read all of it");
        let body = self.0.get(&exchange).filter(|body| offset < body.len()).ok_or_else(gone)?;
        let end = body.len().min(offset + HTTP_PIECE_BYTES_MAX);
        let (piece, is_last) = (body.slice(offset..end), end == body.len());
        if is_last {
            self.0.remove(&exchange);
        }
        Ok(piece)
    }

    fn bytes(&self) -> usize {
        self.0.values().map(Bytes::len).sum()
    }
}

/// Pieces of what are to become objects or bodies of requests, by the call's numbers.
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
        let no_upload =
            || Refusal::new(codes::MF1202, "a piece of what is uploaded was refused: begin again");
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
    let message = format!("{bytes} bytes that a call uploads at once, the limit is {OBJECT_BYTES_MAX}");
    Err(Refusal::new(codes::MF1202, message))
}

#[cfg(test)]
mod tests;
