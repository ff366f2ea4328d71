//! Signatures: what is accepted, and that nothing else is.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_ident::{
    Access, AliasName, Budget, DeploymentId, Digest, Epoch, FunctionName, HandlerPath, Isolation,
    MemoryLimit, Selector, TenantName, ToolchainId, VersionNumber,
};
use proptest::prelude::*;

use crate::{
    Admission, AttestError, AuditHead, BuildDefinition, BuildMetadata, Builder, Check, Checker, DecisionUsed,
    Declared, Fields, KeyList, ListedKey, Payload, PrivateKey, Provenance, PublicKey, Purpose,
    ResourceDescriptor, RunDetails, SandboxLevel, ServedFunction, ServedVersion, ServingSet, ShardRef,
    Statement, Trust, TrustedRoot, dsse, sign, verify,
};

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

pub(crate) fn key() -> PrivateKey {
    PrivateKey::generate().unwrap()
}

pub(crate) fn statement() -> Statement {
    let artifact = Digest::of(b"so");
    Statement::new(Admission {
        tenant: TenantName::parse("acme").unwrap(),
        function: FunctionName::parse("hello").unwrap(),
        version: VersionNumber::FIRST,
        deployment: DeploymentId("00000000-0000-4000-8000-000000000000".parse::<DeploymentId>().unwrap().0),
        artifact,
        artifact_bytes: 2,
        handler: HandlerPath::parse("handle").unwrap(),
        budget_us: Budget::DEFAULT,
        memory_bytes: MemoryLimit::DEFAULT,
        declared: Some(Declared { idempotent: true, isolation: Isolation::Process, ..Declared::default() }),
        fields: Some(Fields::new(Access::Token)),
        source_upload: Digest::of(b"tar"),
        source_tree: Digest::of(b"tree"),
        toolchain: ToolchainId(Digest::of(b"rustc")),
        abi_version: 1,
        lints: vec!["unsafe_code".to_owned()],
        policy_version: 3,
        policy_revision: "r".to_owned(),
        decisions: vec![DecisionUsed {
            name: "serde".parse().unwrap(),
            version: "1.0.228".to_owned(),
            checksum: Digest::of(b"serde").to_string(),
            decided_by: "seed".to_owned(),
        }],
        elf_facts: Digest::of(b"facts"),
        sandbox_level: SandboxLevel::Full,
        checks: vec![Check { name: "lexer".to_owned(), by: Checker::Signer }],
        bindings: Vec::new(),
        calls: Vec::new(),
        provenance: Provenance {
            build_definition: BuildDefinition {
                build_type: Provenance::BUILD_TYPE.to_owned(),
                external_parameters: BTreeMap::new(),
                internal_parameters: BTreeMap::new(),
                resolved_dependencies: vec![ResourceDescriptor::sha256("mfaas:source-upload", &artifact)],
            },
            run_details: RunDetails {
                builder: Builder { id: Provenance::BUILDER_ID.to_owned() },
                metadata: BuildMetadata {
                    invocation_id: "x#1".to_owned(),
                    started_on: at(0),
                    finished_on: at(1),
                },
            },
        },
    })
}

pub(crate) fn serving_set() -> ServingSet {
    ServingSet {
        version: ServingSet::FORMAT,
        epoch: Epoch(7),
        key_list_version: 0,
        issued_at: at(0),
        expires_at: at(24 * 3600),
        accepted_toolchains: BTreeSet::from([ToolchainId(Digest::of(b"rustc"))]),
        abi_versions: BTreeSet::from([1]),
        required_lints: BTreeSet::from(["unsafe_code".to_owned()]),
        functions: ShardRef { digest: Digest::of(b"the root of the tree"), functions: 2 },
        call_keys: Vec::new(),
        revoked_calls: None,
        audit_head: AuditHead::START,
    }
}

fn key_list(key: &PublicKey) -> KeyList {
    let row = |purpose| ListedKey { keyid: key.id(), public: *key, purpose, not_after: at(100) };
    KeyList {
        version: 1,
        issued_at: at(0),
        expires_at: None,
        root: None,
        keys: vec![row(Purpose::Artifact), row(Purpose::ServingSet)],
    }
}

pub(crate) fn trust(purpose: Purpose, key: &PrivateKey) -> Trust {
    Trust::of_key(purpose, key.public())
}

#[test]
fn the_encoding_is_that_of_the_dsse_specification() {
    let encoded = dsse::pae("http://example.com/HelloWorld", b"hello world");
    assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
}

#[test]
fn what_was_signed_comes_back() {
    let key = key();
    let bytes = sign(&statement(), &[&key]).unwrap();
    let verified = verify::<Statement>(&bytes, &trust(Purpose::Artifact, &key)).unwrap();
    assert_eq!((verified.get(), verified.key()), (&statement(), key.public().id()));
    assert_eq!(verified.digest(), Digest::of(&bytes));
    let json: serde_json::Value = serde_json::to_value(statement()).unwrap();
    assert_eq!(json["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(json["predicateType"], "https://mfaas.dev/attestation/admission/v4");
    assert_eq!(
        json["predicate"]["declared"],
        serde_json::json!({"idempotent": true, "isolation": "process"})
    );
    assert_eq!(json["predicate"]["fields"], serde_json::json!({"critical": {"access": "token"}}));
    assert_eq!(statement().predicate.declares().access, Some(Access::Token));
    assert_eq!(json["subject"][0]["name"], "acme/hello@1");
    assert_eq!(json["predicate"]["provenance"]["buildDefinition"]["buildType"], Provenance::BUILD_TYPE);
}

/// What was signed before functions could declare anything still verifies, and declares nothing.
#[test]
fn an_older_statement_means_no_second_run_and_shared_workers() {
    let key = key();
    let older = Statement::new(Admission { declared: None, fields: None, ..statement().predicate });
    let json = serde_json::to_value(&older).unwrap();
    assert_eq!(json["predicateType"], "https://mfaas.dev/attestation/admission/v1");
    assert!(json["predicate"].get("declared").is_none(), "the bytes are those of the older release: {json}");
    let bytes = sign(&older, &[&key]).unwrap();
    let read = verify::<Statement>(&bytes, &trust(Purpose::Artifact, &key)).unwrap().into_inner();
    assert_eq!(read, older);
    let declared = read.predicate.declares();
    assert_eq!(declared, Declared::default());
    assert_eq!(declared.access(), Access::Tenant);
}

/// What was signed before it was stated who may call a function still verifies: its tenant may, and nobody else.
#[test]
fn a_statement_that_does_not_say_who_may_call_means_the_tenant() {
    let key = key();
    let silent = Declared { idempotent: true, isolation: Isolation::Process, ..Declared::default() };
    let older = Statement::new(Admission { declared: Some(silent), fields: None, ..statement().predicate });
    let json = serde_json::to_value(&older).unwrap();
    assert_eq!(json["predicateType"], "https://mfaas.dev/attestation/admission/v2");
    let declared = serde_json::json!({"idempotent": true, "isolation": "process"});
    assert_eq!(json["predicate"]["declared"], declared, "the bytes are those of the older release");
    let bytes = sign(&older, &[&key]).unwrap();
    let read = verify::<Statement>(&bytes, &trust(Purpose::Artifact, &key)).unwrap().into_inner();
    assert_eq!(read.predicate.declares().access(), Access::Tenant);
}

/// As the release before wrote it.
fn statement_v3() -> Statement {
    let Admission { declared, .. } = statement().predicate;
    let declared = declared.map(|declared| Declared { access: Some(Access::Token), ..declared });
    Statement::new(Admission { declared, fields: None, ..statement().predicate })
}

#[test]
fn a_statement_of_the_release_before_says_who_may_call_where_it_did() {
    let key = key();
    let json = serde_json::to_value(statement_v3()).unwrap();
    assert_eq!(json["predicateType"], "https://mfaas.dev/attestation/admission/v3");
    let declared = serde_json::json!({"idempotent": true, "isolation": "process", "access": "token"});
    assert_eq!(json["predicate"]["declared"], declared, "the bytes are those of the older release");
    assert!(json["predicate"].get("fields").is_none());
    let bytes = sign(&statement_v3(), &[&key]).unwrap();
    let read = verify::<Statement>(&bytes, &trust(Purpose::Artifact, &key)).unwrap().into_inner();
    assert_eq!((read.predicate.declares().access(), read), (Access::Token, statement_v3()));
}

/// One that was kept from the release before, for the fuzzer; its first byte says what it is.
#[test]
fn a_statement_that_an_older_release_wrote_is_read() {
    let kept = include_bytes!("../../../fuzz/corpus/statement/9a9d443afe4ed0d9");
    let document: serde_json::Value = serde_json::from_slice(&kept[1..]).unwrap();
    let key = key();
    let bytes = signed_as_it_is(&document, &key);
    let read = verify::<Statement>(&bytes, &trust(Purpose::Artifact, &key)).unwrap().into_inner();
    assert_eq!(read.predicate.declared, None);
    assert_eq!(serde_json::to_value(&read).unwrap(), document, "not one field more");
}

/// Signs a document as it is, consistent or not.
pub(crate) fn signed_as_it_is(document: &serde_json::Value, key: &PrivateKey) -> Vec<u8> {
    use base64::Engine as _;
    let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let payload = serde_json::to_vec(document).unwrap();
    let sig = base64(&key.sign(&dsse::pae(Statement::TYPE, &payload)));
    let envelope = serde_json::json!({
        "payload": base64(&payload), "payloadType": Statement::TYPE,
        "signatures": [{"keyid": key.public().id(), "sig": sig}],
    });
    serde_json::to_vec(&envelope).unwrap()
}

/// A good signature does not make up for a document whose version and fields disagree.
#[test]
fn version_and_declarations_fit_together_or_nothing_is_believed() {
    let key = key();
    let good = serde_json::to_value(statement_v3()).unwrap();
    let read = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut document = good.clone();
        change(&mut document);
        verify::<Statement>(&signed_as_it_is(&document, &key), &trust(Purpose::Artifact, &key))
    };
    assert!(read(&|_| ()).is_ok());
    let v1 = "https://mfaas.dev/attestation/admission/v1";
    let inconsistent: [&dyn Fn(&mut serde_json::Value); 8] = [
        &|document| document["predicateType"] = v1.into(),
        &|document| document["predicateType"] = v1.replace("v1", "v2").into(),
        &|document| document["predicateType"] = v1.replace("v1", "v4").into(),
        &|document| document["predicateType"] = v1.replace("v1", "v5").into(),
        &|document| document["predicate"]["fields"] = serde_json::json!({"critical": {"access": "token"}}),
        &|document| {
            document["predicateType"] = v1.replace("v1", "v4").into();
            document["predicate"]["fields"] = serde_json::json!({"critical": {"access": "token"}});
        },
        &|document| drop(document["predicate"]["declared"].as_object_mut().unwrap().remove("access")),
        &|document| drop(document["predicate"].as_object_mut().unwrap().remove("declared")),
    ];
    for change in inconsistent {
        let refused = read(change);
        assert!(matches!(refused, Err(AttestError::Inconsistent { .. })), "{refused:?}");
    }
    for declared in [
        serde_json::json!(null),
        serde_json::json!({}),
        serde_json::json!({"idempotent": true}),
        serde_json::json!({"isolation": "process"}),
        serde_json::json!({"idempotent": "true", "isolation": "process"}),
        serde_json::json!({"idempotent": true, "isolation": "thread"}),
        serde_json::json!({"idempotent": true, "isolation": "process", "retries": 3}),
        serde_json::json!({"idempotent": true, "isolation": "process", "access": null}),
        serde_json::json!({"idempotent": true, "isolation": "process", "access": "anybody"}),
    ] {
        let refused = read(&|document| document["predicate"]["declared"] = declared.clone());
        assert!(matches!(refused, Err(AttestError::Malformed { .. })), "{declared}: {refused:?}");
    }
}

/// Somebody on the way cannot make a call run twice, take a function's own process away, or open it to everybody.
#[test]
fn a_declaration_cannot_be_changed_under_its_signature() {
    use base64::Engine as _;
    let key = key();
    let bytes = sign(&statement(), &[&key]).unwrap();
    let mut envelope: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let engine = base64::engine::general_purpose::STANDARD;
    let payload = String::from_utf8(engine.decode(envelope["payload"].as_str().unwrap()).unwrap()).unwrap();
    for (from, to) in [
        ("\"process\"", "\"shared\""),
        ("\"idempotent\":true", "\"idempotent\":false"),
        ("\"token\"", "\"public\""),
    ] {
        let changed = payload.replace(from, to);
        assert_ne!(changed, payload);
        envelope["payload"] = engine.encode(changed).into();
        let forged = serde_json::to_vec(&envelope).unwrap();
        let read = verify::<Statement>(&forged, &trust(Purpose::Artifact, &key));
        assert!(matches!(read, Err(AttestError::BadSignature { .. })), "{read:?}");
    }
}

/// Every byte of the envelope matters: there is no place where an attacker could write.
#[test]
fn a_flipped_byte_anywhere_fails() {
    let key = key();
    let trust = trust(Purpose::Root, &key);
    let bytes = sign(&key_list(&key.public()), &[&key]).unwrap();
    for place in 0..bytes.len() {
        let bit = place % 8;
        let mut flipped = bytes.clone();
        flipped[place] ^= 1 << bit;
        assert!(verify::<KeyList>(&flipped, &trust).is_err(), "byte {place}, bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(verify::<KeyList>(&bytes[..length], &trust).is_err(), "cut at {length}");
    }
    assert!(verify::<KeyList>(&[bytes.as_slice(), b"x"].concat(), &trust).is_err());
}

#[test]
fn another_key_another_purpose_and_another_type_fail() {
    let (key, other) = (key(), key());
    let bytes = sign(&serving_set(), &[&key]).unwrap();
    let by_other = verify::<ServingSet>(&bytes, &trust(Purpose::ServingSet, &other));
    assert!(matches!(by_other, Err(AttestError::Untrusted { purpose: Purpose::ServingSet })));
    let wrong_purpose = verify::<ServingSet>(&bytes, &trust(Purpose::Artifact, &key));
    assert!(matches!(wrong_purpose, Err(AttestError::Untrusted { .. })));
    let wrong_type = verify::<Statement>(&bytes, &trust(Purpose::Artifact, &key));
    assert!(matches!(wrong_type, Err(AttestError::WrongType { .. })));
}

#[test]
fn two_keys_can_sign_and_a_bad_signature_of_a_trusted_one_is_not_overlooked() {
    let (old, new) = (key(), key());
    let bytes = sign(&serving_set(), &[&old, &new]).unwrap();
    assert_eq!(
        verify::<ServingSet>(&bytes, &trust(Purpose::ServingSet, &new)).unwrap().key(),
        new.public().id()
    );
    let mut envelope: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    envelope["signatures"][1]["sig"] = envelope["signatures"][0]["sig"].clone();
    let forged = serde_json::to_vec(&envelope).unwrap();
    let both = trust(Purpose::ServingSet, &old).and_key(Purpose::ServingSet, new.public());
    assert!(matches!(verify::<ServingSet>(&forged, &both), Err(AttestError::BadSignature { .. })));
    assert!(sign(&serving_set(), &[]).is_err());
    assert!(sign(&serving_set(), &[&old; 17]).is_err());
}

#[test]
fn a_key_list_gives_trust_until_its_keys_end() {
    let (root, online) = (key(), key());
    let pinned = TrustedRoot::of_key(root.public());
    let bytes = sign(&key_list(&online.public()), &[&root]).unwrap();
    let listed = pinned.follow(&bytes).unwrap();
    let set = sign(&serving_set(), &[&online]).unwrap();
    assert!(verify::<ServingSet>(&set, &pinned.trust(at(0))).is_err(), "nothing is listed yet");
    assert!(verify::<ServingSet>(&set, &listed.trust(at(99))).is_ok());
    assert!(verify::<ServingSet>(&set, &listed.trust(at(100))).is_err());
    let by_root = sign(&serving_set(), &[&root]).unwrap();
    assert!(verify::<ServingSet>(&by_root, &listed.trust(at(0))).is_err(), "the root signs no serving sets");
    // A listed key cannot make the next list.
    let next = KeyList { version: 2, ..key_list(&online.public()) };
    assert!(listed.follow(&sign(&next, &[&online]).unwrap()).is_err());
}

#[test]
fn contradictions_are_neither_signed_nor_believed() {
    let key = key();
    let mut set = serving_set();
    set.expires_at = set.issued_at + TimeDelta::hours(25);
    assert!(matches!(sign(&set, &[&key]), Err(AttestError::Inconsistent { .. })));
    let mut set = serving_set();
    set.epoch = Epoch(0);
    assert!(set.check().unwrap_err().contains("epoch 0"));
    let mut other = statement();
    other.predicate.artifact = Digest::of(b"another");
    assert!(other.check().unwrap_err().contains("subject"));
    let mut reserved = statement();
    reserved.predicate.calls.push(serde_json::json!("x"));
    assert!(reserved.check().unwrap_err().contains("reserved"));
    let mut list = key_list(&key.public());
    list.keys[0].purpose = Purpose::Root;
    assert!(list.check().unwrap_err().contains("root"));
}

#[test]
fn an_unknown_field_is_refused_even_when_signed() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Extended {
        #[serde(flatten)]
        list: KeyList,
        only_on_weekdays: bool,
    }
    impl Payload for Extended {
        const TYPE: &'static str = KeyList::TYPE;
        const PURPOSE: Purpose = KeyList::PURPOSE;
        const ENVELOPE_BYTES_MAX: usize = KeyList::ENVELOPE_BYTES_MAX;
        fn check(&self) -> Result<(), String> {
            Ok(())
        }
    }
    let key = key();
    let bytes = sign(&Extended { list: key_list(&key.public()), only_on_weekdays: true }, &[&key]).unwrap();
    let read = verify::<KeyList>(&bytes, &trust(Purpose::Root, &key));
    assert!(matches!(read, Err(AttestError::Malformed { .. })), "{read:?}");
}

#[test]
fn the_caller_brings_the_time() {
    let set = serving_set();
    assert!(!set.is_expired(at(0)));
    assert!(!set.is_expired(at(24 * 3600 - 1)));
    assert!(set.is_expired(at(24 * 3600)));
    assert!(!set.is_expired(at(-200)), "a clock may be a little late");
    assert!(set.is_expired(at(-400)), "but not five minutes");
    let first = ServingSet { issued_at: DateTime::<Utc>::MIN_UTC, ..set };
    assert!(!first.is_expired(at(0)), "a set from the beginning of time is read without a panic");
}

#[test]
fn a_function_resolves_versions_and_aliases() {
    let number = |n| VersionNumber::new(n).unwrap();
    let version = |n, bytes: &[u8]| ServedVersion {
        version: number(n),
        digest: Digest::of(bytes),
        statement: Digest::of(b"statement"),
        budget_us: Budget::DEFAULT,
        memory_bytes: MemoryLimit::DEFAULT,
    };
    let function = ServedFunction {
        tenant: TenantName::parse("acme").unwrap(),
        name: FunctionName::parse("hello").unwrap(),
        aliases: BTreeMap::from([(AliasName::live(), number(2))]),
        versions: vec![version(1, b"one"), version(2, b"two")],
        revoked: BTreeSet::new(),
        resources: BTreeMap::new(),
    };
    assert_eq!(function.resolve(None).unwrap().digest, Digest::of(b"two"));
    assert_eq!(function.resolve(Some(&Selector::parse("1").unwrap())).unwrap().digest, Digest::of(b"one"));
    assert!(function.resolve(Some(&Selector::parse("canary").unwrap())).is_none());
}

#[test]
fn keys_survive_their_files_and_weak_ones_do_not_exist() {
    let key = key();
    let again = PrivateKey::from_pem(&key.to_pem().unwrap()).unwrap();
    assert_eq!(again.public(), key.public());
    assert_eq!(PublicKey::from_pem(&key.public().to_pem().unwrap()).unwrap(), key.public());
    assert_eq!(PublicKey::from_hex(&key.public().to_hex()).unwrap(), key.public());
    assert!(!format!("{key:?}").contains(&hex_of_secret(&key)));
    // The identity point: every signature of a certain form would fit every message.
    let identity = format!("01{}", "00".repeat(31));
    assert!(PublicKey::from_hex(&identity).is_err());
    assert!(PrivateKey::from_pem("no key").is_err());
}

#[test]
fn an_encrypted_key_file_opens_with_its_passphrase_alone() {
    let key = key();
    let file = key.to_encrypted_pem(b"correct horse").unwrap();
    assert!(PrivateKey::is_encrypted(&file) && !PrivateKey::is_encrypted(&key.to_pem().unwrap()));
    assert_eq!(PrivateKey::from_encrypted_pem(&file, b"correct horse").unwrap().public(), key.public());
    for wrong in [&b"correct hors"[..], b""] {
        let read = PrivateKey::from_encrypted_pem(&file, wrong);
        assert!(matches!(read, Err(AttestError::Passphrase)), "{read:?}");
    }
    assert!(PrivateKey::from_pem(&file).is_err(), "without a passphrase it is no key");
    assert_ne!(*file, *key.to_encrypted_pem(b"correct horse").unwrap(), "each file has its own salt");
}

fn hex_of_secret(key: &PrivateKey) -> String {
    use base64::Engine as _;
    let pem = key.to_pem().unwrap();
    let body: String = pem.lines().filter(|line| !line.starts_with("---")).collect();
    let der = base64::engine::general_purpose::STANDARD.decode(body).unwrap();
    hex::encode(&der[16..48])
}

#[test]
fn too_large_is_refused_before_it_is_parsed() {
    let bytes = vec![b'['; KeyList::ENVELOPE_BYTES_MAX + 1];
    let read = verify::<KeyList>(&bytes, &trust(Purpose::Root, &key()));
    assert!(matches!(read, Err(AttestError::TooLarge { .. })));
    let deep = vec![b'['; KeyList::ENVELOPE_BYTES_MAX];
    assert!(matches!(
        verify::<KeyList>(&deep, &trust(Purpose::Root, &key())),
        Err(AttestError::Malformed { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let trust = Trust::of_key(Purpose::Root, key().public());
        prop_assert!(verify::<KeyList>(&bytes, &trust).is_err());
    }

    #[test]
    fn no_envelope_makes_the_parser_panic(
        payload in "\\PC{0,200}", kind in "\\PC{0,40}", keyid in "[0-9a-f]{64}", sig in "[A-Za-z0-9+/=]{0,100}",
    ) {
        let text = serde_json::json!({
            "payload": payload, "payloadType": kind, "signatures": [{"keyid": keyid, "sig": sig}],
        }).to_string();
        let trust = Trust::of_key(Purpose::Root, key().public());
        prop_assert!(verify::<KeyList>(text.as_bytes(), &trust).is_err());
        prop_assert!(verify::<Statement>(text.as_bytes(), &trust).is_err());
        prop_assert!(verify::<ServingSet>(text.as_bytes(), &trust).is_err());
    }

    /// A good signature over nonsense still never panics and never verifies.
    #[test]
    fn signed_nonsense_is_refused(payload in "\\PC{0,300}") {
        use base64::Engine as _;
        let key = key();
        let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        let sig = base64(&key.sign(&dsse::pae(KeyList::TYPE, payload.as_bytes())));
        let text = serde_json::json!({
            "payload": base64(payload.as_bytes()), "payloadType": KeyList::TYPE,
            "signatures": [{"keyid": key.public().id(), "sig": sig}],
        }).to_string();
        let read = verify::<KeyList>(text.as_bytes(), &Trust::of_key(Purpose::Root, key.public()));
        let malformed = matches!(read, Err(AttestError::Malformed { .. }));
        prop_assert!(malformed);
    }
}

fn written_by_release_before(file: &str) -> Vec<u8> {
    let path = format!("{}/../../tests/releases/0.2.0/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Reads what release 0.2.0 signed (tests/releases), and demands that the same written today is the same bytes: then nodes of
/// that release read what our signer writes.
fn same_as_release_before<T: Payload + Clone>(file: &str, trust: &Trust) -> T {
    let envelope = written_by_release_before(file);
    let document = verify::<T>(&envelope, trust).unwrap_or_else(|error| panic!("{file}: {error}"));
    let written: serde_json::Value = serde_json::from_slice(&envelope).unwrap();
    let today = dsse::Draft::new(document.get().clone()).unwrap().to_bytes().unwrap();
    let today: serde_json::Value = serde_json::from_slice(&today).unwrap();
    assert_eq!(
        (&today["payload"], &today["payloadType"]),
        (&written["payload"], &written["payloadType"]),
        "{file}"
    );
    document.into_inner()
}

#[test]
fn documents_are_those_of_the_release_before() {
    let pin =
        TrustedRoot::of_file(&String::from_utf8(written_by_release_before("root.pub")).unwrap()).unwrap();
    let root = pin.follow(&written_by_release_before("key-list.dsse")).unwrap();
    let then = DateTime::parse_from_rfc3339("2026-11-25T14:00:00Z").unwrap().to_utc();
    let trust = root.trust(then);
    let set: ServingSet = same_as_release_before("serving-set.dsse", &trust);
    assert_eq!((set.functions.functions, set.is_expired(then)), (1, false));
    let statement: Statement = same_as_release_before("statement.dsse", &trust);
    assert_eq!(statement.predicate.artifact, Digest::of(&written_by_release_before("artifact.so")));
    assert_eq!(statement.predicate.declares().access(), Access::Tenant);
}
