//! Ranges of advisories, pre-releases included.

use super::*;

fn hit(patched: &[&str], unaffected: &[&str], number: &str) -> bool {
    let requirement = |text: &&str| semver::VersionReq::parse(text).unwrap();
    let advisory = Advisory {
        patched: patched.iter().map(requirement).collect(),
        unaffected: unaffected.iter().map(requirement).collect(),
        ..advisory("plain", AdvisoryKind::Unsound)
    };
    advisory_affects(&advisory, &name("plain"), &version(number))
}

#[test]
fn ranges_are_by_precedence() {
    for (patched, number, expected) in [
        (">= 1.2.0", "1.1.9", true),
        (">= 1.2.0", "1.2.0", false),
        (">= 1.2.0", "1.2.0+build", false),
        (">= 1.2.0", "1.2.0-rc.1", true),
        (">= 1.2.0", "1.3.0-rc.1", false),
        (">= 1.2.0-rc.1", "1.2.0-rc.1", false),
        (">= 1.2.0-rc.2", "1.2.0-rc.1", true),
        ("> 1.2.0", "1.2.0+build", true),
        ("> 1.2.0", "1.2.1-rc.1", false),
        ("> 1.2", "1.2.5", true),
        ("> 1.2", "1.3.0", false),
        ("> 1", "1.9.0", true),
        ("<= 1.2", "1.2.5", true),
        ("<= 1.2.5", "1.2.5+build", false),
        ("=1.2", "1.2.0", false),
        ("=1.2", "1.2.5", true),
        ("^1.2.3", "1.9.0", false),
        ("^1.2.3", "1.2.3-rc.1", true),
        ("^1.2.3", "2.0.0-rc.1", true),
        ("^0.2.3", "0.2.9", false),
        ("^0.2.3", "0.3.0", true),
        ("^0.2.3", "0.3.0-rc.1", true),
        ("^0.0.3", "0.0.3", false),
        ("^0.0.3", "0.0.4", true),
        ("^0", "0.9.0", false),
        ("^0", "1.0.0", true),
        ("~1.2.3", "1.2.9", false),
        ("~1.2.3", "1.3.0", true),
        ("~1.2.3", "1.3.0-rc.1", true),
        ("~1", "1.9.9", false),
        ("1.2.*", "1.2.0", true),
        (">= 1.0.0, < 1.0.3", "1.0.2", false),
        (">= 1.0.0, < 1.0.3", "1.0.3-rc.1", false),
        (">= 1.0.0, < 1.0.3", "1.0.3", true),
        (">= 1.0.0", "18446744073709551615.18446744073709551615.18446744073709551615", false),
        ("^18446744073709551615.0.0", "18446744073709551615.1.0", true),
    ] {
        assert_eq!(hit(&[patched], &[], number), expected, "patched {patched}, version {number}");
        assert_eq!(hit(&[], &[patched], number), expected, "unaffected {patched}, version {number}");
    }
}

#[test]
fn without_a_patched_version_every_version_is_hit() {
    for number in ["0.0.0", "0.0.0-0", "1.0.0-rc.1", "18446744073709551615.0.0"] {
        assert!(hit(&[], &[], number), "{number}");
    }
}
