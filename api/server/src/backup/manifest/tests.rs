#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_attest::AuditHead;
use mfaas_ident::{Digest, Epoch};
use mfaas_rules::codes;

use super::{Manifest, Part, list_of, parse_list};

fn parts() -> [Part; 2] {
    [b"one".as_slice(), b"three"].map(|bytes| Part { digest: Digest::of(bytes), bytes: bytes.len() as u64 })
}

fn manifest() -> serde_json::Value {
    let [one, two] = parts();
    let seen = (mfaas_catalog::schema_version(), AuditHead::START, Epoch(7));
    serde_json::to_value(Manifest::new(chrono::Utc::now(), seen, one, two, &parts())).unwrap()
}

fn read(manifest: &serde_json::Value) -> Result<Manifest, super::BackupError> {
    Manifest::read("some", manifest.to_string().as_bytes())
}

#[test]
fn a_manifest_is_read_as_it_was_written() {
    let written = manifest();
    assert_eq!(serde_json::to_value(read(&written).unwrap()).unwrap(), written);
    assert_eq!((&written["blobs"], &written["blob_bytes"]), (&2.into(), &8.into()));
}

#[test]
fn what_a_newer_release_made_is_refused_as_such() {
    for (field, value) in [("format", 2.into()), ("schema", (mfaas_catalog::schema_version() + 1).into())] {
        let mut newer = manifest();
        newer[field] = value;
        newer["release"] = "9.0.0".into();
        if field == "format" {
            newer["what_this_release_does_not_know"] = 1.into();
        }
        let error = read(&newer).unwrap_err();
        assert_eq!(error.code(), Some(codes::MF1002), "{error}");
        assert!(error.to_string().contains("9.0.0"), "{error}");
    }
}

#[test]
fn what_is_no_manifest_is_damaged() {
    let mut unknown = manifest();
    unknown["more"] = 1.into();
    let mut missing = manifest();
    missing.as_object_mut().unwrap().remove("database");
    for damaged in [unknown, missing, serde_json::Value::Null] {
        assert_eq!(read(&damaged).unwrap_err().code(), Some(codes::MF1001));
    }
}

#[test]
fn a_list_is_read_as_it_was_written_and_nothing_else_is() {
    assert_eq!(parse_list(list_of(&parts()).as_bytes()).unwrap(), parts());
    for bad in ["x 1\n", "\n", &format!("{} -1", parts()[0].digest), &parts()[0].digest.to_string()] {
        assert_eq!(parse_list(bad.as_bytes()), None, "{bad}");
    }
}
