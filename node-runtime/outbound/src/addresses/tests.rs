#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

fn may_be_reached(networks: &[&str], address: &str) -> bool {
    let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
    Addresses::with(networks).may_be_reached(address.parse().unwrap())
}

#[test]
fn addresses_of_the_public_internet_may_be_reached() {
    for address in [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:200::1",
        "2003::1",
        "::ffff:1.1.1.1",
    ] {
        assert!(may_be_reached(&[], address), "{address}");
    }
}

#[test]
fn other_addresses_may_not_be_reached() {
    for address in [
        "0.0.0.0",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "168.63.129.16",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "ff02::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "4000::1",
    ] {
        assert!(!may_be_reached(&[], address), "{address}");
    }
}

#[test]
fn networks_that_the_operator_names_may_be_reached_as_well() {
    let networks = ["10.1.0.0/16", "fd00:1::/32"];
    for address in ["10.1.2.3", "::ffff:10.1.2.3", "fd00:1::7", "1.1.1.1"] {
        assert!(may_be_reached(&networks, address), "{address}");
    }
    for address in ["10.2.0.1", "fd00:2::7", "127.0.0.1"] {
        assert!(!may_be_reached(&networks, address), "{address}");
    }
}
