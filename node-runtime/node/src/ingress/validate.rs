//! What a request must be before anything else is asked of it: of a method that is taken, for one valid host, and coded in a way
//! that nobody can read differently.
//!
//! hyper takes more than this, and so may whoever stands before the node: what two readers understand differently
//! is how requests are smuggled (RFC 9112 11.2). Refused here, before a body is read.

use std::net::Ipv6Addr;

use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, Version, header};
use mfaas_rules::codes;

use super::problem::Problem;

/// What functions are called with.
const METHODS: [Method; 7] =
    [Method::GET, Method::POST, Method::HEAD, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
const METHODS_ALLOWED: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
/// What a name of the DNS has at most (RFC 1035 2.3.4), in bytes.
const HOST_BYTES_MAX: usize = 255;

/// Checks the head of a request; the host that it names, nothing only in HTTP/1.0.
pub(super) fn check(parts: &Parts) -> Result<Option<&str>, Problem> {
    if !METHODS.contains(&parts.method) {
        return Err(method_refused(&parts.method));
    }
    let mut said = None;
    for (name, value) in &parts.headers {
        if name == header::HOST {
            if said.replace(value).is_some() {
                return Err(host_refused("there is more than one Host header"));
            }
        } else if name == header::TRANSFER_ENCODING {
            check_transfer(parts, value)?;
        } else if name == header::CONTENT_ENCODING && !value.as_bytes().eq_ignore_ascii_case(b"identity") {
            let detail = "a request's body is taken as it is, without a Content-Encoding";
            return Err(Problem::of(StatusCode::UNSUPPORTED_MEDIA_TYPE, codes::MF0823)
                .detail(detail)
                .with(header::ACCEPT_ENCODING, "identity"));
        }
    }
    check_host(parts, said)
}

/// One host, by whichever way it is said. An HTTP/2 client may say it twice, and then must say the same (RFC 9113 8.3.1); so must
/// one that sends its target in absolute form.
fn check_host<'p>(parts: &'p Parts, said: Option<&'p HeaderValue>) -> Result<Option<&'p str>, Problem> {
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let said = match said {
        Some(said) => Some(said.to_str().map_err(|_| host_refused("the Host header is no text"))?),
        None => None,
    };
    if let (Some(authority), Some(said)) = (authority, said)
        && !authority.eq_ignore_ascii_case(said)
    {
        return Err(host_refused("the Host header and the request's target name different hosts"));
    }
    match authority.or(said) {
        Some(host) if is_host(host) => Ok(Some(host)),
        Some(_) => Err(host_refused("what the request names is no host with an optional port")),
        None if parts.version == Version::HTTP_10 => Ok(None),
        None => Err(host_refused("there is no Host header")),
    }
}

/// A name of letters, digits, `-`, `.` and `_`, or an address, with or without a port (RFC 3986 3.2.2, without what no
/// host is called in practice).
fn is_host(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else { return false };
            if address.parse::<Ipv6Addr>().is_err() {
                return false;
            }
            (address, port)
        }
        None => {
            let end = text.bytes().position(|byte| byte == b':').unwrap_or(text.len());
            let (name, port) = text.split_at(end);
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            if name.is_empty() || !name.bytes().all(plain) {
                return false;
            }
            (name, port)
        }
    };
    let is_port = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u16>().is_ok(),
        None => port.is_empty(),
    };
    host.len() <= HOST_BYTES_MAX && is_port
}

/// hyper reads a body whose last coding is `chunked`. One coding is what everybody undoes alike.
fn check_transfer(parts: &Parts, value: &HeaderValue) -> Result<(), Problem> {
    let codings = parts.headers.get_all(header::TRANSFER_ENCODING).iter().count();
    if codings == 1 && value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    Err(Problem::of(StatusCode::NOT_IMPLEMENTED, codes::MF0823)
        .detail("the only Transfer-Encoding that is taken is one `chunked`")
        .with(header::CONNECTION, "close"))
}

fn host_refused(detail: &str) -> Problem {
    Problem::of(StatusCode::BAD_REQUEST, codes::MF0821).detail(detail)
}

/// `TRACE` would show a caller's own headers to a script, `CONNECT` asks for a tunnel: known, and not taken (405). Any other is not
/// known (501, RFC 9110 15.6.2).
fn method_refused(method: &Method) -> Problem {
    let is_known = matches!(*method, Method::TRACE | Method::CONNECT);
    let status = if is_known { StatusCode::METHOD_NOT_ALLOWED } else { StatusCode::NOT_IMPLEMENTED };
    Problem::of(status, codes::MF0822).with(header::ALLOW, METHODS_ALLOWED)
}

#[cfg(test)]
mod tests;
