#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::{DateTime, Duration, Utc};
use mfaas_attest::{KeyList, ListedKey, PrivateKey, Purpose, TrustedRoot, sign};
use mfaas_ident::{FunctionName, VersionNumber};

use super::{Failure, prove};

/// A root key and a key list that it signed for `online`.
fn world() -> (PrivateKey, PrivateKey, Vec<u8>) {
    let (root, online) = (PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap());
    let issued_at: DateTime<Utc> = Utc::now();
    let list = KeyList {
        version: 1,
        issued_at,
        expires_at: None,
        root: None,
        keys: vec![ListedKey {
            keyid: online.public().id(),
            public: online.public(),
            purpose: Purpose::Artifact,
            not_after: issued_at + Duration::days(1),
        }],
    };
    let bytes = sign(&list, &[&root]).unwrap();
    (root, online, bytes)
}

fn unverified(result: Result<super::Proof, Failure>) -> String {
    match result {
        Err(Failure::Unverified(reason)) => reason,
        Err(other) => panic!("another failure: {other}"),
        Ok(proof) => panic!("{proof:?} was believed"),
    }
}

#[test]
fn another_root_a_flipped_byte_or_a_list_as_a_statement_prove_nothing() {
    let (root, _, list) = world();
    let pinned = TrustedRoot::of_key(root.public());
    let listed = pinned.follow(&list).unwrap();
    let wanted = (FunctionName::parse("hello").unwrap(), VersionNumber::FIRST);

    let (other_root, _, _) = world();
    let reason = TrustedRoot::of_key(other_root.public()).follow(&list).unwrap_err().to_string();
    assert!(reason.contains("root"), "{reason}");
    for index in [10, list.len() / 2, list.len() - 10] {
        let mut flipped = list.clone();
        flipped[index] ^= 1;
        assert!(pinned.follow(&flipped).is_err());
    }

    let reason = unverified(prove(&listed, b"so", &list, Some(&wanted)));
    assert!(reason.contains("envelope holds"), "{reason}");
}
