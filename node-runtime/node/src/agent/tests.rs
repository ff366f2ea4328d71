#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::VecDeque;

use chrono::{DateTime, TimeDelta};
use mfaas_attest::{
    Admission, EPOCHS_AHEAD_MAX, KeyList, PrivateKey, ServingSet, Statement, Trust, TrustedRoot, verify,
};
use mfaas_ident::{Budget, Digest, Epoch, FunctionName, TenantName, ToolchainId};
use mfaas_rules::{Code, codes};

use super::gate::{Admitted, Gate};
use super::put_first;
use super::testing::{Keys, admission, key, now, number, served, set, state};
use crate::image::{self, MachineCode};
use crate::state::{Seen, StateDir};

fn gate(keys: &Keys) -> Gate {
    let mut gate = Gate::new(keys.pin(), Seen::default());
    gate.key_list(&keys.list(1)).unwrap();
    gate
}

fn refusal(gate: &mut Gate, envelope: &[u8]) -> Code {
    gate.serving_set(envelope, now()).unwrap_err().code
}

#[test]
fn a_set_signed_by_a_listed_key_is_admitted() {
    let keys = Keys::generate();
    let mut gate = gate(&keys);
    let admitted = gate.serving_set(&keys.sign(&set(5)), now()).unwrap();
    assert!(matches!(admitted, Admitted::Valid(set) if set.epoch == Epoch(5)));
    assert_eq!(gate.seen().epoch, Epoch(5));
}

#[test]
fn no_byte_of_the_envelope_can_be_flipped() {
    let keys = Keys::generate();
    let good = keys.sign(&set(5));
    let mut gate = gate(&keys);
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(gate.serving_set(&bad, now()).is_err(), "byte {at}");
    }
    assert_eq!(gate.seen().epoch, Epoch(0), "what is refused is not seen");
}

#[test]
fn another_key_signs_nothing_here() {
    let (keys, stranger) = (Keys::generate(), Keys::generate());
    let mut gate = gate(&keys);
    assert_eq!(refusal(&mut gate, &stranger.sign(&set(5))), codes::MF0701);
    assert_eq!(gate.key_list(&stranger.list(9)).unwrap_err().code, codes::MF0701);
    let by_root = mfaas_attest::sign(&set(5), &[&keys.root]).unwrap();
    assert_eq!(refusal(&mut gate, &by_root), codes::MF0701, "the root signs lists of keys and nothing else");
    let mut unlisted = Gate::new(keys.pin(), Seen::default());
    assert_eq!(refusal(&mut unlisted, &keys.sign(&set(5))), codes::MF0701);
}

#[test]
fn a_key_past_its_time_signs_nothing() {
    let keys = Keys::generate();
    let mut gate = Gate::new(keys.pin(), Seen::default());
    gate.key_list(&keys.list_until(1, now())).unwrap();
    assert_eq!(refusal(&mut gate, &keys.sign(&set(5))), codes::MF0701);
}

#[test]
fn the_list_of_keys_does_not_go_back() {
    let keys = Keys::generate();
    let mut gate = gate(&keys);
    gate.key_list(&keys.list(4)).unwrap();
    assert_eq!(gate.key_list(&keys.list(3)).unwrap_err().code, codes::MF0702);
    assert_eq!(gate.seen().key_list_version, 4);
}

#[test]
fn a_lower_epoch_is_refused_even_after_a_restart() {
    let keys = Keys::generate();
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    let mut before = gate(&keys);
    before.serving_set(&keys.sign(&set(7)), now()).unwrap();
    state.record_seen(&before.seen()).unwrap();
    drop((before, state));

    let state = StateDir::open(home.path()).unwrap();
    let mut after = Gate::new(keys.pin(), state.seen().unwrap());
    assert_eq!(after.key_list(&keys.list(0x5f)).map_err(|e| e.code), Ok(true));
    assert_eq!(refusal(&mut after, &keys.sign(&set(6))), codes::MF0702);
    assert!(after.serving_set(&keys.sign(&set(7)), now()).is_ok(), "the same epoch is what the disk holds");
    let mut earlier = set(7);
    earlier.issued_at -= TimeDelta::minutes(1);
    assert_eq!(refusal(&mut after, &keys.sign(&earlier)), codes::MF0702, "signed before the one seen");
}

#[test]
fn a_damaged_record_of_the_epoch_stops_the_node() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    assert_eq!(state.seen().unwrap(), Seen::default());
    std::fs::write(home.path().join("seen.json"), b"{\"epoch\":").unwrap();
    assert!(state.seen().is_err());
}

#[test]
fn an_expired_set_loads_nothing_but_its_epoch_counts() {
    let keys = Keys::generate();
    let mut gate = gate(&keys);
    let mut old = set(8);
    old.issued_at = now() - TimeDelta::hours(24);
    old.expires_at = now();
    assert!(matches!(gate.serving_set(&keys.sign(&old), now()).unwrap(), Admitted::Expired(_)));
    let mut future = set(9);
    future.issued_at = now() + TimeDelta::hours(1);
    future.expires_at = now() + TimeDelta::hours(2);
    assert!(matches!(gate.serving_set(&keys.sign(&future), now()).unwrap(), Admitted::Expired(_)));
    assert_eq!(refusal(&mut gate, &keys.sign(&set(8))), codes::MF0702);
}

/// A set of that epoch for nodes that know that key list.
fn under(key_list_version: u32, epoch: u64) -> ServingSet {
    ServingSet { key_list_version, ..set(epoch) }
}

#[test]
fn a_set_waits_for_the_key_list_that_it_names() {
    let keys = Keys::generate();
    let mut gate = gate(&keys);
    let envelope = keys.sign(&under(2, 5));
    assert_eq!(refusal(&mut gate, &envelope), codes::MF0713, "a newer list exists, and is withheld");
    assert_eq!(gate.seen().epoch, Epoch(0), "what is refused is not seen");
    gate.key_list(&keys.list(2)).unwrap();
    assert!(gate.serving_set(&envelope, now()).is_ok());
    assert_eq!(refusal(&mut gate, &keys.sign(&under(1, 6))), codes::MF0702, "of an earlier list");
}

#[test]
fn numbers_that_a_stolen_key_used_up_end_with_the_key() {
    let (keys, state) = (Keys::generate(), tempfile::tempdir().unwrap());
    let state = StateDir::open(state.path()).unwrap();
    let mut gate = gate(&keys);
    gate.serving_set(&keys.sign(&under(1, 7)), now()).unwrap();
    assert_eq!(refusal(&mut gate, &keys.sign(&under(1, u64::MAX))), codes::MF0714);
    // Who holds the key takes smaller steps.
    let far = 7 + EPOCHS_AHEAD_MAX;
    gate.serving_set(&keys.sign(&under(1, far)), now()).unwrap();
    assert_eq!(refusal(&mut gate, &keys.sign(&under(1, 8))), codes::MF0702);

    let fresh = Keys { online: PrivateKey::generate().unwrap(), root: keys.root };
    gate.key_list(&fresh.list(2)).unwrap();
    gate.serving_set(&fresh.sign(&under(2, 8)), now()).unwrap();
    assert_eq!(gate.seen().epoch, Epoch(8));
    let stolen = Keys { root: fresh.root, ..keys };
    assert_eq!(
        refusal(&mut gate, &stolen.sign(&under(2, far + 1))),
        codes::MF0701,
        "it is in no list any more"
    );
    state.record_seen(&gate.seen()).unwrap();
    assert_eq!(state.seen().unwrap(), gate.seen(), "and after a restart");
}

#[test]
fn an_expired_list_vouches_for_no_key() {
    let keys = Keys::generate();
    let list = |version, expires_at| {
        let list = keys.pin().follow(&keys.list(version)).unwrap().list().unwrap().get().clone();
        mfaas_attest::sign(&KeyList { expires_at: Some(expires_at), ..list }, &[&keys.root]).unwrap()
    };
    let mut gate = Gate::new(keys.pin(), Seen::default());
    gate.key_list(&list(1, now() + TimeDelta::seconds(1))).unwrap();
    gate.serving_set(&keys.sign(&set(5)), now()).unwrap();
    let later = now() + TimeDelta::seconds(1);
    let refused = gate.serving_set(&keys.sign(&set(6)), later).unwrap_err();
    assert_eq!(refused.code, codes::MF0715);
    let (key, statement) = state(key("hello", 1), admission(&key("hello", 1)), &keys.online);
    let judged = image::verify(&set(6), &key, b"", &statement, &gate.trust(later), MachineCode::Verified);
    assert_eq!(judged.unwrap_err().code, codes::MF0602, "nor for statements");
    gate.key_list(&list(2, later + TimeDelta::hours(1))).unwrap();
    gate.serving_set(&keys.sign(&set(6)), later).unwrap();
}

/// Judges `acme/hello@1` in a set that names it, with an artifact of these bytes.
struct Case {
    keys: Keys,
    set: ServingSet,
    artifact: Vec<u8>,
}

impl Case {
    fn new() -> Self {
        Self { keys: Keys::generate(), set: set(5), artifact: b"not an image".to_vec() }
    }

    fn key(&self) -> image::ImageKey {
        image::ImageKey { digest: Digest::of(&self.artifact), ..key("hello", 1) }
    }

    fn trust(&self) -> Trust {
        gate(&self.keys).trust(now())
    }

    /// The code of the refusal when the statement is changed by `change`.
    fn with(&self, change: impl FnOnce(&mut Admission)) -> Code {
        let mut admission = admission(&self.key());
        change(&mut admission);
        let (key, envelope) = state(self.key(), admission, &self.keys.online);
        image::verify(&self.set, &key, &self.artifact, &envelope, &self.trust(), MachineCode::Verified)
            .unwrap_err()
            .code
    }
}

#[test]
fn a_statement_must_be_about_this_very_version() {
    let case = Case::new();
    assert_eq!(case.with(|_| {}), codes::MF0708, "all papers are in order, the bytes are no image");
    assert_eq!(case.with(|a| a.tenant = TenantName::parse("other").unwrap()), codes::MF0705);
    assert_eq!(case.with(|a| a.function = FunctionName::parse("other").unwrap()), codes::MF0705);
    assert_eq!(case.with(|a| a.version = number(2)), codes::MF0705);
    assert_eq!(case.with(|a| a.artifact = Digest::of(b"other")), codes::MF0705);
    assert_eq!(case.with(|a| a.budget_us = Budget::from_micros(77).unwrap()), codes::MF0705);
    assert_eq!(case.with(|a| a.lints.clear()), codes::MF0705);
    for missing in mfaas_rules::profiles::lints::required() {
        let without = case.with(|a| a.lints.retain(|lint| lint != missing));
        assert_eq!(without, codes::MF0705, "an artifact that was not held against {missing}");
    }
    assert_eq!(case.with(|a| a.toolchain = ToolchainId(Digest::of(b"other"))), codes::MF0707);
    assert_eq!(case.with(|a| a.abi_version += 1), codes::MF0707);
}

#[test]
fn an_interface_that_this_node_has_not_is_refused_even_if_the_set_accepts_it() {
    let mut case = Case::new();
    case.set.abi_versions.insert(mfaas_abi::ABI_VERSION + 1);
    assert_eq!(case.with(|a| a.abi_version += 1), codes::MF0707);
}

#[test]
fn a_revoked_digest_is_refused_whatever_was_signed() {
    let one = key("hello", 1);
    let mut function = served(&[&one]);
    assert_eq!(image::check_revoked(&function, &one), Ok(()));
    function.revoked.insert(one.digest);
    assert_eq!(image::check_revoked(&function, &one).unwrap_err().code, codes::MF0706);
}

#[test]
fn a_statement_of_another_key_or_another_document_proves_nothing() {
    let case = Case::new();
    let stranger = PrivateKey::generate().unwrap();
    let judge = |(key, envelope): (image::ImageKey, Vec<u8>)| {
        image::verify(&case.set, &key, &case.artifact, &envelope, &case.trust(), MachineCode::Verified)
            .unwrap_err()
            .code
    };
    assert_eq!(judge(state(case.key(), admission(&case.key()), &stranger)), codes::MF0602);
    let mut swapped = state(case.key(), admission(&case.key()), &case.keys.online);
    swapped.0.statement = Digest::of(b"the set names another envelope");
    assert_eq!(judge(swapped), codes::MF0705);
    let set_envelope = case.keys.sign(&case.set);
    let mut wrong_type = case.key();
    wrong_type.statement = Digest::of(&set_envelope);
    assert_eq!(judge((wrong_type, set_envelope)), codes::MF0606);
}

#[test]
fn flipped_bytes_of_an_artifact_are_noticed() {
    let case = Case::new();
    let (key, envelope) = state(case.key(), admission(&case.key()), &case.keys.online);
    let mut flipped = case.artifact.clone();
    flipped[3] ^= 0x40;
    let refused = image::verify(&case.set, &key, &flipped, &envelope, &case.trust(), MachineCode::Verified)
        .unwrap_err();
    assert_eq!(refused.code, codes::MF0704);
}

#[test]
fn the_cache_is_hashed_again_and_a_damaged_blob_counts_as_absent() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    let digest = Digest::of(b"blob");
    state.store_blob(b"blob").unwrap();
    assert_eq!(state.blob(digest).unwrap().unwrap(), b"blob");
    std::fs::write(home.path().join("blobs").join(digest.to_string()), b"blub").unwrap();
    assert_eq!(state.blob(digest).unwrap(), None);
    assert!(!home.path().join("blobs").join(digest.to_string()).exists());
    state.store_blob(b"blob").unwrap();
    state.prune_blobs(|_| false);
    assert_eq!(state.blob(digest).unwrap(), None);
}

#[test]
fn sealed_memory_cannot_be_written() {
    let memory = image::sealed_memory(b"image").unwrap();
    assert_eq!(rustix::io::pwrite(&memory, b"x", 0), Err(rustix::io::Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(&memory, 0), Err(rustix::io::Errno::PERM));
    let more = rustix::fs::SealFlags::FUTURE_WRITE;
    assert_eq!(rustix::fs::fcntl_add_seals(&memory, more), Err(rustix::io::Errno::PERM));
}

#[test]
fn the_test_documents_pass_their_own_rules() {
    let (root, _) = mfaas_attest::tree_of([served(&[&key("hello", 1), &key("hello", 2)])]).unwrap();
    let keys = Keys::generate();
    let set = ServingSet { functions: root, ..set(1) };
    assert!(gate(&keys).serving_set(&keys.sign(&set), now()).is_ok());
}

#[test]
fn functions_that_callers_ask_for_are_loaded_first() {
    let name = |name: &str| (TenantName::parse("acme").unwrap(), FunctionName::parse(name).unwrap());
    let mut queue: VecDeque<_> = ["a", "b", "c", "d"].map(name).into();
    put_first(&mut queue, &["d", "b", "loaded-long-ago"].map(name).into());
    assert_eq!(queue, ["b", "d", "a", "c"].map(name));
}

/// What release 0.2.0 signed (tests/releases) is believed, and its image runs where a site lets code run that is not verified,
/// and nowhere else.
#[test]
fn an_image_of_the_release_before_is_not_verified_code() {
    let written = |file: &str| {
        let path = format!("{}/../../tests/releases/0.2.0/{file}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let root = TrustedRoot::of_file(&String::from_utf8(written("root.pub")).unwrap()).unwrap();
    let then = DateTime::parse_from_rfc3339("2026-11-25T14:00:00Z").unwrap().to_utc();
    let trust = root.follow(&written("key-list.dsse")).unwrap().trust(then);
    let set = verify::<ServingSet>(&written("serving-set.dsse"), &trust).unwrap().into_inner();
    let (statement, artifact) = (written("statement.dsse"), written("artifact.so"));
    let admission = verify::<Statement>(&statement, &trust).unwrap().into_inner().predicate;
    let key = image::ImageKey {
        tenant: admission.tenant,
        function: admission.function,
        version: admission.version,
        digest: admission.artifact,
        statement: Digest::of(&statement),
        budget: admission.budget_us,
        memory: admission.memory_bytes,
    };
    let judged = |minimum| image::verify(&set, &key, &artifact, &statement, &trust, minimum);
    assert_eq!(judged(MachineCode::Verified).unwrap_err().code, codes::MF0719);
    assert_eq!(judged(MachineCode::Unverified).unwrap().code(), MachineCode::Unverified);
}
