//! What a function hears of one that it called.
//!
//! ```text
//! operation := u32 binding · body of the request
//! reply     := u16 HTTP status · body of the response
//! ```
//! Integers are little-endian.

use alloc::vec::Vec;

/// What a function answered that was called by another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalleeReply<'a> {
    /// The HTTP status.
    pub http_status: u16,
    /// The body of its response.
    pub body: &'a [u8],
}

impl<'a> CalleeReply<'a> {
    /// The outcome of the operation.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size_of::<u16>() + self.body.len());
        bytes.extend_from_slice(&self.http_status.to_le_bytes());
        bytes.extend_from_slice(self.body);
        bytes
    }

    /// Reads an outcome.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (status, body) = bytes.split_first_chunk()?;
        Some(Self { http_status: u16::from_le_bytes(*status), body })
    }
}
