//! The certificate that the server shows on both of its listeners, read from two files: those of the private authority, or
//! others that somebody else renews (cert-manager, an ACME client). They are looked at again and again, so that a renewed
//! pair is shown from the next handshake on.
//!
//! Must never show a pair that does not fit together: until there is one that does, the last one that did is shown.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use mfaas_ident::Digest;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::{limits, metrics};

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{}: {reason}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate and key do not fit together, or TLS cannot use them.
    #[error("the server's certificate: {0}")]
    Rustls(#[from] rustls::Error),
    /// The authority's certificate is no root.
    #[error("the authority's certificate: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// The authority's certificate is no PEM.
    #[error("the authority's certificate: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
}

/// Where certificate and key lie, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and after it those that it hangs on.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// Both files as they are now.
    fn read(&self) -> Result<Pair, TlsError> {
        Ok(Pair { certificate_pem: read(&self.certificate)?, key_pem: read(&self.key)? })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let bytes_max = limits::CERTIFICATE_FILE_BYTES_MAX;
    std::fs::File::open(path)
        .and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes))
        .map_err(|source| TlsError::File { path: path.to_owned(), source })?;
    if bytes.len() as u64 > bytes_max {
        return Err(content(path, format!("is larger than {bytes_max} bytes")));
    }
    Ok(bytes)
}

fn content(path: &Path, reason: String) -> TlsError {
    TlsError::Content { path: path.to_owned(), reason }
}

/// What was read. Not printable: half of it is a private key.
struct Pair {
    certificate_pem: Vec<u8>,
    key_pem: Vec<u8>,
}

impl Pair {
    fn digest(&self) -> Digest {
        let parts = [Digest::of(&self.certificate_pem), Digest::of(&self.key_pem)];
        Digest::of(parts.map(|part| part.to_string()).concat().as_bytes())
    }

    /// The pair, and until when its certificate is good in seconds since 1970.
    fn parse(&self, files: &CertificateFiles) -> Result<(CertifiedKey, i64), TlsError> {
        let chain = CertificateDer::pem_slice_iter(&self.certificate_pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| content(&files.certificate, error.to_string()))?;
        let Some(leaf) = chain.first() else {
            return Err(content(&files.certificate, "holds no certificate in PEM".to_owned()));
        };
        let (_, parsed) = X509Certificate::from_der(leaf)
            .map_err(|error| content(&files.certificate, error.to_string()))?;
        let ends_at = parsed.validity().not_after.timestamp();
        let key = PrivateKeyDer::from_pem_slice(&self.key_pem)
            .map_err(|error| content(&files.key, error.to_string()))?;
        let provider = rustls::crypto::ring::default_provider();
        Ok((CertifiedKey::from_der(chain, key, &provider)?, ends_at))
    }
}

/// The certificate that is shown now.
#[derive(Debug)]
pub(crate) struct ServerCertificate {
    files: CertificateFiles,
    shown: RwLock<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl ServerCertificate {
    /// Reads the files for the first time; says what is there too.
    pub(crate) fn load(files: CertificateFiles) -> Result<(Arc<Self>, Digest), TlsError> {
        let pair = files.read()?;
        let (key, ends_at) = pair.parse(&files)?;
        metrics::certificate_shown(ends_at);
        Ok((Arc::new(Self { files, shown: RwLock::new(Arc::new(key)) }), pair.digest()))
    }

    /// Shows what lies in the files if that is something else than `seen`, which is what it looked at last.
    fn reload(&self, seen: &mut Digest) -> Result<bool, TlsError> {
        let pair = self.files.read()?;
        let found = pair.digest();
        if found == *seen {
            return Ok(false);
        }
        // Looked at once: a pair that does not fit is complained about once.
        *seen = found;
        let (key, ends_at) = pair.parse(&self.files)?;
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
        metrics::certificate_shown(ends_at);
        Ok(true)
    }

    /// Looks at the files again and again, until the server stops.
    pub(crate) async fn watch(self: Arc<Self>, mut seen: Digest, every: Duration, stop: CancellationToken) {
        let mut unreadable = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = stop.cancelled() => return,
            }
            match self.reload(&mut seen) {
                Ok(true) => tracing::info!(
                    file = %self.files.certificate.display(), "the server shows the certificate that was renewed"
                ),
                Ok(false) => {}
                Err(TlsError::File { .. }) if unreadable => continue,
                Err(error) => {
                    unreadable = matches!(error, TlsError::File { .. });
                    tracing::error!(%error, "the renewed certificate cannot be shown; the one before is");
                    continue;
                }
            }
            unreadable = false;
        }
    }

    /// TLS for people and programs: the certificate, and nobody is asked for one.
    pub(crate) fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = protocols();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// What is spoken over TLS.
pub(crate) fn protocols() -> Vec<Vec<u8>> {
    vec![b"h2".to_vec(), b"http/1.1".to_vec()]
}
