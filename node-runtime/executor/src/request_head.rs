//! What requests to a function that is called within a call begin with: read once for all of them.

use mfaas_abi::Span;
use mfaas_abi::frame::RequestParts;

use crate::memory::CallMemory;

/// The part of a request's frame (`mfaas_abi::frame`) that stands before the length of the body.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead {
    /// With a length of zero behind it, so that it is the frame of a request without a body.
    frame: [u8; Self::BYTES_MAX + size_of::<u32>()],
    head_bytes: usize,
    method: Part,
    path: Part,
    headers: Part,
    header_count: usize,
}

/// Where a part of it begins in it, and how long it is.
#[derive(Debug, Clone, Copy)]
struct Part(usize, usize);

impl RequestHead {
    /// The longest one, in bytes.
    pub const BYTES_MAX: usize = 512;

    /// Reads one of any origin: `None` if it is none or too long.
    pub fn read(head: &[u8]) -> Option<Self> {
        let mut frame = [0; Self::BYTES_MAX + size_of::<u32>()];
        frame.get_mut(..head.len()).filter(|_| head.len() <= Self::BYTES_MAX)?.copy_from_slice(head);
        let whole = &frame[..head.len() + size_of::<u32>()];
        let RequestParts { method, path, headers, .. } = RequestParts::decode(whole, 0).ok()?;
        let part = |bytes: &[u8]| Part(bytes.as_ptr().addr() - whole.as_ptr().addr(), bytes.len());
        let (method, path, headers, header_count) =
            (part(method), part(path), part(headers.as_bytes()), headers.len());
        Some(Self { frame, head_bytes: head.len(), method, path, headers, header_count })
    }

    /// Writes the request with this body to its place, and its parts into the call's record: how long its frame is, in bytes. `None` if
    /// it has no room.
    pub(crate) fn write(&self, body: &[u8], call_memory: &CallMemory) -> Option<usize> {
        let body_at = self.head_bytes + size_of::<u32>();
        let bytes = body_at + body.len();
        let (start, room) = call_memory.request();
        if body.len() > call_memory.body_bytes_max() || bytes > room {
            return None;
        }
        // SAFETY: INV-EXECUTOR-2. Within the request's room, and no call runs in this memory.
        let place = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
        place[..self.head_bytes].copy_from_slice(&self.frame[..self.head_bytes]);
        place[self.head_bytes..body_at].copy_from_slice(&(body.len() as u32).to_le_bytes());
        place[body_at..].copy_from_slice(body);
        let span = |Part(at, bytes): Part| Span::of(&place[at..at + bytes]);
        // SAFETY: INV-EXECUTOR-2. The record's place, aligned and apart from the request, and no call runs in it.
        let request = unsafe { &mut (*call_memory.call()).request };
        request.method = span(self.method);
        request.path = span(self.path);
        request.headers = span(self.headers);
        request.header_count = self.header_count;
        request.body = Span::of(&place[body_at..]);
        Some(bytes)
    }

    /// Nothing of it stays.
    pub fn wipe(&mut self) {
        self.frame[..self.head_bytes].fill(0);
    }
}

#[cfg(test)]
mod tests;
