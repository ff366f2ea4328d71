use super::*;

#[test]
fn this_build_says_its_version_and_nothing_that_is_no_version() {
    let this = BuildVersion::this();
    assert_eq!(BuildVersion::parse(this.as_str()).as_ref(), Ok(this));
    assert!(this.as_str().starts_with(env!("CARGO_PKG_VERSION")), "{this}");
}

#[test]
fn a_version_is_short_and_plain() {
    for good in ["0", "0.2.0", "0.3.0-rc.1+1f2e3d4c5b6a", &"1".repeat(BUILD_BYTES_MAX)] {
        assert!(BuildVersion::parse(good).is_ok(), "{good}");
    }
    for bad in ["", "v1", "+1", "1 2", "1\n", "1/2", "1ä", &"1".repeat(BUILD_BYTES_MAX + 1)] {
        assert!(BuildVersion::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_commit_is_hexadecimal() {
    assert!(is_commit_or_absent(None) && is_commit_or_absent(Some("1f2e3d4")));
    for bad in ["", "1f2e3d", "1f2e3d4-dirty", "1F2E3D4", &"1".repeat(41)] {
        assert!(!is_commit_or_absent(Some(bad)), "{bad}");
    }
}
