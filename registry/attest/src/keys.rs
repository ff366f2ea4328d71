//! Ed25519 keys and what each is trusted for.
//!
//! Private keys are wiped when dropped and never printed. Signatures are checked strictly
//! (`verify_strict`: no small-order keys, no malleable encodings), so that one document has one
//! signature per key.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use mfaas_ident::Digest;
use pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _, LineEnding,
};
use rand::TryRngCore as _;
use zeroize::Zeroizing;

use crate::{AttestError, KeyId, Purpose};

/// A public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// The key's name.
    pub fn id(&self) -> KeyId {
        KeyId(Digest::of(self.0.as_bytes()))
    }

    /// 64 hexadecimal digits, as in the key list.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0.as_bytes())
    }

    /// Reads 64 hexadecimal digits; refuses small-order points.
    pub fn from_hex(text: &str) -> Result<Self, AttestError> {
        let bytes = Digest::parse(text).map_err(|e| AttestError::Key { reason: e.to_string() })?;
        let key = VerifyingKey::from_bytes(bytes.as_bytes())
            .map_err(|e| AttestError::Key { reason: e.to_string() })?;
        Self::strong(key)
    }

    /// The PEM form of the file `root.pub` (SubjectPublicKeyInfo, RFC 8410).
    pub fn to_pem(&self) -> Result<String, AttestError> {
        self.0.to_public_key_pem(LineEnding::LF).map_err(|e| AttestError::Key { reason: e.to_string() })
    }

    /// Reads the PEM form.
    pub fn from_pem(text: &str) -> Result<Self, AttestError> {
        let key = VerifyingKey::from_public_key_pem(text)
            .map_err(|e| AttestError::Key { reason: e.to_string() })?;
        Self::strong(key)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature).is_ok_and(|s| self.0.verify_strict(message, &s).is_ok())
    }

    fn strong(key: VerifyingKey) -> Result<Self, AttestError> {
        if key.is_weak() {
            return Err(AttestError::Key { reason: "a point of small order".to_owned() });
        }
        Ok(Self(key))
    }
}

impl serde::Serialize for PublicKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_hex())
    }
}

impl<'de> serde::Deserialize<'de> for PublicKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).map_err(serde::de::Error::custom)
    }
}

/// A private key; wiped from memory when dropped.
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    /// A new key from the operating system's random source.
    pub fn generate() -> Result<Self, AttestError> {
        let mut seed = Zeroizing::new([0_u8; 32]);
        rand::rngs::OsRng
            .try_fill_bytes(seed.as_mut())
            .map_err(|e| AttestError::Key { reason: format!("no random bytes: {e}") })?;
        Ok(Self(SigningKey::from_bytes(&seed)))
    }

    /// The PKCS#8 PEM form for a key file that whoever reads it can use; the text wipes itself too.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, AttestError> {
        self.0.to_pkcs8_pem(LineEnding::LF).map_err(|e| AttestError::Key { reason: e.to_string() })
    }

    /// Reads the PKCS#8 PEM form.
    pub fn from_pem(text: &str) -> Result<Self, AttestError> {
        SigningKey::from_pkcs8_pem(text).map(Self).map_err(|e| AttestError::Key { reason: e.to_string() })
    }

    /// The form for a key file that takes a passphrase to use: PKCS#8 under PBES2 (RFC 8018) with scrypt and AES-256.
    pub fn to_encrypted_pem(&self, passphrase: &[u8]) -> Result<Zeroizing<String>, AttestError> {
        self.0
            .to_pkcs8_encrypted_pem(passphrase, LineEnding::LF)
            .map_err(|e| AttestError::Key { reason: e.to_string() })
    }

    /// Reads that form. What a wrong passphrase makes of the file is not told apart from a damaged file.
    pub fn from_encrypted_pem(text: &str, passphrase: &[u8]) -> Result<Self, AttestError> {
        let key = SigningKey::from_pkcs8_encrypted_pem(text, passphrase);
        key.map(Self).map_err(|_| AttestError::Passphrase)
    }

    /// Whether the text of a key file takes a passphrase.
    pub fn is_encrypted(text: &str) -> bool {
        text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Private and public half.
    pub(crate) fn to_pair(&self) -> Zeroizing<[u8; 64]> {
        Zeroizing::new(self.0.to_keypair_bytes())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrivateKey({})", self.public().id())
    }
}

/// The keys that a verifier believes, each for its purposes. Those of a key list come from
/// [`TrustedRoot::trust`](crate::TrustedRoot::trust).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trust {
    keys: Vec<(Purpose, PublicKey)>,
}

impl Trust {
    /// Trusts one key for one purpose: for whoever checks what it has just signed itself, and for
    /// a key that came by a way that is trusted already.
    pub fn of_key(purpose: Purpose, key: PublicKey) -> Self {
        Self::of_keys(purpose, &[key])
    }

    pub(crate) fn of_keys(purpose: Purpose, keys: &[PublicKey]) -> Self {
        Self { keys: keys.iter().map(|key| (purpose, *key)).collect() }
    }

    /// Adds a key that is trusted for one purpose.
    #[must_use]
    pub fn and_key(mut self, purpose: Purpose, key: PublicKey) -> Self {
        self.keys.push((purpose, key));
        self
    }

    pub(crate) fn key(&self, purpose: Purpose, id: KeyId) -> Option<PublicKey> {
        self.keys.iter().find(|(p, key)| *p == purpose && key.id() == id).map(|(_, key)| *key)
    }
}
