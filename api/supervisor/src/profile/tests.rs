#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use rustix::fs::Mode;

use super::Profile;

#[test]
fn a_profile_survives_the_file_and_hides_its_token() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/profile.toml");
    let profile = Profile {
        server: Some("http://127.0.0.1:7700".to_owned()),
        token: Some("geheim".to_owned()),
        ..Profile::default()
    };
    profile.save(&path, None).unwrap();
    assert!(Profile::load(&path).unwrap() == profile);
    assert!(!format!("{profile:?}").contains("geheim"));
}

#[test]
fn a_profile_that_others_can_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("profile.toml");
    Profile::default().save(&path, None).unwrap();
    rustix::fs::chmod(&path, Mode::from_raw_mode(0o640)).unwrap();
    assert!(Profile::load(&path).unwrap_err().to_string().contains("chmod 600"));
}

#[test]
fn a_missing_file_is_an_empty_profile_and_a_damaged_one_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Profile::load(&dir.path().join("none")).unwrap() == Profile::default());
    let path = dir.path().join("profile.toml");
    crate::files::write_atomically(&path, b"colour = 1", 0o600).unwrap();
    assert!(Profile::load(&path).is_err());
}
