//! Reads a JSON document and writes it again, indented by four spaces and with sorted keys.

use mfaas::Error;
use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

/// Takes any JSON document.
pub fn handle(body: Vec<u8>) -> Result<String, Error> {
    let document: Value = serde_json::from_slice(&body)?;
    let mut written = Vec::new();
    document
        .serialize(&mut Serializer::with_formatter(&mut written, PrettyFormatter::with_indent(b"    ")))?;
    Ok(String::from_utf8(written)?)
}
