#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{Home, Identities, identity_provider};

/// The server gets a copy of both files that nobody else reads; what is not understood changes nothing.
#[test]
fn the_provider_is_kept_with_its_secret() {
    let (given, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = Home::at(home.path());
    home.prepare(&Identities::OneUid).unwrap();
    let file = given.path().join("oidc.json");
    std::fs::write(given.path().join("mine"), "s3cret\n").unwrap();
    for unfit in ["", "[]", "{}", r#"{"client_secret_file": 7}"#, r#"{"client_secret_file": "nowhere"}"#] {
        std::fs::write(&file, unfit).unwrap();
        assert!(identity_provider(&home, &Identities::OneUid, &file).is_err(), "{unfit:?}");
        assert!(!home.join("server/oidc/config.json").exists(), "{unfit:?}");
    }
    let config = json!({ "issuer": "https://id.example", "client_secret_file": "mine" });
    std::fs::write(&file, config.to_string()).unwrap();
    identity_provider(&home, &Identities::OneUid, &file).unwrap();
    let kept = home.join("server/oidc/config.json");
    let read: Value = serde_json::from_str(&std::fs::read_to_string(&kept).unwrap()).unwrap();
    assert_eq!(read, json!({ "issuer": "https://id.example", "client_secret_file": "secret" }));
    let secret = home.join("server/oidc/secret");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "s3cret\n");
    for path in [kept, secret] {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
}
