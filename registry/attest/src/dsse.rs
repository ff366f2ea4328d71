//! DSSE envelopes: what exactly is signed, and the only way to a [`Verified`] value.
//!
//! The signature covers the pre-authentication encoding (PAE) of payload type and payload, so the
//! payload is never re-serialised before it is checked. Must never hand out a parsed payload
//! whose signature was not checked first, but as a [`Draft`], which proves nothing.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mfaas_ident::{Digest, sanitise_line};

use crate::{AttestError, KeyId, PrivateKey, Purpose, Trust};

/// Signatures in one envelope: a key list carries those of an old and of a new root. More is an attempt to make us work.
const SIGNATURES_MAX: usize = 16;

/// A document that may be signed: its type on the wire, the keys that may sign it, its size.
pub trait Payload: serde::Serialize + serde::de::DeserializeOwned {
    /// The DSSE payload type.
    const TYPE: &'static str;
    /// What a key must be good for to sign this.
    const PURPOSE: Purpose;
    /// The largest envelope that is parsed, in bytes.
    const ENVELOPE_BYTES_MAX: usize;
    /// Rules that the types cannot express; the error is a sentence.
    fn check(&self) -> Result<(), String>;
}

/// A DSSE envelope as it is stored and sent: compact JSON, payload and signatures in base64.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<Signature>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Signature {
    keyid: KeyId,
    sig: String,
}

/// A document whose signature was checked against a [`Trust`]; made by [`verify`] alone.
#[derive(Debug, Clone)]
pub struct Verified<T> {
    document: T,
    key: KeyId,
    digest: Digest,
}

impl<T> Verified<T> {
    /// The document.
    pub fn get(&self) -> &T {
        &self.document
    }

    /// Gives up the proof and keeps the document.
    pub fn into_inner(self) -> T {
        self.document
    }

    /// The key whose signature was accepted.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// SHA-256 of the envelope's bytes: the name of this very document.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl<T> std::ops::Deref for Verified<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.document
    }
}

/// Signs `document` with every key of `keys`; returns the envelope's bytes (compact JSON).
///
/// Refuses what [`verify`] would refuse: contradictions, too many or no keys, too large.
pub fn sign<T: Payload>(document: &T, keys: &[&PrivateKey]) -> Result<Vec<u8>, AttestError> {
    if keys.is_empty() || keys.len() > SIGNATURES_MAX {
        return Err(AttestError::Untrusted { purpose: T::PURPOSE });
    }
    let mut envelope = Envelope::unsigned(document)?;
    for key in keys {
        envelope.sign(key)?;
    }
    envelope.to_bytes::<T>()
}

impl Envelope {
    fn unsigned<T: Payload>(document: &T) -> Result<Self, AttestError> {
        document.check().map_err(|reason| AttestError::Inconsistent { reason })?;
        let payload = serde_json::to_vec(document).map_err(|e| malformed(&e))?;
        let payload_type = T::TYPE.to_owned();
        Ok(Self { payload: STANDARD.encode(&payload), payload_type, signatures: Vec::new() })
    }

    /// Adds a signature, in the place of an earlier one of that key.
    fn sign(&mut self, key: &PrivateKey) -> Result<(), AttestError> {
        let keyid = key.public().id();
        self.signatures.retain(|signature| signature.keyid != keyid);
        if self.signatures.len() == SIGNATURES_MAX {
            return Err(too_many_signatures(SIGNATURES_MAX + 1));
        }
        let message = pae(&self.payload_type, &decode(&self.payload)?);
        self.signatures.push(Signature { keyid, sig: STANDARD.encode(key.sign(&message)) });
        Ok(())
    }

    fn to_bytes<T: Payload>(&self) -> Result<Vec<u8>, AttestError> {
        let bytes = serde_json::to_vec(self).map_err(|e| malformed(&e))?;
        within_limit::<T>(&bytes)?;
        Ok(bytes)
    }
}

/// A document that one holder of a key after the other signs, in an envelope like any other. It proves nothing:
/// that is for [`verify`] or [`TrustedRoot::follow`](crate::TrustedRoot::follow).
#[derive(Debug)]
pub struct Draft<T> {
    document: T,
    envelope: Envelope,
}

impl<T: Payload> Draft<T> {
    /// Nobody has signed it yet.
    pub fn new(document: T) -> Result<Self, AttestError> {
        let envelope = Envelope::unsigned(&document)?;
        Ok(Self { document, envelope })
    }

    /// Reads what others may have signed already.
    pub fn read(bytes: &[u8]) -> Result<Self, AttestError> {
        let (envelope, payload) = open::<T>(bytes)?;
        let document: T = read(&payload)?;
        document.check().map_err(|reason| AttestError::Inconsistent { reason })?;
        Ok(Self { document, envelope })
    }

    /// What is to be signed.
    pub fn document(&self) -> &T {
        &self.document
    }

    /// The keys that signatures name; whether they match is not looked at.
    pub fn signed_by(&self) -> impl Iterator<Item = KeyId> + '_ {
        self.envelope.signatures.iter().map(|signature| signature.keyid)
    }

    /// Adds a signature, in the place of an earlier one of that key.
    pub fn sign(&mut self, key: &PrivateKey) -> Result<(), AttestError> {
        self.envelope.sign(key)
    }

    /// The envelope with the signatures so far (compact JSON).
    pub fn to_bytes(&self) -> Result<Vec<u8>, AttestError> {
        self.envelope.to_bytes::<T>()
    }
}

/// Checks `bytes` against the keys that `trust` holds for this kind of document.
///
/// One good signature suffices, so that an envelope can carry an old and a new key during a
/// rotation; a signature that names a trusted key and does not match is always a refusal.
/// Whether the document is expired is for the caller, who knows the time.
///
/// A key list takes more than one key where its root says so: see [`TrustedRoot`](crate::TrustedRoot).
pub fn verify<T: Payload>(bytes: &[u8], trust: &Trust) -> Result<Verified<T>, AttestError> {
    verify_counting(bytes, trust).map(|(verified, _)| verified)
}

/// The same, and how many different trusted keys signed.
pub(crate) fn verify_counting<T: Payload>(
    bytes: &[u8],
    trust: &Trust,
) -> Result<(Verified<T>, usize), AttestError> {
    let (envelope, payload) = open::<T>(bytes)?;
    let keys = check_signatures(&envelope, &pae(T::TYPE, &payload), T::PURPOSE, trust)?;
    let key = *keys.first().ok_or(AttestError::Untrusted { purpose: T::PURPOSE })?;
    let document: T = read(&payload)?;
    document.check().map_err(|reason| AttestError::Inconsistent { reason })?;
    Ok((Verified { document, key, digest: Digest::of(bytes) }, keys.len()))
}

/// Envelope and payload of a document of that kind.
fn open<T: Payload>(bytes: &[u8]) -> Result<(Envelope, Vec<u8>), AttestError> {
    within_limit::<T>(bytes)?;
    let envelope: Envelope = read(bytes)?;
    if envelope.payload_type != T::TYPE {
        return Err(AttestError::WrongType {
            found: sanitise_line(&envelope.payload_type, 120),
            expected: T::TYPE,
        });
    }
    if envelope.signatures.len() > SIGNATURES_MAX {
        return Err(too_many_signatures(envelope.signatures.len()));
    }
    let payload = decode(&envelope.payload)?;
    Ok((envelope, payload))
}

fn too_many_signatures(count: usize) -> AttestError {
    AttestError::Malformed { reason: format!("{count} signatures, the limit is {SIGNATURES_MAX}") }
}

/// The trusted keys that signed, each once; every signature by a trusted key must match.
fn check_signatures(
    envelope: &Envelope,
    message: &[u8],
    purpose: Purpose,
    trust: &Trust,
) -> Result<BTreeSet<KeyId>, AttestError> {
    let mut accepted = BTreeSet::new();
    for signature in &envelope.signatures {
        let Some(public) = trust.key(purpose, signature.keyid) else { continue };
        if !public.verifies(message, &decode(&signature.sig)?) {
            return Err(AttestError::BadSignature { key: signature.keyid });
        }
        accepted.insert(signature.keyid);
    }
    Ok(accepted)
}

/// `DSSEv1 SP len(type) SP type SP len(payload) SP payload`, lengths in decimal ASCII.
pub(crate) fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = format!("DSSEv1 {} {} {} ", payload_type.len(), payload_type, payload.len()).into_bytes();
    out.extend_from_slice(payload);
    out
}

fn within_limit<T: Payload>(bytes: &[u8]) -> Result<(), AttestError> {
    if bytes.len() > T::ENVELOPE_BYTES_MAX {
        return Err(AttestError::TooLarge { bytes: bytes.len(), bytes_max: T::ENVELOPE_BYTES_MAX });
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, AttestError> {
    serde_json::from_slice(bytes).map_err(|e| malformed(&e))
}

fn malformed(error: &serde_json::Error) -> AttestError {
    AttestError::Malformed { reason: sanitise_line(&error.to_string(), 200) }
}

fn decode(text: &str) -> Result<Vec<u8>, AttestError> {
    STANDARD.decode(text).map_err(|e| AttestError::Malformed { reason: format!("base64: {e}") })
}
