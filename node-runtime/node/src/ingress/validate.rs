//! What a request must be before anything else is asked of it: of a method that is taken, for one valid host, and coded in a way
//! that nobody can read differently.
//!
//! hyper takes more than this, and so may whoever stands before the node: what two readers understand differently
//! is how requests are smuggled (RFC 9112 11.2). Refused here, before a body is read.

use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, Version, header};
use mfaas_ident::{HostError, requested_host};
use mfaas_rules::codes;

use super::problem::Problem;

/// What functions are called with.
const METHODS: [Method; 7] =
    [Method::GET, Method::POST, Method::HEAD, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
const METHODS_ALLOWED: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Checks the head of a request; the host that it names, nothing only in HTTP/1.0.
pub(super) fn check(parts: &Parts) -> Result<Option<&str>, Problem> {
    if !METHODS.contains(&parts.method) {
        return Err(method_refused(&parts.method));
    }
    let mut host_header = None;
    for (name, value) in &parts.headers {
        if name == header::HOST {
            if host_header.replace(value).is_some() {
                return Err(host_refused(&HostError::Twice.to_string()));
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
    check_host(parts, host_header)
}

/// One host; none only in HTTP/1.0.
fn check_host<'p>(
    parts: &'p Parts,
    host_header: Option<&'p HeaderValue>,
) -> Result<Option<&'p str>, Problem> {
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    match requested_host(authority, host_header.map(HeaderValue::as_bytes)) {
        Ok(None) if parts.version != Version::HTTP_10 => Err(host_refused("there is no Host header")),
        Ok(host) => Ok(host),
        Err(error) => Err(host_refused(&error.to_string())),
    }
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
