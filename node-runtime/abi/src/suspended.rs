//! Calls that wait: what they ask of their node, what they hear from it, and what of them is put aside meanwhile.
//!
//! A handler that cannot go on returns [`WAITS`](crate::WAITS) in the place of a status, and as the body of its response the
//! operations that it began since it ran last. When some of them have ended it is entered again, with
//! [`FLAG_RESUMED`](crate::FLAG_RESUMED) and, as the body of its request, their outcomes. In between nothing of it is in a
//! worker: records and state travel as one frame.
//!
//! ```text
//! suspended := u32 bytes · records · state
//! records   := record, one behind the other
//! record    := u32 id · u32 code · u32 bytes · bytes
//! ```
//! Integers are little-endian. What a state is made of is the executor's alone.

use alloc::vec::Vec;

use crate::limits;

/// What a call may ask for: the code of an operation.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// Ends after so many nanoseconds: a `u64`.
    Sleep = 1,
    /// Nobody waits for the operation with this id any more: its outcome need not come. Has none of its own.
    Cancel = 2,
    /// Something of the data that the function binds: what stands in front of it is a binding
    /// ([`crate::split_binding`]), and its kind says what stands behind that.
    Data = 3,
    /// A call of the function behind a binding: what stands behind the binding is the body of the request. Its outcome is a
    /// [`crate::CalleeReply`].
    Call = 4,
    /// As [`Self::Data`], for one of several operations that are waited for together: the call need not go on for its end, unless
    /// it failed or none of the kind `Data` is open.
    Part = 5,
}

impl OperationKind {
    /// The kind with this number, if there is one. Numbers from a function are hostile.
    pub fn from_u32(number: u32) -> Option<Self> {
        [Self::Sleep, Self::Cancel, Self::Data, Self::Call, Self::Part]
            .into_iter()
            .find(|kind| *kind as u32 == number)
    }
}

/// The code of an outcome of an operation that did what it was asked for.
pub const DONE: u32 = 0;

/// An operation that a call began, or the outcome of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// What the function calls the operation. It may choose any number that none of its open operations has.
    pub id: u32,
    /// An [`OperationKind`], or of an outcome [`DONE`] or the number of an error's code.
    pub code: u32,
    /// What the operation needs to know, or what came of it.
    pub bytes: &'a [u8],
}

impl Record<'_> {
    /// What stands in front of the bytes of a record, in bytes.
    pub const HEAD_BYTES: usize = 12;

    /// Appends the record to a list.
    pub fn append_to(&self, list: &mut Vec<u8>) {
        for word in [self.id, self.code, self.bytes.len() as u32] {
            list.extend_from_slice(&word.to_le_bytes());
        }
        list.extend_from_slice(self.bytes);
    }
}

/// A list of records, each of which lies in it whole.
#[derive(Debug, Clone, Copy, Default)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Reads a list of any origin: `None` if it is none, or holds more than [`limits::RECORDS_MAX`].
    pub fn decode(list: &'a [u8]) -> Option<Self> {
        let mut left = Self { rest: list };
        for _ in left.by_ref().take(limits::RECORDS_MAX) {}
        left.rest.is_empty().then_some(Self { rest: list })
    }

    /// The records that were not read, as they stand in the list.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (head, rest) = self.rest.split_first_chunk::<{ Record::HEAD_BYTES }>()?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (bytes, rest) = rest.split_at_checked(word(8) as usize)?;
        self.rest = rest;
        Some(Record { id: word(0), code: word(4), bytes })
    }
}

/// What of a call that waits crosses between worker and node.
#[derive(Debug, Clone, Copy)]
pub struct SuspendedFrame<'a> {
    /// On the way out the operations that it began, on the way back the outcomes that it hears of.
    pub records: Records<'a>,
    /// What was put aside of its memory.
    pub state: &'a [u8],
}

impl<'a> SuspendedFrame<'a> {
    /// What stands in front of so many bytes of records.
    pub const fn head(record_bytes: usize) -> [u8; 4] {
        (record_bytes as u32).to_le_bytes()
    }

    /// Reads a frame of any origin, of a function whose bodies have at most so many bytes.
    pub fn decode(frame: &'a [u8], body_bytes_max: usize) -> Option<Self> {
        let (head, rest) = frame.split_first_chunk::<4>()?;
        let (records, state) = rest.split_at_checked(u32::from_le_bytes(*head) as usize)?;
        let fits = records.len() <= limits::records_bytes_max(body_bytes_max)
            && state.len() <= limits::state_bytes_max(body_bytes_max);
        fits.then_some(Self { records: Records::decode(records)?, state })
    }
}
