//! The private certificate authority: made once by `init`, trusted by nobody but our own nodes.
//!
//! It signs the server's certificate for the node listener and, against a join token, the nodes'
//! client certificates. What a node asks for beyond its public key is ignored: name, purpose and
//! life are set here. Key files are made with mode 0600 and never overwritten.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use chrono::Datelike as _;
use mfaas_ident::{Digest, NodeName};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::certificate::CertificateFiles;
use crate::limits;

/// A name under which nodes and people reach the server: a host's DNS name, or an IP address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerName(String);

impl FromStr for ServerName {
    type Err = &'static str;

    /// A DNS name in lower case, its first label may be `*`, or an address without brackets and port.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return if address.is_unspecified() {
                Err("0.0.0.0 and :: name no machine: give an address that it is reached at")
            } else {
                Ok(Self(address.to_string()))
            };
        }
        let name = text.to_ascii_lowercase();
        let is_plain = |label: &str| {
            let ends = [label.chars().next(), label.chars().next_back()];
            let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            label.len() <= 63 && label.chars().all(inside) && !ends.contains(&Some('-')) && !label.is_empty()
        };
        let labels = name.strip_prefix("*.").unwrap_or(&name);
        // A last label of digits alone is an address that is not one (RFC 1123 2.1).
        let is_host =
            labels.split('.').next_back().is_some_and(|last| last.contains(|c: char| !c.is_ascii_digit()));
        if name.len() <= 253 && is_host && labels.split('.').all(is_plain) {
            return Ok(Self(name));
        }
        Err("expected a DNS name such as mfaas.example, or an IP address, without a port")
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
    /// The server's certificate is not one that was made here.
    #[error("{}: is no certificate that `mfaas-server init` has made; restore it", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
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
/// What the server's certificate always names: this machine for itself.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const FILES: [&str; 4] = [CA_CERTIFICATE, CA_KEY, SERVER_CERTIFICATE, SERVER_KEY];

/// How long the authority and the server's certificate are good for, in days.
const AUTHORITY_DAYS: u64 = 3_650;

/// The authority, loaded.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate, PEM.
    pub ca_pem: String,
}

/// A certificate for a node.
pub(crate) struct NodeCertificate {
    /// What the node gets.
    pub pem: String,
    /// SHA-256 of the DER, by which the node is found later.
    pub sha256: Digest,
    /// SHA-256 of the public key (SubjectPublicKeyInfo, DER).
    pub key_sha256: Digest,
}

/// The server's certificate that the authority in `dir` has made, and its key.
pub fn server_files(dir: &Path) -> CertificateFiles {
    CertificateFiles { certificate: dir.join(SERVER_CERTIFICATE), key: dir.join(SERVER_KEY) }
}

/// Makes the authority and the server's certificate in `dir`, unless they are there already. The certificate names this
/// machine for itself and what `names` says, hosts and IP addresses; one that is there and names something else is made
/// anew, over the key that it has. No names leave one that is there as it is. Says whether it made any.
pub fn init(dir: &Path, names: &BTreeSet<ServerName>) -> Result<bool, AuthorityError> {
    std::fs::create_dir_all(dir).map_err(|source| file_error(dir, source))?;
    match FILES.iter().filter(|name| dir.join(name).exists()).count() {
        0 => create(dir, names).map(|()| true),
        4 => name_server(dir, names),
        _ => Err(incomplete(dir)),
    }
}

/// Makes the server's certificate anew if it does not have exactly these names.
fn name_server(dir: &Path, names: &BTreeSet<ServerName>) -> Result<bool, AuthorityError> {
    let authority = Authority::load(dir)?;
    if names.is_empty() {
        return Ok(false);
    }
    let path = dir.join(SERVER_CERTIFICATE);
    let wanted = server_params(names)?;
    let present = names_in(&path, &read(&path)?)?;
    if present == wanted.subject_alt_names.iter().map(shown).collect() {
        return Ok(false);
    }
    let key = KeyPair::from_pem(&read(&dir.join(SERVER_KEY))?)?;
    let certificate = wanted.signed_by(&key, &authority.issuer)?;
    // Whoever reads it meanwhile reads the one before or this one.
    let draft = dir.join("server.pem.new");
    match std::fs::remove_file(&draft) {
        Err(source) if source.kind() != ErrorKind::NotFound => return Err(file_error(&draft, source)),
        Ok(()) | Err(_) => {}
    }
    write_new(&draft, &certificate.pem())?;
    std::fs::rename(&draft, &path).map_err(|source| file_error(&path, source))?;
    Ok(true)
}

/// The names in a certificate, as [`shown`] shows them.
fn names_in(path: &Path, pem: &str) -> Result<BTreeSet<String>, AuthorityError> {
    let damaged = || AuthorityError::Damaged { path: path.to_owned() };
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|_| damaged())?;
    let (_, certificate) = X509Certificate::from_der(&pem.contents).map_err(|_| damaged())?;
    let names = certificate.subject_alternative_name().map_err(|_| damaged())?;
    let names = names.iter().flat_map(|extension| &extension.value.general_names);
    names
        .map(|name| match name {
            GeneralName::DNSName(name) => Ok((*name).to_owned()),
            GeneralName::IPAddress(bytes) => octets(bytes).map(|ip| ip.to_string()).ok_or_else(damaged),
            _ => Err(damaged()),
        })
        .collect()
}

fn octets(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// A name as it is typed.
fn shown(name: &SanType) -> String {
    match name {
        SanType::IpAddress(address) => address.to_string(),
        SanType::DnsName(name) => name.as_str().to_owned(),
        other => format!("{other:?}"),
    }
}

fn create(dir: &Path, names: &BTreeSet<ServerName>) -> Result<(), AuthorityError> {
    let ca_key = KeyPair::generate()?;
    let ca_params = authority_params();
    let ca = ca_params.self_signed(&ca_key)?;
    let issuer = Issuer::from_params(&ca_params, &ca_key);
    let server_key = KeyPair::generate()?;
    let server = server_params(names)?.signed_by(&server_key, &issuer)?;
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

fn server_params(names: &BTreeSet<ServerName>) -> Result<CertificateParams, AuthorityError> {
    let ours = LOOPBACK_NAMES.map(str::to_owned).into_iter();
    let names: BTreeSet<String> = ours.chain(names.iter().map(ToString::to_string)).collect();
    let mut params = CertificateParams::new(names.into_iter().collect::<Vec<_>>())?;
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
        Ok(Self { issuer: Issuer::from_ca_cert_pem(&ca_pem, key)?, ca_pem })
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
        Ok(NodeCertificate {
            sha256: Digest::of(certificate.der()),
            key_sha256: Digest::of(&request.public_key.subject_public_key_info()),
            pem: certificate.pem(),
        })
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
