//! Whom a connection counts against.

use std::net::{IpAddr, Ipv6Addr};

/// Whom bounds on connections count together: an IPv4 address, or an IPv6 /64, which is what one customer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerKey(IpAddr);

impl PeerKey {
    /// The one that the address belongs to. An IPv4 address is the same one inside of IPv6.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            four @ IpAddr::V4(_) => four,
        })
    }
}
