#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use sha2::{Digest as _, Sha512};

use super::*;
use crate::function::sha512::digest;

#[test]
fn our_digest_is_sha_512() {
    for number in 0..200 {
        let request = request(number);
        assert_eq!(digest(&request)[..], Sha512::digest(request)[..]);
    }
}

#[test]
fn a_wrong_answer_is_noticed() {
    let (request, mut answer) = (request(3), [0; ANSWER_BYTES]);
    for kind in [Kind::EMPTY, Kind::HASH] {
        let constants = kind.constants(7);
        let bytes = work(&constants, &request, &mut answer);
        assert!(verified(&constants, &request, &answer[..bytes]).is_ok());
        assert!(verified(&kind.constants(8), &request, &answer[..bytes]).is_err(), "another function");
        assert!(verified(&constants, &super::request(4), &answer[..bytes]).is_err(), "another request");
        assert!(verified(&constants, &request, &answer[..bytes - 1]).is_err(), "cut");
        assert!(verified(&constants, &request, &[]).is_err(), "nothing");
        let glance =
            |number, id, answer: &[u8]| glanced(number, &kind.constants(id), &request, answer).is_ok();
        assert!(glance(1, 7, &answer[..bytes]) && glance(VERIFIED_EVERY, 7, &answer[..bytes]));
        assert!(!glance(1, 8, &answer[..bytes]), "another function");
        assert!(!glance(1, 7, &answer[..bytes - 1]) && !glance(1, 7, &[]), "cut");
        let mut wrong = answer;
        wrong[bytes - 1] ^= 1;
        assert!(!glance(VERIFIED_EVERY, 7, &wrong[..bytes]), "one in so many is looked at in full");
    }
}

#[test]
fn a_file_holds_its_place_for_constants_once() {
    let mut bytes = vec![7; 100];
    assert!(Base::of(bytes.clone()).is_err(), "none");
    bytes[40..48].copy_from_slice(&MAGIC.to_ne_bytes());
    let base = Base::of(bytes.clone()).unwrap();
    let patched = base.patched(&Kind::HASH.constants(5));
    assert_eq!(patched[48..64], [1u64.to_ne_bytes(), 5u64.to_ne_bytes()].concat());
    bytes[80..88].copy_from_slice(&MAGIC.to_ne_bytes());
    assert!(Base::of(bytes).is_err(), "two");
}

#[test]
fn a_busy_function_does_its_rounds() {
    let busy = Kind { kind: crate::function::BUSY, rounds: 3 };
    let (request, mut answer) = (request(1), [0; ANSWER_BYTES]);
    work(&busy.constants(0), &request, &mut answer);
    let mut turned = crate::function::fold(&request);
    for _ in 0..3 {
        turned = turned.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    assert_eq!(answer[8..16], turned.to_ne_bytes());
}

#[test]
fn what_a_killed_run_left_is_swept() {
    let directory = tempfile::tempdir().unwrap();
    let make = |name: &str| std::fs::create_dir_all(directory.path().join(name).join("inside")).unwrap();
    // No process has the largest number: the kernel gives out at most 2^22.
    let (gone, ours) = (format!("{PREFIX}{}-x", u32::MAX), format!("{PREFIX}{}-x", std::process::id()));
    for name in [&*gone, &ours, "mfaas-bench-other", "other"] {
        make(name);
    }
    sweep(directory.path());
    let left = |name: &str| directory.path().join(name).is_dir();
    assert!(!left(&gone));
    assert!(left(&ours) && left("mfaas-bench-other") && left("other"));
}
