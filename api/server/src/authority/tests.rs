#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::os::unix::fs::PermissionsExt as _;

use mfaas_ident::NodeName;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{Authority, AuthorityError, FILES, init};

#[test]
fn init_makes_private_files_once_and_never_again() {
    let dir = tempfile::tempdir().unwrap();
    assert!(init(dir.path()).unwrap());
    let before: Vec<_> = FILES.iter().map(|name| std::fs::read(dir.path().join(name)).unwrap()).collect();
    for name in FILES {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(!init(dir.path()).unwrap());
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
