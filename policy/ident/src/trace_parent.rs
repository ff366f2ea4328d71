//! The place of a piece of work in a trace, as W3C Trace Context writes it (section 3.2, `traceparent`).

use std::fmt;
use std::str::FromStr;

use crate::ParseError;

/// Bytes of the text of version 00.
const TEXT_BYTES: usize = 55;

/// A trace, the span in it under which further ones hang, and whether the trace is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace: [u8; 16],
    span: [u8; 8],
    is_sampled: bool,
}

impl TraceParent {
    /// Reads the header. What a later version appends is passed over; its flags are asked for sampling alone.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let wrong = |rule| ParseError::new("traceparent", text, rule);
        let form = "expected 00, a trace, a span and flags in lower-case hexadecimal digits with hyphens between them";
        let bytes = text.as_bytes();
        let is_as_long = bytes.len() == TEXT_BYTES
            || bytes.len() > TEXT_BYTES && bytes[TEXT_BYTES] == b'-' && !text.starts_with("00");
        let is_hyphen = |at: usize| bytes.get(at) == Some(&b'-');
        if !is_as_long || ![2, 35, 52].into_iter().all(is_hyphen) {
            return Err(wrong(form));
        }
        let version = hex_array::<1>(&bytes[..2]).ok_or_else(|| wrong(form))?;
        let trace = hex_array(&bytes[3..35]).ok_or_else(|| wrong(form))?;
        let span = hex_array(&bytes[36..52]).ok_or_else(|| wrong(form))?;
        let flags = hex_array::<1>(&bytes[53..55]).ok_or_else(|| wrong(form))?;
        if version == [0xff] {
            return Err(wrong("version ff does not exist"));
        }
        Self::new(trace, span, flags[0] & 1 == 1).ok_or_else(|| wrong("trace and span are not zero"))
    }

    /// Of its parts; none of zeros.
    pub fn new(trace: [u8; 16], span: [u8; 8], is_sampled: bool) -> Option<Self> {
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, is_sampled })
    }

    /// The trace.
    pub fn trace(&self) -> [u8; 16] {
        self.trace
    }

    /// The span under which further ones hang.
    pub fn span(&self) -> [u8; 8] {
        self.span
    }

    /// Whether spans of the trace are kept.
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// The trace as people look it up.
    pub fn trace_id(&self) -> String {
        hex::encode(self.trace)
    }
}

fn hex_array<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let is_lower = digits.iter().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(digit));
    let mut array = [0; N];
    (is_lower && hex::decode_to_slice(digits, &mut array).is_ok()).then_some(array)
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{}-{}-{flags:02x}", hex::encode(self.trace), hex::encode(self.span))
    }
}

impl FromStr for TraceParent {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests;
