#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::Sharing;

#[test]
fn what_is_written_is_read_and_nothing_else_is() {
    for (text, sharing) in [
        ("never", Sharing::Never),
        ("with-protection-keys", Sharing::WithProtectionKeys),
        ("trusting-the-compiler", Sharing::TrustingTheCompiler),
    ] {
        assert_eq!(text.parse::<Sharing>().unwrap(), sharing);
        assert_eq!(sharing.to_string(), text);
    }
    for text in ["", "Never", "never ", "always", "true", "trusting_the_compiler"] {
        let error = text.parse::<Sharing>().unwrap_err().to_string();
        assert!(error.contains("never") && error.contains("trusting-the-compiler"), "{text}: {error}");
    }
}

#[test]
fn without_protection_keys_only_trust_in_the_compiler_lets_tenants_share() {
    let allows = |sharing: Sharing| [sharing.allows(false), sharing.allows(true)];
    assert_eq!(allows(Sharing::Never), [false, false]);
    assert_eq!(allows(Sharing::WithProtectionKeys), [false, true]);
    assert_eq!(allows(Sharing::TrustingTheCompiler), [true, true]);
    assert_eq!(Sharing::default(), Sharing::WithProtectionKeys);
}
