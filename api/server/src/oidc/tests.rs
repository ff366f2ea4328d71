#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::claims::{VerifiedClaims, admit};
use super::settings::{Settings, check_public};

fn written(dir: &Path, change: &Value, mode: u32) -> Result<Settings, String> {
    let mut config = json!({
        "issuer": "https://id.example/realm", "client_id": "c", "client_secret_file": "secret",
        "roles": [{ "group": "g", "role": "viewer", "tenant": "a" }],
    });
    for (name, value) in change.as_object().unwrap() {
        config[name] = value.clone();
    }
    let secret = dir.join("secret");
    std::fs::write(&secret, "s\n").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::write(dir.join("oidc.json"), config.to_string()).unwrap();
    Settings::read(&dir.join("oidc.json")).map_err(|error| error.to_string())
}

#[test]
fn what_is_unfit_in_the_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let row = |group: &str| json!({ "group": group, "role": "viewer", "tenant": "a" });
    for (change, named) in [
        (json!({"issuer": "http://id.example"}), "issuer"),
        (json!({"issuer": "https://user@id.example"}), "issuer"),
        (json!({"issuer": "https://id.example?x=1"}), "issuer"),
        (json!({"issuer": "id.example"}), "issuer"),
        (json!({"origins": ["http://keys.example"]}), "origins"),
        (json!({"client_id": ""}), "client_id"),
        (json!({"client_secret_file": "nowhere"}), "nowhere"),
        (json!({"client_secret_file": "/dev/null"}), "others can read it"),
        (json!({"roles": []}), "roles"),
        (json!({"roles": [row("g"), row("g")]}), "roles"),
        (json!({"roles": [row("")]}), "roles"),
        (json!({"roles": [{"group": "g", "role": "root", "tenant": "a"}]}), "root"),
        (json!({"roles": [{"group": "g", "role": "viewer"}]}), "tenant"),
        (json!({"session_minutes": 0}), "session_minutes"),
        (json!({"session_minutes": 721}), "session_minutes"),
        (json!({"person": "name"}), "name"),
        (json!({"allow_http": true}), "allow_http"),
    ] {
        let error = written(dir.path(), &change, 0o600).err().unwrap_or_else(|| panic!("{change} is taken"));
        assert!(error.contains("MFAAS_OIDC_FILE") && error.contains(named), "{change}: {error}");
    }
    assert!(written(dir.path(), &json!({}), 0o640).is_err_and(|error| error.contains("others can read it")));
    assert!(written(dir.path(), &json!({"issuer": "http://127.0.0.1:8080"}), 0o600).is_ok());
    assert_eq!(written(dir.path(), &json!({}), 0o600).unwrap().client_secret, "s");
}

#[test]
fn codes_come_back_over_https_or_within_the_machine() {
    for good in ["https://mfaas.example", "http://localhost:7700", "http://[::1]:7700"] {
        assert!(check_public(good).is_ok(), "{good}");
    }
    for bad in ["http://mfaas.example", "http://localhost.evil.example", "ftp://localhost"] {
        assert!(check_public(bad).is_err(), "{bad}");
    }
}

/// A subject is a name behind its issuer's host; case is folded, nothing else is mended.
#[test]
fn a_subject_is_a_person_of_its_issuer() {
    let dir = tempfile::tempdir().unwrap();
    let settings = written(dir.path(), &json!({"person": "subject"}), 0o600).unwrap();
    let groups = json!(["g"]);
    let person = |subject: &str| {
        let told = VerifiedClaims { subject, email: None, email_verified: None, groups: Some(&groups) };
        admit(&settings, &told).map(|found| found.person.to_string()).ok()
    };
    assert_eq!(person("24400320").as_deref(), Some("id.example/24400320"));
    assert_eq!(person("AItOawmw").as_deref(), Some("id.example/aitoawmw"));
    for bad in ["", "a b", "a|b", "\u{212a}elvin", "a\0", &"x".repeat(300)] {
        assert_eq!(person(bad), None, "{bad:?}");
    }
}
