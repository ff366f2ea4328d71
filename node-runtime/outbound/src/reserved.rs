//! Headers that are not for functions to set.

use reqwest::header::HeaderName;

use crate::error::SendError;

/// They say how a request is sent, who has asked for it, or that it is another one than it seems.
const RESERVED: [&str; 22] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-real-ip",
    "x-remote-user",
    "x-rewrite-url",
];
const RESERVED_PREFIX: &str = "x-forwarded-";

/// The header of that name, if a function may set it.
pub(crate) fn header_name(name: &str) -> Result<HeaderName, SendError> {
    let header = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| SendError::Request("what names a header is no name of one".to_owned()))?;
    // As it is sent, whatever its case was; some servers read `_` as `-`.
    let read = header.as_str().replace('_', "-");
    if RESERVED.contains(&&*read) || read.starts_with(RESERVED_PREFIX) {
        return Err(SendError::Request(format!("the header `{header}` is not for a function to set")));
    }
    Ok(header)
}

#[cfg(test)]
pub(crate) const EXAMPLES: &[&str] = &RESERVED;
