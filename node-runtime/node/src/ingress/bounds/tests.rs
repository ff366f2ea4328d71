#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::PeerKey;

use super::*;

fn read(variables: &[(&'static str, &str)]) -> Result<Bounds, VariableError> {
    Bounds::read(&variables.iter().copied().collect())
}

#[test]
fn what_is_not_said_is_the_nodes_own() {
    assert_eq!(read(&[]).unwrap(), Bounds::node());
    let few = read(&[("MFAAS_INGRESS_CONNECTIONS", "100")]).unwrap();
    assert_eq!((few.connections_max, few.peer_connections_max), (100, 100));
    let proxied = read(&[("MFAAS_INGRESS_PROXIES", "::ffff:10.0.0.1, 2001:db8::1")]).unwrap();
    assert_eq!(proxied.proxies, ["10.0.0.1", "2001:db8::1"].map(|text| text.parse().unwrap()).into());
}

#[test]
fn nothing_means_no_bound() {
    for (variable, value) in [
        ("MFAAS_INGRESS_CONNECTIONS", "0"),
        ("MFAAS_INGRESS_CONNECTIONS", "65537"),
        ("MFAAS_INGRESS_CONNECTIONS", "many"),
        ("MFAAS_INGRESS_PEER_CONNECTIONS", "4097"),
        ("MFAAS_INGRESS_PROXIES", "10.0.0.0/8"),
    ] {
        let error = read(&[(variable, value)]).unwrap_err().to_string();
        assert!(error.starts_with(variable), "{error}");
    }
}

#[test]
fn one_peer_alone_cannot_use_up_what_all_share() {
    let bounds = Bounds::node();
    assert!(bounds.peer_connections_max < bounds.connections_max);
    assert!(bounds.peer_requests_max < bounds.requests_max);
    assert!(bounds.peer_body_bytes_max < bounds.body_bytes_max);
    assert!(bounds.peer_bulk_body_bytes_max < bounds.bulk_body_bytes_max);
}

#[test]
fn a_peer_is_an_address_or_a_64() {
    let same =
        |one: &str, other: &str| PeerKey::of(one.parse().unwrap()) == PeerKey::of(other.parse().unwrap());
    assert!(same("192.0.2.1", "::ffff:192.0.2.1"));
    assert!(!same("192.0.2.1", "192.0.2.2"));
    assert!(same("2001:db8:0:1::1", "2001:db8:0:1:ffff::2"));
    assert!(!same("2001:db8:0:1::1", "2001:db8:0:2::1"));
}
