#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::Client;

#[test]
fn a_token_never_travels_in_the_clear_to_another_machine() {
    // The provider is process-wide; a second install by another test is no error.
    let _ = rustls::crypto::ring::default_provider().install_default();
    for good in ["http://127.0.0.1:7700", "http://localhost:1", "http://[::1]:1", "https://mfaas.example"] {
        assert!(Client::new(good, None, None).is_ok(), "{good}");
    }
    for bad in ["http://mfaas.example", "http://127.0.0.1.example", "ftp://127.0.0.1", "127.0.0.1:7700", ""] {
        assert!(Client::new(bad, None, None).is_err(), "{bad}");
    }
}

#[test]
fn a_tenant_becomes_part_of_every_address() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::new("http://127.0.0.1:7700", None, Some("acme".to_owned())).unwrap();
    assert_eq!(
        client.url("/v1/functions").unwrap().as_str(),
        "http://127.0.0.1:7700/v1/functions?tenant=acme"
    );
    assert_eq!(client.url("/v1/x?after=3").unwrap().query(), Some("after=3&tenant=acme"));
}
