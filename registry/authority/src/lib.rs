//! The private certificate authority of a site: made once, on the host of the signer, trusted by nobody but the site's own
//! nodes and servers.
//!
//! It signs the server's certificate and, for whoever checked that a node may have one, the nodes' client certificates. What
//! a node asks for beyond its public key is ignored: name, purpose and life are set here. Files with a key are made with mode
//! 0600 and never overwritten.

mod names;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use chrono::Datelike as _;
use mfaas_ident::{Digest, NodeName};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
};
use x509_parser::prelude::{ASN1Time, FromDer as _, GeneralName, X509Certificate};

pub use names::ServerName;

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
    /// A directory belongs to another authority.
    #[error("{} is not of the authority in {}: nothing was changed", other.display(), dir.display())]
    Another {
        /// The authority's directory.
        dir: PathBuf,
        /// What another one has made.
        other: PathBuf,
    },
    /// The server's certificate is not one that was made here.
    #[error("{}: is no certificate that `mfaas-signer certify-server` has made; restore it", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
    },
    /// The certificate that a node shows does not entitle it to this one.
    #[error("the certificate that the node shows is not one of its own, is over, or has another key")]
    Shown,
    /// A certificate request of a node is not one.
    #[error("the certificate request cannot be used: {0}")]
    Request(#[source] rcgen::Error),
    /// Making or reading a certificate or key failed.
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
}

/// The authority's certificate, in its directory and in that of each server.
pub const CA_CERTIFICATE: &str = "ca.pem";
/// Its key, in its directory alone; up to release 0.2 in that of each server.
pub const CA_KEY: &str = "ca.key";
/// The server's certificate, in that of each server.
pub const SERVER_CERTIFICATE: &str = "server.pem";
/// Its key.
pub const SERVER_KEY: &str = "server.key";
/// What the server's certificate always names: this machine for itself.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// How long the authority and the server's certificate are good for, in days.
const AUTHORITY_DAYS: u64 = 3_650;
/// How long a node's certificate is good for, in days. It is renewed from two thirds of that on.
const NODE_CERTIFICATE_DAYS: u64 = 365;

/// The authority, loaded.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    ca_pem: String,
}

/// A certificate for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCertificate {
    /// What the node gets.
    pub pem: String,
    /// SHA-256 of the DER, by which the node is found later.
    pub sha256: Digest,
    /// SHA-256 of the public key (SubjectPublicKeyInfo, DER).
    pub key_sha256: Digest,
}

/// Makes the authority in `dir` unless it is there; says whether it made it.
///
/// # Errors
/// One of its two files without the other, which a person has to restore.
pub fn init(dir: &Path) -> Result<bool, AuthorityError> {
    if is_there(dir, &[CA_CERTIFICATE, CA_KEY])? {
        return Ok(false);
    }
    let key = KeyPair::generate()?;
    let certificate = authority_params().self_signed(&key)?;
    store(dir, &certificate.pem(), &key.serialize_pem())?;
    Ok(true)
}

/// Takes over the authority that a server of release 0.2 has in its directory: copies it, unless `dir` has it already. That
/// server goes on; its key is for a person to remove, once no server of that release is left.
///
/// # Errors
/// [`AuthorityError::Another`] if `dir` has another one.
pub fn take_over(tls_dir: &Path, dir: &Path) -> Result<bool, AuthorityError> {
    let (certificate, key) = (read(&tls_dir.join(CA_CERTIFICATE))?, read(&tls_dir.join(CA_KEY))?);
    // What does not fit together is no authority.
    Issuer::from_ca_cert_pem(&certificate, KeyPair::from_pem(&key)?)?;
    if is_there(dir, &[CA_CERTIFICATE, CA_KEY])? {
        same_authority(dir, tls_dir)?;
        return Ok(false);
    }
    store(dir, &certificate, &key)?;
    Ok(true)
}

/// Makes the server's certificate in `tls_dir`, unless it is there, and puts the authority's beside it. It names this machine
/// for itself and what `names` says, hosts and IP addresses; one that is there and names something else is made anew, over the
/// key that it has. No names leave one that is there as it is. Says whether it made any.
///
/// # Errors
/// [`AuthorityError::Another`] if another authority has made what is there.
pub fn certify_server(
    dir: &Path,
    tls_dir: &Path,
    names: &BTreeSet<ServerName>,
) -> Result<bool, AuthorityError> {
    let authority = Authority::load(dir)?;
    std::fs::create_dir_all(tls_dir).map_err(|source| file_error(tls_dir, source))?;
    if tls_dir.join(CA_CERTIFICATE).exists() {
        same_authority(dir, tls_dir)?;
    } else {
        write_new(&tls_dir.join(CA_CERTIFICATE), &authority.ca_pem)?;
    }
    if is_there(tls_dir, &[SERVER_CERTIFICATE, SERVER_KEY])? {
        return name_server(&authority, tls_dir, names);
    }
    let key = KeyPair::generate()?;
    let certificate = server_params(names)?.signed_by(&key, &authority.issuer)?;
    write_new(&tls_dir.join(SERVER_KEY), &key.serialize_pem())?;
    write_new(&tls_dir.join(SERVER_CERTIFICATE), &certificate.pem())?;
    Ok(true)
}

/// Whether all of the files are there; some of them is an error.
fn is_there(dir: &Path, files: &[&'static str]) -> Result<bool, AuthorityError> {
    std::fs::create_dir_all(dir).map_err(|source| file_error(dir, source))?;
    let missing: Vec<_> = files.iter().filter(|name| !dir.join(name).exists()).collect();
    match missing.first() {
        None => Ok(true),
        Some(_) if missing.len() == files.len() => Ok(false),
        Some(missing) => Err(AuthorityError::Incomplete { dir: dir.to_owned(), missing }),
    }
}

fn store(dir: &Path, certificate: &str, key: &str) -> Result<(), AuthorityError> {
    write_new(&dir.join(CA_KEY), key)?;
    write_new(&dir.join(CA_CERTIFICATE), certificate)
}

fn same_authority(dir: &Path, other: &Path) -> Result<(), AuthorityError> {
    let certificate = |dir: &Path| read(&dir.join(CA_CERTIFICATE)).map(|pem| pem.trim().to_owned());
    if certificate(dir)? == certificate(other)? {
        return Ok(());
    }
    Err(AuthorityError::Another { dir: dir.to_owned(), other: other.join(CA_CERTIFICATE) })
}

/// Makes the server's certificate anew if it does not have exactly these names.
fn name_server(
    authority: &Authority,
    dir: &Path,
    names: &BTreeSet<ServerName>,
) -> Result<bool, AuthorityError> {
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
    ///
    /// # Errors
    /// A file that is missing, or certificate and key that do not fit together.
    pub fn load(dir: &Path) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(&read(&dir.join(CA_KEY))?)?;
        let ca_pem = read(&dir.join(CA_CERTIFICATE))?;
        Ok(Self { issuer: Issuer::from_ca_cert_pem(&ca_pem, key)?, ca_pem })
    }

    /// A client certificate for `node` over the public key of the request. The request's own
    /// signature proves that the asker holds the key; its names and extensions are dropped.
    ///
    /// # Errors
    /// [`AuthorityError::Request`] if it is no request, or not signed with the key that it names.
    pub fn sign_node(&self, node: &NodeName, csr_pem: &str) -> Result<NodeCertificate, AuthorityError> {
        let request = CertificateSigningRequestParams::from_pem(csr_pem).map_err(AuthorityError::Request)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(node.as_str());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        set_validity(&mut params, NODE_CERTIFICATE_DAYS);
        let certificate = params.signed_by(&request.public_key, &self.issuer)?;
        Ok(NodeCertificate {
            sha256: Digest::of(certificate.der()),
            key_sha256: Digest::of(&request.public_key.subject_public_key_info()),
            pem: certificate.pem(),
        })
    }
}

impl Authority {
    /// The same for a node that showed the certificate `shown` (DER): one of this authority for this node that is not over, and
    /// over the same key. Whoever passes the request on can so get nothing by it that the node does not have.
    ///
    /// # Errors
    /// [`AuthorityError::Shown`] if it is another certificate; otherwise as [`Authority::sign_node`].
    pub fn renew_node(
        &self,
        node: &NodeName,
        shown: &[u8],
        csr_pem: &str,
    ) -> Result<NodeCertificate, AuthorityError> {
        let (rest, certificate) = X509Certificate::from_der(shown).map_err(|_| AuthorityError::Shown)?;
        let (_, ca) =
            x509_parser::pem::parse_x509_pem(self.ca_pem.as_bytes()).map_err(|_| AuthorityError::Shown)?;
        let ca = ca.parse_x509().map_err(|_| AuthorityError::Shown)?;
        let mut names = certificate.subject().iter_common_name();
        let is_named = names.next().is_some_and(|name| name.as_str().is_ok_and(|name| name == node.as_str()));
        let is_for_a_client = certificate
            .extended_key_usage()
            .is_ok_and(|usage| usage.is_some_and(|usage| usage.value.client_auth));
        if !rest.is_empty()
            || certificate.verify_signature(Some(ca.public_key())).is_err()
            || !certificate.validity().is_valid_at(ASN1Time::now())
            || !is_named
            || names.next().is_some()
            || !is_for_a_client
        {
            return Err(AuthorityError::Shown);
        }
        let renewed = self.sign_node(node, csr_pem)?;
        if Digest::of(certificate.public_key().raw) != renewed.key_sha256 {
            return Err(AuthorityError::Shown);
        }
        Ok(renewed)
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

#[cfg(test)]
mod tests;
