#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_rules::AllowedCrate;

use super::*;

fn row(version: &str, decided_by: &str, status: CrateStatus) -> CrateRow {
    let allowed = AllowedCrate {
        name: CrateName::parse("left-pad").unwrap(),
        version: version.parse().unwrap(),
        checksum: Digest::of(version.as_bytes()).to_string(),
        features: Vec::new(),
        direct: true,
        status,
        decided_by: decided_by.to_owned(),
        reason: String::new(),
    };
    CrateRow { allowed, decided_at: DateTime::UNIX_EPOCH, tenant: None, expires_at: None }
}

fn of(rows: &[(&str, &str)], version: &str) -> Option<String> {
    let rows = rows.iter().map(|(version, who)| row(version, who, CrateStatus::Allowed)).collect();
    nearest(rows, &version.parse().unwrap(), &Digest::of(version.as_bytes()))
        .map(|base| base.version.to_string())
}

#[test]
fn the_highest_below_comes_before_the_lowest_above() {
    let rows = [
        ("2.0.0", "b/test"),
        ("0.9.0", "seed"),
        ("1.0.3", "seed"),
        ("1.10.0", "b/test"),
        ("1.2.0", "b/test"),
    ];
    assert_eq!(of(&rows, "1.9.0").as_deref(), Some("1.2.0"), "versions are numbers, not texts");
    assert_eq!(of(&rows, "0.1.0").as_deref(), Some("0.9.0"));
    assert_eq!(of(&rows, "3.0.0").as_deref(), Some("2.0.0"));
    assert_eq!(of(&rows, "1.0.4-rc.1").as_deref(), Some("1.0.3"));
    assert_eq!(of(&[], "1.0.0"), None);
}

#[test]
fn the_version_itself_counts_when_a_person_looked_at_the_same_bytes() {
    assert_eq!(of(&[("1.0.0", "b/test"), ("0.9.0", "b/test")], "1.0.0").as_deref(), Some("1.0.0"));
    assert_eq!(of(&[("1.0.0", "seed"), ("0.9.0", "b/test")], "1.0.0").as_deref(), Some("0.9.0"));
    assert_eq!(of(&[("1.0.0", "seed")], "1.0.0"), None);
    let version = Version::new(1, 0, 0);
    let other = nearest(vec![row("1.0.0", "b/test", CrateStatus::Allowed)], &version, &Digest::of(b"others"));
    assert_eq!(other, None, "other bytes of the same version");
}

#[test]
fn what_is_not_allowed_is_no_baseline() {
    for status in [CrateStatus::Denied, CrateStatus::Revoked] {
        let rows = vec![row("1.0.0", "b/test", status)];
        assert_eq!(nearest(rows, &Version::new(2, 0, 0), &Digest::of(b"2")), None);
    }
    let mut own = row("1.0.0", "seed", CrateStatus::Allowed);
    own.allowed.checksum = "source".to_owned();
    assert_eq!(nearest(vec![own], &Version::new(2, 0, 0), &Digest::of(b"2")), None);
}
