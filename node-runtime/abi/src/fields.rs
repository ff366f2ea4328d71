//! What operations on bindings are written with.
//!
//! ```text
//! operation := u32 binding · u8 kind · fields of the kind
//! bytes     := u32 bytes · bytes
//! option    := u8 0, or u8 1 · bytes
//! ```
//! Integers are little-endian. The binding is a place in the order of the function's bindings; what stands behind it is
//! read by whoever knows which resource that is.

use alloc::vec::Vec;

/// The binding that an operation names, and what it asks of it. Of any origin.
pub fn split_binding(operation: &[u8]) -> Option<(u32, &[u8])> {
    let (binding, request) = operation.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*binding), request))
}

/// The operation that asks a binding for something: what [`split_binding`] reads.
pub fn with_binding(binding: u32, request: &[u8]) -> Vec<u8> {
    let mut operation = Vec::with_capacity(size_of::<u32>() + request.len());
    operation.extend_from_slice(&binding.to_le_bytes());
    operation.extend_from_slice(request);
    operation
}

pub(crate) fn put_u32(to: &mut Vec<u8>, number: usize) {
    to.extend_from_slice(&(number as u32).to_le_bytes());
}

pub(crate) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(to, bytes.len());
    to.extend_from_slice(bytes);
}

pub(crate) fn put_option(to: &mut Vec<u8>, bytes: Option<&[u8]>) {
    to.push(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        put_bytes(to, bytes);
    }
}

/// What is not read yet.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(crate) fn u32(&mut self) -> Option<usize> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number) as usize)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn option(&mut self) -> Option<Option<&'a [u8]>> {
        match self.byte()? {
            0 => Some(None),
            1 => self.bytes().map(Some),
            _ => None,
        }
    }

    pub(crate) fn ends(&self) -> bool {
        self.0.is_empty()
    }
}
