//! The kinds of content that nearly every response is of.

/// The header `content-type` of a response, as a number: a function that answers with one of these
/// needs no text of its own for it.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentType {
    /// No such header, or one among the others.
    Unsaid = 0,
    /// Plain text in UTF-8.
    Text = 1,
    /// A page in UTF-8.
    Html = 2,
    /// Bytes of no particular type.
    Bytes = 3,
    /// JSON.
    Json = 4,
}

impl ContentType {
    const ALL: [Self; 5] = [Self::Unsaid, Self::Text, Self::Html, Self::Bytes, Self::Json];

    /// The kind with this number, if there is one. Numbers from a function are hostile.
    pub fn from_u32(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Name and value of the header.
    pub const fn header(self) -> Option<(&'static str, &'static str)> {
        let value = match self {
            Self::Unsaid => return None,
            Self::Text => "text/plain; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
            Self::Bytes => "application/octet-stream",
            Self::Json => "application/json",
        };
        Some(("content-type", value))
    }

    /// The header as it stands in a frame; nothing for [`Self::Unsaid`].
    pub(crate) const fn encoded(self) -> &'static [u8] {
        match self {
            Self::Unsaid => b"",
            Self::Text => b"\x0c\0content-type\x19\0text/plain; charset=utf-8",
            Self::Html => b"\x0c\0content-type\x18\0text/html; charset=utf-8",
            Self::Bytes => b"\x0c\0content-type\x18\0application/octet-stream",
            Self::Json => b"\x0c\0content-type\x10\0application/json",
        }
    }
}
