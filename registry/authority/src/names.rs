//! Names of servers, as they stand in a certificate.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A name under which nodes and people reach the server: a host's DNS name, or an IP address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerName(String);

impl FromStr for ServerName {
    type Err = &'static str;

    /// A DNS name in lower case, its first label may be `*`, or an address without brackets and port.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return if address.is_unspecified() {
                Err("0.0.0.0 and :: name no machine: give an address that it is reached at")
            } else {
                Ok(Self(address.to_string()))
            };
        }
        let name = text.to_ascii_lowercase();
        let is_plain = |label: &str| {
            let ends = [label.chars().next(), label.chars().next_back()];
            let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            label.len() <= 63 && label.chars().all(inside) && !ends.contains(&Some('-')) && !label.is_empty()
        };
        let labels = name.strip_prefix("*.").unwrap_or(&name);
        // A last label of digits alone is an address that is not one (RFC 1123 2.1).
        let is_host =
            labels.split('.').next_back().is_some_and(|last| last.contains(|c: char| !c.is_ascii_digit()));
        if name.len() <= 253 && is_host && labels.split('.').all(is_plain) {
            return Ok(Self(name));
        }
        Err("expected a DNS name such as mfaas.example, or an IP address, without a port")
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
