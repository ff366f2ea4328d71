//! Headers that a function may send: a list, since tenants share an origin and browsers and proxies invent headers that speak for a
//! whole origin, or to the proxy, faster than anybody could list them.
//!
//! Each row says what it is for and why it harms nobody else. What is not here is left out of the answer without a word to the
//! caller; docs/functions.md has the list for whoever writes functions.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use mfaas_ident::TenantName;

/// A header that passes.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: HeaderName,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for readers; a test compares it with docs/functions.md")
    )]
    pub(super) why: &'static str,
}

const fn row(name: HeaderName, why: &'static str) -> Row {
    Row { name, why }
}

/// Headers of the function's own. A prefix, not all of `x-`: proxies obey some of those (nginx `x-accel-redirect`, Envoy
/// `x-envoy-immediate-health-check-fail`, Apache `x-sendfile`).
pub(super) const OWN_PREFIX: &str = "x-fn-";

/// In the order of how often they are sent.
pub(super) static ROWS: [Row; 26] = [
    row(
        header::CONTENT_TYPE,
        "what the body is; nosniff and the sandbox keep a page from acting for the origin",
    ),
    row(header::CACHE_CONTROL, "how long this answer may be kept; a cache keys by the function's own path"),
    row(header::ETAG, "which state of the resource this is, for conditional requests"),
    row(header::LAST_MODIFIED, "the same by time"),
    row(header::VARY, "which request headers the answer depends on, so that a cache does not mix callers up"),
    row(header::LOCATION, "where a redirect leads; only where `leads_away_or_home` says"),
    row(header::CONTENT_LANGUAGE, "the language of the body"),
    row(header::CONTENT_DISPOSITION, "a file name for the body"),
    row(header::CONTENT_ENCODING, "a body that the function compressed itself"),
    row(header::EXPIRES, "cache-control for older caches"),
    row(header::AGE, "how old an answer is that the function itself kept"),
    row(header::RETRY_AFTER, "when to ask this function again, with 429 and 503"),
    row(header::ALLOW, "which methods the function takes, with 405"),
    row(header::ACCEPT_RANGES, "that parts of the body can be had"),
    row(header::CONTENT_RANGE, "which part this is, with 206 and 416"),
    row(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        "whose pages may read this one answer; `access-control-allow-credentials` does not pass",
    ),
    row(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        "the same before a request; kept by browsers for this path alone",
    ),
    row(header::ACCESS_CONTROL_ALLOW_HEADERS, "the same"),
    row(header::ACCESS_CONTROL_EXPOSE_HEADERS, "which of these headers such a page may read"),
    row(header::ACCESS_CONTROL_MAX_AGE, "how long a browser may remember it, for this path alone"),
    row(HeaderName::from_static("deprecation"), "that this version of an interface ends (RFC 9745)"),
    row(HeaderName::from_static("sunset"), "when it does (RFC 8594)"),
    row(HeaderName::from_static("x-request-id"), "the caller's own number for the request, given back"),
    row(HeaderName::from_static("x-correlation-id"), "the same by its other name"),
    row(HeaderName::from_static("x-total-count"), "how many there are of what is listed in pages"),
    row(HeaderName::from_static("x-robots-tag"), "that search engines leave this one answer alone"),
];

/// Copies the headers that a function of `tenant` may send, asked as `host`, into the response. What is not a header is left out:
/// the frame was checked, so there is none.
pub(super) fn take_over<'f>(
    into: &mut HeaderMap,
    headers: impl Iterator<Item = (&'f str, &'f str)>,
    (tenant, host): (&TenantName, Option<&str>),
) {
    for (name, value) in headers {
        let Some(name) = passing(name) else { continue };
        if name == header::LOCATION && !leads_away_or_home(value, tenant, host) {
            continue;
        }
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            into.append(name, value);
        }
    }
}

/// The header of that name, if it passes.
fn passing(name: &str) -> Option<HeaderName> {
    if let Some(row) = ROWS.iter().find(|row| row.name.as_str() == name) {
        return Some(row.name.clone());
    }
    if name.starts_with(OWN_PREFIX) { HeaderName::from_bytes(name.as_bytes()).ok() } else { None }
}

/// Whether a redirect leads to a function of the same tenant, or to another host altogether. Clients follow one with what they sent,
/// and within an origin with their credentials: by any other a function would make its callers call a
/// stranger's function in their own name.
fn leads_away_or_home(target: &str, tenant: &TenantName, host: Option<&str>) -> bool {
    // Clients read a backslash as a slash, and leave out what is no printable ASCII.
    if !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return false;
    }
    let path = |target: &str| {
        let end = target.find(['?', '#']).unwrap_or(target.len());
        let mut segments = target[..end].split('/');
        let home = segments.next() == Some("") && segments.next() == Some("f");
        home && segments.next() == Some(tenant.as_str())
            && segments.all(|segment| !segment.starts_with('.') && !segment.contains('%'))
    };
    if target.starts_with('/') {
        return path(target);
    }
    let lower = target.to_ascii_lowercase();
    let Some(rest) = lower.strip_prefix("https://").or_else(|| lower.strip_prefix("http://")) else {
        return false;
    };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let name = |authority: &str| {
        let port = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
        authority[..port.unwrap_or(authority.len())].trim_end_matches('.').to_ascii_lowercase()
    };
    let is_plain = !authority.is_empty() && !authority.contains(['@', '%']);
    is_plain && host.is_some_and(|host| name(host) != name(authority))
}

#[cfg(test)]
mod tests;
