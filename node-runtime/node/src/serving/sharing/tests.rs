#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{IsolationMinimum, Sharing};
use crate::image::MachineCode;

#[test]
fn what_is_written_is_read_and_nothing_else_is() {
    for (text, sharing) in [
        ("never", Sharing::Never),
        ("with-protection-keys", Sharing::WithProtectionKeys),
        ("with-verified-code", Sharing::WithVerifiedCode),
        ("trusting-the-compiler", Sharing::WithVerifiedCode),
    ] {
        assert_eq!(text.parse::<Sharing>().unwrap(), sharing);
    }
    for text in ["", "Never", "never ", "always", "true", "with_verified_code"] {
        let error = text.parse::<Sharing>().unwrap_err().to_string();
        assert!(error.contains("never") && error.contains("with-verified-code"), "{text}: {error}");
    }
    for minimum in [IsolationMinimum::Verified, IsolationMinimum::Keys, IsolationMinimum::Process] {
        assert_eq!(minimum.to_string().parse::<IsolationMinimum>().unwrap(), minimum);
    }
    assert!("".parse::<IsolationMinimum>().unwrap_err().to_string().contains("process"));
}

#[test]
fn without_protection_keys_only_a_site_that_says_so_lets_tenants_share() {
    let allows = |sharing: Sharing| [sharing.allows(false), sharing.allows(true)];
    assert_eq!(allows(Sharing::Never), [false, false]);
    assert_eq!(allows(Sharing::WithProtectionKeys), [false, true]);
    assert_eq!(allows(Sharing::WithVerifiedCode), [true, true]);
    assert_eq!(Sharing::default(), Sharing::WithProtectionKeys);
}

#[test]
fn code_that_does_not_verify_runs_only_where_the_site_says_so() {
    let least = |minimum: IsolationMinimum| [minimum.code(false), minimum.code(true)];
    assert_eq!(least(IsolationMinimum::default()), [MachineCode::Verified, MachineCode::Verified]);
    assert_eq!(least(IsolationMinimum::Keys), [MachineCode::Verified, MachineCode::Unverified]);
    assert_eq!(least(IsolationMinimum::Process), [MachineCode::Unverified, MachineCode::Unverified]);
}
