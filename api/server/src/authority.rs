//! The private certificate authority: made once by `init`, trusted by nobody but our own nodes.
//!
//! It signs the server's certificate for the node listener and, against a join token, the nodes'
//! client certificates. What a node asks for beyond its public key is ignored: name, purpose and
//! life are set here. Key files are made with mode 0600 and never overwritten.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use chrono::Datelike as _;
use mfaas_ident::{Digest, NodeName};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::limits;

/// Why the authority could not do something.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Some files of the authority exist and others do not; guessing would make a second one.
    #[error("{} is incomplete: `{missing}` is missing; restore it, or remove the directory and join all nodes again", dir.display())]
    Incomplete {
        /// The directory.
        dir: PathBuf,
        /// What is missing.
        missing: &'static str,
    },
    /// A certificate request of a node is not one.
    #[error("the certificate request cannot be used: {0}")]
    Request(#[source] rcgen::Error),
    /// Making or reading a certificate or key failed.
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
}

const CA_CERTIFICATE: &str = "ca.pem";
const CA_KEY: &str = "ca.key";
const SERVER_CERTIFICATE: &str = "server.pem";
const SERVER_KEY: &str = "server.key";
const FILES: [&str; 4] = [CA_CERTIFICATE, CA_KEY, SERVER_CERTIFICATE, SERVER_KEY];

/// How long the authority and the server's certificate are good for, in days.
const AUTHORITY_DAYS: u64 = 3_650;

/// The authority, loaded.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate, PEM.
    pub ca_pem: String,
    /// The server's certificate, PEM.
    pub server_pem: String,
    /// The server's private key, PEM.
    pub server_key_pem: String,
}

/// A certificate for a node.
pub(crate) struct NodeCertificate {
    /// What the node gets.
    pub pem: String,
    /// SHA-256 of the DER, by which the node is found later.
    pub sha256: Digest,
}

/// Makes the authority and the server's certificate in `dir`, unless they are there already.
/// Says whether it made them.
pub fn init(dir: &Path) -> Result<bool, AuthorityError> {
    std::fs::create_dir_all(dir).map_err(|source| file_error(dir, source))?;
    match FILES.iter().filter(|name| dir.join(name).exists()).count() {
        0 => create(dir).map(|()| true),
        4 => Authority::load(dir).map(|_| false),
        _ => Err(incomplete(dir)),
    }
}

fn create(dir: &Path) -> Result<(), AuthorityError> {
    let ca_key = KeyPair::generate()?;
    let ca_params = authority_params();
    let ca = ca_params.self_signed(&ca_key)?;
    let issuer = Issuer::from_params(&ca_params, &ca_key);
    let server_key = KeyPair::generate()?;
    let server = server_params()?.signed_by(&server_key, &issuer)?;
    write_new(&dir.join(CA_KEY), &ca_key.serialize_pem())?;
    write_new(&dir.join(CA_CERTIFICATE), &ca.pem())?;
    write_new(&dir.join(SERVER_KEY), &server_key.serialize_pem())?;
    write_new(&dir.join(SERVER_CERTIFICATE), &server.pem())
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("mfaas private authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, AUTHORITY_DAYS);
    params
}

fn server_params() -> Result<CertificateParams, AuthorityError> {
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = named("mfaas-server");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    set_validity(&mut params, AUTHORITY_DAYS);
    Ok(params)
}

impl Authority {
    /// Reads the authority from `dir`.
    pub(crate) fn load(dir: &Path) -> Result<Self, AuthorityError> {
        if FILES.iter().any(|name| !dir.join(name).exists()) {
            return Err(incomplete(dir));
        }
        let key = KeyPair::from_pem(&read(&dir.join(CA_KEY))?)?;
        let ca_pem = read(&dir.join(CA_CERTIFICATE))?;
        Ok(Self {
            issuer: Issuer::from_ca_cert_pem(&ca_pem, key)?,
            ca_pem,
            server_pem: read(&dir.join(SERVER_CERTIFICATE))?,
            server_key_pem: read(&dir.join(SERVER_KEY))?,
        })
    }

    /// A client certificate for `node` over the public key of the request. The request's own
    /// signature proves that the asker holds the key; its names and extensions are dropped.
    pub(crate) fn sign_node(
        &self,
        node: &NodeName,
        csr_pem: &str,
    ) -> Result<NodeCertificate, AuthorityError> {
        let request = CertificateSigningRequestParams::from_pem(csr_pem).map_err(AuthorityError::Request)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(node.as_str());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        set_validity(&mut params, limits::NODE_CERTIFICATE_DAYS);
        let certificate = params.signed_by(&request.public_key, &self.issuer)?;
        Ok(NodeCertificate { sha256: Digest::of(certificate.der()), pem: certificate.pem() })
    }
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Valid from yesterday, so that a clock that is a little behind still accepts it.
fn set_validity(params: &mut CertificateParams, days: u64) {
    let date = |at: chrono::DateTime<chrono::Utc>| {
        // Month and day of a date are at most 31.
        rcgen::date_time_ymd(at.year(), at.month() as u8, at.day() as u8)
    };
    let now = chrono::Utc::now();
    params.not_before = date(now - chrono::Days::new(1));
    params.not_after = date(now + chrono::Days::new(days));
}

fn read(path: &Path) -> Result<String, AuthorityError> {
    std::fs::read_to_string(path).map_err(|source| file_error(path, source))
}

/// Writes a file that only its owner can read; an existing file is an error, not overwritten.
fn write_new(path: &Path, text: &str) -> Result<(), AuthorityError> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|source| file_error(path, source))
}

fn file_error(path: &Path, source: std::io::Error) -> AuthorityError {
    AuthorityError::File { path: path.to_owned(), source }
}

fn incomplete(dir: &Path) -> AuthorityError {
    let missing = FILES.into_iter().find(|name| !dir.join(name).exists()).unwrap_or(CA_CERTIFICATE);
    AuthorityError::Incomplete { dir: dir.to_owned(), missing }
}

#[cfg(test)]
mod tests;
