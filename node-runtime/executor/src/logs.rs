//! Log lines of one call in a fixed buffer, as records of `mfaas_abi::LogReader`.
//!
//! It must never allocate, never write past its buffer, and stay readable when it is left in the
//! middle of a write: text is copied before the record says that it is there.

use std::sync::atomic::{Ordering, compiler_fence};

use mfaas_abi::limits::LOG_BYTES_MAX;
use mfaas_abi::{Level, log_entry_header};

use crate::zeros;

const DROPPED: &[u8] = b"further log lines were dropped";
const HEADER_BYTES: usize = 3;
/// Room kept at the end for the line that says that lines were dropped.
const CAPACITY_BYTES: usize = LOG_BYTES_MAX - HEADER_BYTES - DROPPED.len();

/// The buffer.
pub(crate) struct LogBuffer {
    bytes: [u8; LOG_BYTES_MAX],
    len: usize,
    /// Where the record begins that still takes text, and its level.
    open: Option<(usize, Level)>,
    dropped: bool,
}

/// A state of a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    len: usize,
    open: Option<(usize, Level)>,
    dropped: bool,
}

impl LogBuffer {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; LOG_BYTES_MAX], len: 0, open: None, dropped: false }
    }

    /// One whole line.
    pub(crate) fn line(&mut self, level: Level, text: &[u8]) {
        self.open = None;
        self.append(level, text);
        self.open = None;
    }

    /// Part of a stream: each `\n` ends a line; what is left waits for more.
    pub(crate) fn stream(&mut self, level: Level, text: &[u8]) {
        if self.dropped {
            // Nothing is dropped while there is room.
            return;
        }
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            match piece.split_last() {
                Some((b'\n', line)) => {
                    self.append(level, line);
                    self.open = None;
                }
                Some(_) | None => self.append(level, piece),
            }
        }
    }

    /// All records. Adds the line about dropped ones if there were any.
    pub(crate) fn finish(&mut self) -> &[u8] {
        if self.dropped {
            self.dropped = false;
            let start = self.len.min(CAPACITY_BYTES);
            let end = start + HEADER_BYTES + DROPPED.len();
            let header = log_entry_header(Level::Warn, DROPPED.len() as u16);
            self.bytes[start..start + HEADER_BYTES].copy_from_slice(&header);
            self.bytes[start + HEADER_BYTES..end].copy_from_slice(DROPPED);
            self.len = end;
        }
        &self.bytes[..self.len]
    }

    /// Where it stands, for [`Self::undo`]. What comes next begins a record.
    pub(crate) fn mark(&mut self) -> Mark {
        Mark { len: self.len, open: self.open.take(), dropped: self.dropped }
    }

    /// Forgets what came since, and says whether something did.
    pub(crate) fn undo(&mut self, Mark { len, open, dropped }: Mark) -> bool {
        let has_grown = self.len > len || self.dropped != dropped;
        if has_grown {
            // One text may lie behind the length that was left between copy and count.
            self.bytes[len..].fill(0);
        }
        (self.len, self.open, self.dropped) = (len, open, dropped);
        has_grown
    }

    /// Forgets everything and leaves zeros.
    pub(crate) fn wipe(&mut self) {
        // Records never shrink, so everything ever written lies below the length, but for one text
        // that was left between copy and count.
        let used = if self.len == 0 && self.open.is_none() { HEADER_BYTES } else { LOG_BYTES_MAX };
        zeros::zero(&mut self.bytes[..used]);
        self.len = 0;
        self.open = None;
        self.dropped = false;
    }

    /// Adds text to the open record of this level, or to a new one.
    fn append(&mut self, level: Level, text: &[u8]) {
        let start = match self.open {
            Some((start, open)) if open == level => start,
            Some(_) | None => match self.begin(level) {
                Some(start) => start,
                None => return,
            },
        };
        let room = CAPACITY_BYTES - self.len;
        let taken = text.len().min(room);
        self.dropped |= taken < text.len();
        self.bytes[self.len..self.len + taken].copy_from_slice(&text[..taken]);
        let text_bytes = self.len + taken - start - HEADER_BYTES;
        compiler_fence(Ordering::Release);
        // Fits: the whole buffer is smaller than 64 KiB.
        self.bytes[start..start + HEADER_BYTES].copy_from_slice(&log_entry_header(level, text_bytes as u16));
        self.len += taken;
    }

    fn begin(&mut self, level: Level) -> Option<usize> {
        if self.len + HEADER_BYTES > CAPACITY_BYTES {
            self.dropped = true;
            return None;
        }
        let start = self.len;
        self.bytes[start..start + HEADER_BYTES].copy_from_slice(&log_entry_header(level, 0));
        self.open = Some((start, level));
        self.len += HEADER_BYTES;
        Some(start)
    }
}
