//! Which addresses functions may reach: those of the public internet, and networks that the operator names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// IPv4 networks that are not of the public internet (IANA's registry of special addresses), nor of one server.
const SPECIAL_V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Of the IPv6 addresses that are handed out (2000::/3), those that are not of the public internet, or hold another address.
const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// What may be reached beside the public internet.
#[derive(Debug, Clone)]
pub(crate) struct Addresses(Vec<IpNet>);

impl Addresses {
    /// These networks as well.
    pub(crate) fn with(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether functions may reach it.
    pub(crate) fn may_be_reached(&self, address: IpAddr) -> bool {
        // An IPv4 address that is written as an IPv6 one is that address.
        let address = address.to_canonical();
        is_public(address) || self.0.iter().any(|network| network.contains(&address))
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !SPECIAL_V4
            .iter()
            .any(|(network, bits)| (address.to_bits() ^ network.to_bits()) >> (32 - bits) == 0),
        IpAddr::V6(address) => {
            address.to_bits() >> 125 == 0b001
                && !SPECIAL_V6
                    .iter()
                    .any(|(network, bits)| (address.to_bits() ^ network.to_bits()) >> (128 - bits) == 0)
        }
    }
}

#[cfg(test)]
mod tests;
