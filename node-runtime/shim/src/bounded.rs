//! Text of bounded length on the stack, for a moment in which allocating may be impossible.

use std::fmt::Write as _;

use mfaas_abi::limits::PANIC_BYTES_MAX;

/// Room kept for the place of a panic behind a long text.
const PLACE_BYTES: usize = 200;

/// Up to [`PANIC_BYTES_MAX`] bytes; what comes after is dropped.
pub(crate) struct BoundedText {
    bytes: [u8; PANIC_BYTES_MAX],
    len: usize,
}

impl BoundedText {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; PANIC_BYTES_MAX], len: 0 }
    }

    /// Appends the beginning of `text`, and leaves room for a place behind it.
    pub(crate) fn push(&mut self, text: &str) {
        let room = (PANIC_BYTES_MAX - PLACE_BYTES).saturating_sub(self.len);
        self.append(&text.as_bytes()[..text.floor_char_boundary(room)]);
    }

    /// Appends what fits of `arguments`.
    pub(crate) fn push_fmt(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Only a `Display` of ours can fail here, and none does.
        let _ = self.write_fmt(arguments);
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn append(&mut self, bytes: &[u8]) {
        let taken = bytes.len().min(PANIC_BYTES_MAX - self.len);
        self.bytes[self.len..self.len + taken].copy_from_slice(&bytes[..taken]);
        self.len += taken;
    }
}

impl std::fmt::Write for BoundedText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.append(text.as_bytes());
        Ok(())
    }
}
