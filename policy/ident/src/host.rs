//! Which host a request names, so that every listener reads it in the same way.

use std::net::Ipv6Addr;

/// What a name of the DNS has at most (RFC 1035 2.3.4), in bytes.
const HOST_BYTES_MAX: usize = 255;

/// Why a request names no host, or not one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Two headers, of which two readers may take different ones.
    #[error("there is more than one Host header")]
    Twice,
    /// Bytes that are no text.
    #[error("the Host header is no text")]
    NoText,
    /// Target and header disagree.
    #[error("the Host header and the request's target name different hosts")]
    Different,
    /// Neither a name nor an address, with or without a port.
    #[error("what the request names is no host with an optional port")]
    NoHost,
}

/// One host with its port, by whichever way it is said: the authority of the request's target, or its only Host header. An HTTP/2
/// client may say it twice, and then must say the same (RFC 9113 8.3.1); so must one that sends its target in absolute form.
///
/// # Errors
/// What two readers could understand differently, and what is no host.
pub fn requested_host<'r>(
    authority: Option<&'r str>,
    header: Option<&'r [u8]>,
) -> Result<Option<&'r str>, HostError> {
    let header = header.map(std::str::from_utf8).transpose().map_err(|_| HostError::NoText)?;
    if let (Some(authority), Some(header)) = (authority, header)
        && !authority.eq_ignore_ascii_case(header)
    {
        return Err(HostError::Different);
    }
    match authority.or(header) {
        Some(host) if !is_host(host) => Err(HostError::NoHost),
        host => Ok(host),
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

#[cfg(test)]
mod tests;
