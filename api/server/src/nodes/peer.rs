//! Who is at the other end of a connection, and the TLS that proves it.

use std::sync::Arc;

use mfaas_ident::Digest;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::certificate::{ServerCertificate, TlsError, protocols};

/// The other end of a connection on the node listener.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// The certificate that it proved to hold; none for a node that is about to join.
    pub certificate: Option<PeerCertificate>,
}

/// A certificate that our authority signed and the peer holds the key of.
#[derive(Debug, Clone)]
pub(crate) struct PeerCertificate {
    /// The DER.
    pub der: Vec<u8>,
    /// SHA-256 of the DER.
    pub sha256: Digest,
    /// The one common name of its subject; none when there are several, or none.
    pub common_name: Option<String>,
}

impl Peer {
    /// The peer of a connection whose handshake is done.
    pub(crate) fn of(connection: &ServerConnection) -> Self {
        let leaf = connection.peer_certificates().and_then(<[_]>::first);
        Self { certificate: leaf.map(|der| peer_certificate(der)) }
    }
}

fn peer_certificate(der: &CertificateDer<'_>) -> PeerCertificate {
    PeerCertificate { der: der.to_vec(), sha256: Digest::of(der), common_name: common_name(der) }
}

fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    names.next().is_none().then_some(name)
}

/// TLS that shows the server's certificate and takes a client's if our authority signed it. No
/// certificate is taken too, for `join`; a certificate of somebody else breaks the handshake.
pub(crate) fn acceptor(ca_pem: &str, certificate: &Arc<ServerCertificate>) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate?)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::clone(certificate) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = protocols();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
