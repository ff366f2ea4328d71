//! Requests and responses as bytes: a bounded binary encoding, safe to decode from either side.
//!
//! ```text
//! request  := u8 1 · text(method) · text(path) · headers · body
//! response := u8 2 · u16 status               · headers · body
//! headers  := u16 count · count × ( text(name) · text(value) )
//! text     := u16 bytes · bytes        body := u32 bytes · bytes, then nothing
//! ```
//! Integers are little-endian. A decoder allocates nothing, refuses what passes a limit of
//! [`crate::limits`], and refuses trailing bytes. How long a body may be depends on the class of the function: what says nothing
//! of it means [`limits::BODY_BYTES_MAX`].

use alloc::vec::Vec;

use crate::{ContentType, limits};

const TAG_REQUEST: u8 = 1;
const TAG_RESPONSE: u8 = 2;

/// Why bytes are not a frame, or why a message cannot become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The bytes end inside a field.
    Truncated,
    /// The first byte names another kind of frame.
    WrongTag,
    /// Bytes follow the body.
    TrailingBytes,
    /// A field is longer than its limit; the name of the limit.
    TooLong(&'static str),
    /// More than [`limits::HEADERS_MAX`] headers.
    TooManyHeaders,
    /// Method, path, header name or value holds a byte that may not stand there.
    BadText(&'static str),
    /// The response status is not in 200..=599.
    BadStatus(u16),
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Truncated => f.write_str("the frame ends inside a field"),
            Self::WrongTag => f.write_str("the frame is of another kind"),
            Self::TrailingBytes => f.write_str("bytes follow the body"),
            Self::TooLong(field) => write!(f, "the {field} is longer than its limit"),
            Self::TooManyHeaders => write!(f, "more than {} headers", limits::HEADERS_MAX),
            Self::BadText(field) => write!(f, "the {field} holds a byte that may not stand there"),
            Self::BadStatus(status) => write!(f, "status {status} is not in 200..=599"),
        }
    }
}

impl core::error::Error for FrameError {}

/// A decoded request; every part borrows from the frame.
#[derive(Debug, Clone, Copy)]
pub struct RequestFrame<'a> {
    /// `GET`, `POST`, …: upper-case ASCII letters.
    pub method: &'a str,
    /// Path and query as the caller sent them, beginning with `/`, visible ASCII.
    pub path: &'a str,
    /// Headers in the order sent.
    pub headers: Headers<'a>,
    /// The body.
    pub body: &'a [u8],
}

/// The same as bytes, for who hands them on: method and path are ASCII, the headers' texts UTF-8.
#[derive(Debug, Clone, Copy)]
pub struct RequestParts<'a> {
    /// As [`RequestFrame::method`].
    pub method: &'a [u8],
    /// As [`RequestFrame::path`].
    pub path: &'a [u8],
    /// As [`RequestFrame::headers`].
    pub headers: Headers<'a>,
    /// As [`RequestFrame::body`].
    pub body: &'a [u8],
}

/// A decoded response; every part borrows from the frame.
#[derive(Debug, Clone, Copy)]
pub struct ResponseFrame<'a> {
    /// HTTP status, 200..=599.
    pub status: u16,
    /// Headers in the order set.
    pub headers: Headers<'a>,
    /// The body.
    pub body: &'a [u8],
}

/// The checked headers of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    /// Name and value of each, in order. Names are lower-case tokens; values hold no control bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut reader = Reader::of_headers(self.bytes);
        (0..self.count).map_while(move |_| {
            let (name, value) = reader.header().ok()?;
            Some((core::str::from_utf8(name).ok()?, core::str::from_utf8(value).ok()?))
        })
    }

    /// The first value with this name; `name` in lower case.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// The headers in bytes that somebody else has checked: ones that are not headers read as an end.
    pub const fn from_checked(count: u16, bytes: &'a [u8]) -> Self {
        Self { count, bytes }
    }

    /// Reads `count` headers of any origin, which are all of `bytes`.
    pub fn decode(count: u16, bytes: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::of_headers(bytes);
        let headers = reader.counted_headers(count)?;
        if reader.rest.is_empty() { Ok(headers) } else { Err(FrameError::TrailingBytes) }
    }

    /// The names and values as they stand in the frame.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> RequestFrame<'a> {
    /// Reads a frame of any origin.
    pub fn decode(frame: &'a [u8]) -> Result<Self, FrameError> {
        let RequestParts { method, path, headers, body } =
            RequestParts::decode(frame, limits::BODY_BYTES_MAX)?;
        Ok(Self { method: text(method, "method")?, path: text(path, "path")?, headers, body })
    }
}

impl<'a> RequestParts<'a> {
    /// Reads a frame of any origin with a body of at most so many bytes. Into its caller, which keeps the parts: by way of
    /// memory they take longer than they do to read.
    #[inline(always)]
    pub fn decode(frame: &'a [u8], body_bytes_max: usize) -> Result<Self, FrameError> {
        let mut reader = Reader::open(frame, TAG_REQUEST, body_bytes_max)?;
        let method = reader.counted()?;
        check_method(method)?;
        let path = reader.counted()?;
        check_path(path)?;
        let headers = reader.headers()?;
        let body = reader.body()?;
        Ok(Self { method, path, headers, body })
    }
}

impl<'a> ResponseFrame<'a> {
    /// Reads a frame of any origin.
    pub fn decode(frame: &'a [u8]) -> Result<Self, FrameError> {
        Self::decode_within(frame, limits::BODY_BYTES_MAX)
    }

    /// Reads a frame of any origin with a body of at most so many bytes.
    pub fn decode_within(frame: &'a [u8], body_bytes_max: usize) -> Result<Self, FrameError> {
        let mut reader = Reader::open(frame, TAG_RESPONSE, body_bytes_max)?;
        let status = reader.u16()?;
        check_status(status)?;
        let headers = reader.headers()?;
        let body = reader.body()?;
        Ok(Self { status, headers, body })
    }
}

/// Appends a request frame to `into`; on an error `into` is as before.
pub fn encode_request<'h>(
    into: &mut Vec<u8>,
    method: &str,
    path: &str,
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    body: &[u8],
) -> Result<(), FrameError> {
    check_method(method.as_bytes())?;
    check_path(path.as_bytes())?;
    check_body(body, limits::BODY_BYTES_MAX)?;
    let start = into.len();
    into.push(TAG_REQUEST);
    put_text(into, method);
    put_text(into, path);
    finish(into, start, headers, body)
}

/// A request frame whose body comes piece by piece, so that a large one is never there twice.
#[derive(Debug)]
pub struct GrowingRequest {
    frame: Vec<u8>,
    /// Where the body begins, behind its length.
    body_at: usize,
    body_bytes_max: usize,
}

impl GrowingRequest {
    /// One without a body, for at most so many bytes of it.
    pub fn new<'h>(
        method: &str,
        path: &str,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        body_bytes_max: usize,
    ) -> Result<Self, FrameError> {
        let mut frame = Vec::new();
        encode_request(&mut frame, method, path, headers, &[])?;
        Ok(Self { body_at: frame.len(), frame, body_bytes_max })
    }

    /// The bytes of the body that are there.
    pub fn body_bytes(&self) -> usize {
        self.frame.len() - self.body_at
    }

    /// So many bytes of the body will come, or as many as may: there is room for them from now on, so that what is there is
    /// not copied when more comes. Without such room it is, as ever.
    pub fn expect(&mut self, body_bytes: usize) {
        let most = self.body_at + body_bytes.min(self.body_bytes_max);
        let _ = self.frame.try_reserve_exact(most.saturating_sub(self.frame.len()));
    }

    /// Appends to the body. On an error it is as before.
    pub fn extend(&mut self, piece: &[u8]) -> Result<(), FrameError> {
        if self.body_bytes().saturating_add(piece.len()) > self.body_bytes_max {
            return Err(FrameError::TooLong("body"));
        }
        self.frame.extend_from_slice(piece);
        Ok(())
    }

    /// The frame.
    pub fn finish(self) -> Vec<u8> {
        let Self { mut frame, body_at, .. } = self;
        let bytes = (frame.len() - body_at) as u32;
        frame[body_at - size_of::<u32>()..body_at].copy_from_slice(&bytes.to_le_bytes());
        frame
    }
}

/// Appends a response frame to `into`; on an error `into` is as before.
pub fn encode_response<'h>(
    into: &mut Vec<u8>,
    status: u16,
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    body: &[u8],
) -> Result<(), FrameError> {
    check_status(status)?;
    check_body(body, limits::BODY_BYTES_MAX)?;
    let start = into.len();
    into.push(TAG_RESPONSE);
    into.extend_from_slice(&status.to_le_bytes());
    finish(into, start, headers, body)
}

/// Appends a response frame whose first header is the one of `content_type` and whose other headers were
/// checked before; on an error `into` is as before. The body has at most `body_bytes_max` bytes.
pub fn encode_checked_response(
    into: &mut Vec<u8>,
    status: u16,
    content_type: ContentType,
    others: Headers<'_>,
    body: &[u8],
    body_bytes_max: usize,
) -> Result<(), FrameError> {
    check_status(status)?;
    check_body(body, body_bytes_max)?;
    let first = content_type.encoded();
    let count = others.count.saturating_add(u16::from(!first.is_empty()));
    // Each header has the lengths of its name and its value before them.
    let texts = (first.len() + others.bytes.len()).saturating_sub(usize::from(count) * 4);
    check_headers(count, texts)?;
    let [status, count] = [status, count].map(u16::to_le_bytes);
    into.reserve(9 + first.len() + others.bytes.len() + body.len());
    into.extend_from_slice(&[TAG_RESPONSE, status[0], status[1], count[0], count[1]]);
    into.extend_from_slice(first);
    into.extend_from_slice(others.bytes);
    put_body(into, body);
    Ok(())
}

/// Headers and body, the common tail of both frames; takes back everything on an error.
fn finish<'h>(
    into: &mut Vec<u8>,
    start: usize,
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    body: &[u8],
) -> Result<(), FrameError> {
    let written = put_headers(into, headers);
    if written.is_err() {
        into.truncate(start);
        return written;
    }
    put_body(into, body);
    Ok(())
}

/// Every caller has checked `body` against a limit below 4 GiB.
fn put_body(into: &mut Vec<u8>, body: &[u8]) {
    into.extend_from_slice(&(body.len() as u32).to_le_bytes());
    into.extend_from_slice(body);
}

fn put_headers<'h>(
    into: &mut Vec<u8>,
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
) -> Result<(), FrameError> {
    let count_at = into.len();
    into.extend_from_slice(&[0, 0]);
    let [low, high] = encode_headers(into, headers)?.to_le_bytes();
    into[count_at] = low;
    into[count_at + 1] = high;
    Ok(())
}

/// Appends names and values as they stand in a frame, and says how many. On an error `into` holds
/// those that came before it.
pub fn encode_headers<'h>(
    into: &mut Vec<u8>,
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
) -> Result<u16, FrameError> {
    let mut budget = HeaderBudget::default();
    for (name, value) in headers {
        budget.take(name.as_bytes(), value.as_bytes())?;
        put_text(into, name);
        put_text(into, value);
    }
    Ok(budget.count)
}

/// Every caller has checked `text` against a limit below 64 KiB.
fn put_text(into: &mut Vec<u8>, text: &str) {
    into.extend_from_slice(&(text.len() as u16).to_le_bytes());
    into.extend_from_slice(text.as_bytes());
}

/// Counts headers and their bytes against the limits, the same way in both directions.
#[derive(Default)]
struct HeaderBudget {
    count: u16,
    bytes: usize,
}

impl HeaderBudget {
    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), FrameError> {
        check_header(name, value)?;
        self.count += 1;
        self.bytes += name.len() + value.len();
        check_headers(self.count, self.bytes)
    }
}

/// Cuts fields off the front of hostile bytes.
struct Reader<'a> {
    rest: &'a [u8],
    body_bytes_max: usize,
}

impl<'a> Reader<'a> {
    /// A reader of bytes in which no body stands.
    fn of_headers(rest: &'a [u8]) -> Self {
        Self { rest, body_bytes_max: 0 }
    }

    #[inline]
    fn open(frame: &'a [u8], tag: u8, body_bytes_max: usize) -> Result<Self, FrameError> {
        if frame.len() > limits::frame_bytes_max(body_bytes_max) {
            return Err(FrameError::TooLong("frame"));
        }
        let (&found, rest) = frame.split_first().ok_or(FrameError::Truncated)?;
        if found == tag { Ok(Self { rest, body_bytes_max }) } else { Err(FrameError::WrongTag) }
    }

    #[inline]
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], FrameError> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(FrameError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn u16(&mut self) -> Result<u16, FrameError> {
        let (&bytes, rest) = self.rest.split_first_chunk::<2>().ok_or(FrameError::Truncated)?;
        self.rest = rest;
        Ok(u16::from_le_bytes(bytes))
    }

    #[inline]
    fn u32(&mut self) -> Result<u32, FrameError> {
        let (&bytes, rest) = self.rest.split_first_chunk::<4>().ok_or(FrameError::Truncated)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(bytes))
    }

    /// What stands behind its own length.
    #[inline]
    fn counted(&mut self) -> Result<&'a [u8], FrameError> {
        let bytes = usize::from(self.u16()?);
        self.take(bytes)
    }

    fn header(&mut self) -> Result<(&'a [u8], &'a [u8]), FrameError> {
        Ok((self.counted()?, self.counted()?))
    }

    #[inline]
    fn headers(&mut self) -> Result<Headers<'a>, FrameError> {
        let count = self.u16()?;
        self.counted_headers(count)
    }

    #[inline]
    fn counted_headers(&mut self, count: u16) -> Result<Headers<'a>, FrameError> {
        let bytes = self.rest;
        let mut budget = HeaderBudget::default();
        for _ in 0..count {
            let (name, value) = self.header()?;
            budget.take(name, value)?;
            // Names are ASCII, and values nearly always.
            if !value.is_ascii() {
                text(value, "header value")?;
            }
        }
        Ok(Headers { count, bytes: &bytes[..bytes.len() - self.rest.len()] })
    }

    #[inline]
    fn body(&mut self) -> Result<&'a [u8], FrameError> {
        let bytes = usize::try_from(self.u32()?).map_err(|_| FrameError::TooLong("body"))?;
        let body = self.take(bytes)?;
        check_body(body, self.body_bytes_max)?;
        if self.rest.is_empty() { Ok(body) } else { Err(FrameError::TrailingBytes) }
    }
}

/// What a byte may stand in: a method, a path, the name or the value of a header. The table is asked
/// for every byte of every text in both directions.
const METHOD: u8 = 1;
const PATH: u8 = 2;
const NAME: u8 = 4;
const VALUE: u8 = 8;
static CLASSES: [u8; 256] = classes();

/// Methods as everybody uses them, paths of visible ASCII; tokens and field values of RFC 9110 5.6.2 and
/// 5.5, names in lower case: what HTTP/2 demands.
const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut at = 0;
    while at < classes.len() {
        let byte = at as u8;
        if byte.is_ascii_uppercase() {
            classes[at] |= METHOD;
        }
        if byte.is_ascii_graphic() {
            classes[at] |= PATH;
        }
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() {
            classes[at] |= NAME;
        }
        if byte == b'\t' || (byte >= b' ' && byte != 0x7f) {
            classes[at] |= VALUE;
        }
        at += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut mark = 0;
    while mark < marks.len() {
        classes[marks[mark] as usize] |= NAME;
        mark += 1;
    }
    classes
}

fn is_all(bytes: &[u8], class: u8) -> bool {
    bytes.iter().all(|byte| CLASSES[usize::from(*byte)] & class != 0)
}

/// ASCII or UTF-8 of a field that may hold nothing else.
fn text<'a>(bytes: &'a [u8], field: &'static str) -> Result<&'a str, FrameError> {
    core::str::from_utf8(bytes).map_err(|_| FrameError::BadText(field))
}

fn check_method(method: &[u8]) -> Result<(), FrameError> {
    if method.len() > limits::METHOD_BYTES_MAX {
        Err(FrameError::TooLong("method"))
    } else if method.is_empty() || !is_all(method, METHOD) {
        Err(FrameError::BadText("method"))
    } else {
        Ok(())
    }
}

fn check_path(path: &[u8]) -> Result<(), FrameError> {
    if path.len() > limits::PATH_BYTES_MAX {
        Err(FrameError::TooLong("path"))
    } else if path.first() != Some(&b'/') || !is_all(path, PATH) {
        Err(FrameError::BadText("path"))
    } else {
        Ok(())
    }
}

fn check_header(name: &[u8], value: &[u8]) -> Result<(), FrameError> {
    if name.len() > limits::HEADER_NAME_BYTES_MAX {
        Err(FrameError::TooLong("header name"))
    } else if value.len() > limits::HEADER_VALUE_BYTES_MAX {
        Err(FrameError::TooLong("header value"))
    } else if name.is_empty() || !is_all(name, NAME) {
        Err(FrameError::BadText("header name"))
    } else if !is_all(value, VALUE) {
        Err(FrameError::BadText("header value"))
    } else {
        Ok(())
    }
}

/// `bytes`: of names and values together.
fn check_headers(count: u16, bytes: usize) -> Result<(), FrameError> {
    if usize::from(count) > limits::HEADERS_MAX {
        Err(FrameError::TooManyHeaders)
    } else if bytes > limits::HEADERS_BYTES_MAX {
        Err(FrameError::TooLong("headers"))
    } else {
        Ok(())
    }
}

fn check_status(status: u16) -> Result<(), FrameError> {
    if (200..=599).contains(&status) { Ok(()) } else { Err(FrameError::BadStatus(status)) }
}

fn check_body(body: &[u8], body_bytes_max: usize) -> Result<(), FrameError> {
    if body.len() > body_bytes_max { Err(FrameError::TooLong("body")) } else { Ok(()) }
}
