//! Signed documents, as envelopes and as the payloads behind a good signature.

use std::fmt::Debug;
use std::sync::OnceLock;

use chrono::{DateTime, Utc};
use mfaas_attest::{
    BuildClaim, KeyList, Payload, PublicKey, Purpose, RevokedCalls, ServingSet, Shard, ShardPrefix,
    Statement, Trust, tree_of, verify,
};
use serde::{Serialize, de::DeserializeOwned};

/// A public key whose private half is nowhere (RFC 8032, section 7.1, test 1).
const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

/// The first byte says which document the rest should be.
///
/// # Panics
/// When a document that was taken does not survive being written again, or when a question about
/// it has no answer.
pub fn statement(input: &[u8]) {
    let Some((kind, body)) = input.split_first() else { return };
    match kind % 8 {
        0 => envelope::<Statement>(body),
        1 => envelope::<ServingSet>(body),
        2 => envelope::<KeyList>(body),
        3 => drop(payload::<Statement>(body)),
        4 => serving_set(body),
        5 => drop(payload::<KeyList>(body)),
        6 => drop(document::<BuildClaim>(body)),
        _ => {
            shard(body);
            revoked_calls(body);
        }
    }
}

/// Nobody can sign for the key, so nothing may be believed.
fn envelope<T: Payload + Debug>(body: &[u8]) {
    static TRUST: OnceLock<Trust> = OnceLock::new();
    let trust = TRUST.get_or_init(|| {
        let key = PublicKey::from_hex(PUBLIC).unwrap_or_else(|error| panic!("a key of RFC 8032: {error}"));
        Trust::of_key(Purpose::Root, key).and_key(Purpose::Artifact, key).and_key(Purpose::ServingSet, key)
    });
    assert!(verify::<T>(body, trust).is_err(), "believed without a signature");
}

/// What `verify` does behind the signature.
fn payload<T: Payload + PartialEq + Debug>(body: &[u8]) -> Option<T> {
    document::<T>(body).filter(|document| document.check().is_ok())
}

pub(crate) fn document<T: DeserializeOwned + Serialize + PartialEq + Debug>(body: &[u8]) -> Option<T> {
    let document: T = serde_json::from_slice(body).ok()?;
    let written = serde_json::to_vec(&document).unwrap_or_else(|error| panic!("{document:?}: {error}"));
    let again: T = serde_json::from_slice(&written).unwrap_or_else(|error| panic!("{document:?}: {error}"));
    assert_eq!(again, document);
    Some(document)
}

fn serving_set(body: &[u8]) {
    let Some(set) = payload::<ServingSet>(body) else { return };
    assert!(!set.is_expired(set.issued_at), "never valid");
    assert!(set.is_expired(set.expires_at) && set.is_expired(DateTime::<Utc>::MAX_UTC), "valid for ever");
    let _ = set.is_expired(DateTime::<Utc>::MIN_UTC);
}

/// Read as the root of a tree, by what it says it is.
fn shard(body: &[u8]) {
    let Some(shard) = document::<Shard>(body) else { return };
    let Ok((named, written)) = shard.encode() else { return };
    let place = ShardPrefix::default();
    let Ok(Shard::Leaf(functions)) = Shard::read(written.as_bytes(), &named, &place) else { return };
    let (root, _) = tree_of(functions.clone()).unwrap_or_else(|error| panic!("{functions:?}: {error}"));
    assert_eq!(root, named, "the same functions are the same tree");
    for function in &functions {
        let _ = function.resolve(None);
    }
}

fn revoked_calls(body: &[u8]) {
    let Some(revoked) = document::<RevokedCalls>(body) else { return };
    let Ok((digest, written)) = revoked.encode() else { return };
    let read = RevokedCalls::read(written.as_bytes(), &digest);
    assert_eq!(read.unwrap_or_else(|error| panic!("{written}: {error}")), revoked);
}
