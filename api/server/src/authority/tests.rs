#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use mfaas_ident::NodeName;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{Authority, AuthorityError, FILES, ServerName, init, names_in};

#[test]
fn init_makes_private_files_once_and_never_again() {
    let dir = tempfile::tempdir().unwrap();
    assert!(init(dir.path(), &BTreeSet::new()).unwrap());
    let before: Vec<_> = FILES.iter().map(|name| std::fs::read(dir.path().join(name)).unwrap()).collect();
    for name in FILES {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(!init(dir.path(), &BTreeSet::new()).unwrap());
    let after: Vec<_> = FILES.iter().map(|name| std::fs::read(dir.path().join(name)).unwrap()).collect();
    assert_eq!(before, after);
    std::fs::remove_file(dir.path().join("ca.key")).unwrap();
    assert!(matches!(
        init(dir.path(), &BTreeSet::new()),
        Err(AuthorityError::Incomplete { missing: "ca.key", .. })
    ));
}

#[test]
fn a_node_gets_its_own_name_and_client_purpose_whatever_it_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    init(dir.path(), &BTreeSet::new()).unwrap();
    let authority = Authority::load(dir.path()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.distinguished_name.push(DnType::CommonName, "someone-else");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let csr = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let signed = authority.sign_node(&NodeName::parse("node-1").unwrap(), &csr).unwrap();
    let (_, parsed) = x509_parser::pem::parse_x509_pem(signed.pem.as_bytes()).unwrap();
    assert_eq!(mfaas_ident::Digest::of(&parsed.contents), signed.sha256);
    let (_, certificate) = X509Certificate::from_der(&parsed.contents).unwrap();
    let names: Vec<_> = certificate.subject().iter_common_name().map(|cn| cn.as_str().unwrap()).collect();
    assert_eq!(names, ["node-1"]);
    let purpose = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(purpose.client_auth && !purpose.server_auth);
    assert!(certificate.subject_alternative_name().unwrap().is_none());
    assert!(matches!(
        authority.sign_node(&NodeName::parse("node-1").unwrap(), "not a request"),
        Err(AuthorityError::Request(_))
    ));
}

#[test]
fn the_server_has_the_names_that_were_said_last_and_its_key_stays() {
    let dir = tempfile::tempdir().unwrap();
    let said =
        |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<BTreeSet<ServerName>>();
    let path = dir.path().join("server.pem");
    let named = || names_in(&path, &std::fs::read_to_string(&path).unwrap()).unwrap();
    let with_ours = |names: &[&str]| -> BTreeSet<String> {
        ["localhost", "127.0.0.1", "::1"].iter().chain(names).map(|name| (*name).to_owned()).collect()
    };
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert!(init(dir.path(), &said(&["MFAAS.example", "10.0.0.5"])).unwrap());
    assert_eq!(named(), with_ours(&["mfaas.example", "10.0.0.5"]));
    let (key, authority, before) = (read("server.key"), read("ca.pem"), read("server.pem"));
    assert!(!init(dir.path(), &said(&[])).unwrap(), "without names it stays as it is");
    assert!(!init(dir.path(), &said(&["10.0.0.5", "mfaas.example"])).unwrap(), "it has these names");
    assert_eq!(read("server.pem"), before);
    // What a crash has left is in nobody's way.
    std::fs::write(dir.path().join("server.pem.new"), "half").unwrap();
    assert!(init(dir.path(), &said(&["*.mfaas.example", "fd00::5"])).unwrap());
    assert_eq!(named(), with_ours(&["*.mfaas.example", "fd00::5"]));
    assert_eq!((read("server.key"), read("ca.pem")), (key, authority));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_name_of_the_server_is_a_host_or_an_address() {
    for name in ["mfaas.example", "*.mfaas.example", "localhost", "10.0.0.5", "fd00::5", "a-b.1c"] {
        assert_eq!(name.parse::<ServerName>().unwrap().to_string(), name);
    }
    let long = "a".repeat(64);
    for name in [
        "",
        ".",
        "a..b",
        "-a",
        "a-",
        "a_b",
        "mfaas.example:7701",
        "https://mfaas.example",
        "[::1]",
        "0.0.0.0",
        "::",
        "10.0.0.256",
        "a.*",
        "**.a",
        "*",
        "\u{e4}.example",
        "a b",
        &long,
    ] {
        assert!(name.parse::<ServerName>().is_err(), "{name}");
    }
}
