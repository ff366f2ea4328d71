//! An authority of a test's own and a certificate of it.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// PEM of an authority, and of a server's certificate and key.
pub(crate) struct Certificates {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Certificates {
    /// A certificate that names `server` alone.
    pub(crate) fn of(server: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_pem = authority.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(authority, key);
        let own = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new([server.to_owned()]).unwrap().signed_by(&own, &issuer).unwrap();
        Self { authority: authority_pem, certificate: certificate.pem(), key: own.serialize_pem() }
    }
}
