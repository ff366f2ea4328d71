#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use mfaas_ident::NodeName;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{Authority, AuthorityError, ServerName, certify_server, init, names_in, take_over};

const FILES: [&str; 4] = ["ca.pem", "ca.key", "server.pem", "server.key"];

#[test]
fn init_makes_private_files_once_and_never_again() {
    let dir = tempfile::tempdir().unwrap();
    let none = BTreeSet::new();
    assert!(init(dir.path()).unwrap() && certify_server(dir.path(), dir.path(), &none).unwrap());
    let before: Vec<_> = FILES.iter().map(|name| std::fs::read(dir.path().join(name)).unwrap()).collect();
    for name in FILES {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(!init(dir.path()).unwrap() && !certify_server(dir.path(), dir.path(), &none).unwrap());
    let after: Vec<_> = FILES.iter().map(|name| std::fs::read(dir.path().join(name)).unwrap()).collect();
    assert_eq!(before, after);
    std::fs::remove_file(dir.path().join("ca.key")).unwrap();
    assert!(matches!(init(dir.path()), Err(AuthorityError::Incomplete { missing: "ca.key", .. })));
}

#[test]
fn a_node_gets_its_own_name_and_client_purpose_whatever_it_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    init(dir.path()).unwrap();
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
    init(dir.path()).unwrap();
    let init = |dir: &std::path::Path, names: &_| certify_server(dir, dir, names);
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

#[test]
fn a_renewal_is_for_the_name_and_the_key_of_the_certificate_that_is_shown() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    init(dir.path()).unwrap();
    init(other.path()).unwrap();
    let (authority, stranger) =
        (Authority::load(dir.path()).unwrap(), Authority::load(other.path()).unwrap());
    let (node, key) = (NodeName::parse("node-1").unwrap(), KeyPair::generate().unwrap());
    let request = |key: &KeyPair| CertificateParams::default().serialize_request(key).unwrap().pem().unwrap();
    let csr = request(&key);
    let der = |pem: &str| x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap().1.contents;
    let shown = der(&authority.sign_node(&node, &csr).unwrap().pem);
    let renewed = authority.renew_node(&node, &shown, &csr).unwrap();
    assert_eq!(renewed.key_sha256, authority.sign_node(&node, &csr).unwrap().key_sha256);
    let refused = |node: &NodeName, shown: &[u8], csr: &str| {
        matches!(authority.renew_node(node, shown, csr), Err(AuthorityError::Shown))
    };
    assert!(refused(&node, &shown, &request(&KeyPair::generate().unwrap())), "another key");
    assert!(refused(&NodeName::parse("node-2").unwrap(), &shown, &csr), "another name");
    let foreign = der(&stranger.sign_node(&node, &csr).unwrap().pem);
    assert!(refused(&node, &foreign, &csr), "of another authority");
    assert!(refused(&node, b"nothing", &csr), "no certificate");
    assert!(refused(&node, &[&shown[..], b"0"].concat(), &csr), "something after it");
    // The server's own certificate is of the authority too.
    certify_server(dir.path(), dir.path(), &BTreeSet::new()).unwrap();
    let server = KeyPair::from_pem(&std::fs::read_to_string(dir.path().join("server.key")).unwrap()).unwrap();
    let shown = der(&std::fs::read_to_string(dir.path().join("server.pem")).unwrap());
    assert!(refused(&NodeName::parse("mfaas-server").unwrap(), &shown, &request(&server)), "a server's");
}

#[test]
fn the_authority_of_a_server_of_release_0_2_is_taken_over_and_servers_get_no_key_of_it() {
    let [old, ca, new, other] = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let none = BTreeSet::new();
    // As that release has made it.
    init(old.path()).unwrap();
    certify_server(old.path(), old.path(), &none).unwrap();
    assert!(take_over(old.path(), ca.path()).unwrap());
    assert!(!take_over(old.path(), ca.path()).unwrap(), "repeatable");
    assert!(old.path().join("ca.key").exists(), "servers of that release need it until they are gone");
    let same = |name: &str| {
        std::fs::read(old.path().join(name)).unwrap() == std::fs::read(ca.path().join(name)).unwrap()
    };
    assert!(same("ca.pem") && same("ca.key"));
    assert!(!certify_server(ca.path(), old.path(), &none).unwrap(), "its server keeps its certificate");
    assert!(certify_server(ca.path(), new.path(), &none).unwrap());
    assert!(!new.path().join("ca.key").exists());
    init(other.path()).unwrap();
    assert!(matches!(take_over(old.path(), other.path()), Err(AuthorityError::Another { .. })));
    let certified = certify_server(other.path(), new.path(), &none);
    assert!(matches!(certified, Err(AuthorityError::Another { .. })), "{certified:?}");
}
