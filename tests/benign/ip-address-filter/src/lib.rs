//! Which network does an address belong to? Nothing is connected to: addresses are only values.
use std::net::{IpAddr, SocketAddr};

#[derive(Debug, Clone, Copy)]
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let (address, bits): (IpAddr, u32) = (address.parse().ok()?, bits.parse().ok()?);
        let width = if address.is_ipv4() { 32 } else { 128 };
        (bits <= width).then_some(Self { address, bits })
    }

    fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same_prefix(a.to_bits().into(), b.to_bits().into(), 32, self.bits),
            (IpAddr::V6(a), IpAddr::V6(b)) => same_prefix(a.to_bits(), b.to_bits(), 128, self.bits),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

fn same_prefix(a: u128, b: u128, width: u32, bits: u32) -> bool {
    (a ^ b).checked_shr(width - bits).unwrap_or(0) == 0
}

fn kind(address: IpAddr) -> &'static str {
    match address {
        _ if address.is_loopback() => "loopback",
        IpAddr::V4(v4) if v4.is_private() => "private",
        IpAddr::V4(v4) if v4.is_broadcast() => "broadcast",
        IpAddr::V6(v6) if v6.segments()[..2] == [0x2001, 0xdb8] => "documentation",
        _ if address.is_multicast() => "multicast",
        _ => "global",
    }
}

/// An address with or without a port.
fn address(text: &str) -> Option<(IpAddr, Option<u16>)> {
    let socket = || text.parse::<SocketAddr>().map(|socket| (socket.ip(), Some(socket.port())));
    text.parse().map(|ip| (ip, None)).or_else(|_| socket()).ok()
}

fn answer(text: &str) -> Result<String, String> {
    let (networks, addresses) = text.split_once(" ? ").ok_or("NETWORK… ? ADDRESS…")?;
    let networks = networks
        .split(' ')
        .map(|text| Network::parse(text).map(|network| (text, network)).ok_or(format!("no network: {text}")))
        .collect::<Result<Vec<_>, _>>()?;
    addresses.split(' ').map(|text| {
        let (ip, port) = address(text).ok_or_else(|| format!("no address: {text}"))?;
        let port = port.map(|port| format!(" port {port}")).unwrap_or_default();
        let found = networks.iter().find(|(_, network)| network.contains(ip)).map_or("none", |(text, _)| text);
        Ok(format!("{ip}{port} in {found}, {}\n", kind(ip)))
    }).collect()
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error + "\n").into_bytes()
}
