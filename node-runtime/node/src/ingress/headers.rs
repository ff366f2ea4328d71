//! Which headers of a request pass, and which the node adds to an answer.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use mfaas_ident::VersionNumber;

/// The digits of the largest number, and a point.
const NUMBER_BYTES: usize = 21;
/// Two such numbers with what stands before each.
const TIMING_BYTES_MAX: usize = 64;

const VERSION: HeaderName = HeaderName::from_static("mfaas-version");
const START: HeaderName = HeaderName::from_static("mfaas-start");
/// `handler-error` when the function answered with an error of its own.
pub(super) const STATUS: HeaderName = HeaderName::from_static("mfaas-status");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// How long a call may wait before it starts, in milliseconds; the node's own limit if there is none.
const DEADLINE: HeaderName = HeaderName::from_static("mfaas-deadline-ms");

/// Meant for one connection only (RFC 9110 7.6.1), besides what `Connection` names.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Not for a function to see: a browser adds them for the host, whichever port it talks to.
const SECRET: &[&str] = &["authorization", "cookie", "cookie2"];
/// Begins the node's own; a caller or a function that sends one is not believed.
const OWN: &str = "mfaas";

/// Whether a name, in lower case, is the node's own or could be taken for it: some read `_` as `-`.
pub(crate) fn is_own(name: &str) -> bool {
    name.strip_prefix(OWN).is_some_and(|rest| rest.starts_with(|next: char| !next.is_ascii_alphanumeric()))
}

/// The deadline that the caller sent; the error is a sentence.
pub(super) fn wait_max(headers: &HeaderMap) -> Result<Option<Duration>, &'static str> {
    let Some(value) = headers.get(DEADLINE) else { return Ok(None) };
    let ms = value.to_str().ok().and_then(|text| text.parse().ok());
    ms.map(|ms| Some(Duration::from_millis(ms))).ok_or("mfaas-deadline-ms is a whole number of milliseconds")
}

/// What a function may see of a request: names and values. Values that are not UTF-8 stay behind.
pub(super) fn for_function(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let named = named_by_connection(headers);
    headers.iter().filter_map(move |(name, value)| {
        let name = name.as_str();
        let passes = !HOP_BY_HOP.contains(&name)
            && !SECRET.contains(&name)
            && !is_own(name)
            && !named.iter().any(|listed| listed.eq_ignore_ascii_case(name));
        passes.then_some(name).zip(std::str::from_utf8(value.as_bytes()).ok())
    })
}

/// The host that was asked, where HTTP/2 says it elsewhere: a function sees the same by either version.
pub(super) fn host<'r>(headers: &HeaderMap, asked: Option<&'r str>) -> Option<(&'static str, &'r str)> {
    asked.filter(|_| !headers.contains_key(header::HOST)).map(|asked| ("host", asked))
}

/// On every response of a function or about one: it is no page of this origin, and it is what its
/// type says.
pub(super) fn harden(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers
        .entry(header::CONTENT_TYPE)
        .or_insert_with(|| HeaderValue::from_static("application/octet-stream"));
}

/// Version, warm or cold, and times in milliseconds.
pub(super) fn describe(
    headers: &mut HeaderMap,
    version: VersionNumber,
    cold: Option<bool>,
    queued: Duration,
    ran: Duration,
) {
    headers.insert(VERSION, HeaderValue::from(version.get()));
    if let Some(cold) = cold {
        headers.insert(START, HeaderValue::from_static(if cold { "cold" } else { "warm" }));
    }
    let mut text = Text { bytes: [0; TIMING_BYTES_MAX], length: 0 };
    text.put(b"queue;dur=");
    text.put_decimal(tenths(queued) / 10, 3);
    text.put(b", run;dur=");
    text.put_decimal(tenths(ran), 4);
    if let Ok(timing) = HeaderValue::from_bytes(text.bytes()) {
        headers.insert(SERVER_TIMING, timing);
    }
}

/// Tenths of a microsecond.
fn tenths(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / 100).unwrap_or(u64::MAX)
}

/// A short text that is written by hand: to format one costs as much as a small call.
struct Text {
    bytes: [u8; TIMING_BYTES_MAX],
    length: usize,
}

impl Text {
    /// What does not fit is left out.
    fn put(&mut self, more: &[u8]) {
        let end = (self.length + more.len()).min(self.bytes.len());
        let room = &mut self.bytes[self.length..end];
        room.copy_from_slice(&more[..room.len()]);
        self.length = end;
    }

    /// Appends `number` with so many of its digits after the point, below 20.
    fn put_decimal(&mut self, number: u64, places: usize) {
        let mut digits = [0; NUMBER_BYTES];
        let (mut at, mut left, mut written) = (digits.len(), number, 0);
        while left > 0 || written <= places {
            if written == places {
                at -= 1;
                digits[at] = b'.';
            }
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            (left, written) = (left / 10, written + 1);
        }
        self.put(&digits[at..]);
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONNECTION);
    let texts = values.iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(|name| name.trim().to_owned()).collect()
}
