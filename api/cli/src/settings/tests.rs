#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::TenantName;
use mfaas_supervisor::profile::Profile;

use super::{Context, Global};
use crate::failure::{Exit, Failure};
use crate::screen::Screen;

fn context(flag_server: Option<&str>, tenant: Option<&str>, profile: Profile) -> Context {
    let global = Global {
        server: flag_server.map(str::to_owned),
        token: None,
        tenant: tenant.map(|name| TenantName::parse(name).unwrap()),
        ca_file: None,
        profile_file: None,
        json: true,
        verbose: false,
        quiet: false,
    };
    Context { global, profile_path: None, profile, screen: Screen::new(true, false, false) }
}

#[test]
fn a_flag_beats_the_profile_and_the_profile_the_default() {
    let profile = || Profile { server: Some("http://127.0.0.1:2".to_owned()), ..Profile::default() };
    assert_eq!(context(Some("http://127.0.0.1:1"), None, profile()).server(), "http://127.0.0.1:1");
    assert_eq!(context(None, None, profile()).server(), "http://127.0.0.1:2");
    assert_eq!(context(None, None, Profile::default()).server(), "http://127.0.0.1:7700");
}

#[test]
fn without_a_token_one_has_to_sign_in() {
    let failure = context(None, None, Profile::default()).client().unwrap_err();
    assert_eq!(failure.exit(), Exit::SignIn);
}

#[test]
fn only_a_tenant_that_is_not_the_tokens_own_is_named() {
    let profile = || Profile { tenant: TenantName::parse("main").ok(), ..Profile::default() };
    assert_eq!(context(None, Some("main"), profile()).other_tenant(), None);
    assert_eq!(context(None, Some("acme"), profile()).other_tenant().as_deref(), Some("acme"));
    assert_eq!(context(None, None, profile()).other_tenant(), None);
}

#[test]
fn a_missing_or_damaged_root_key_verifies_nothing() {
    for key in [None, Some(""), Some("zz"), Some(&*"0".repeat(64))] {
        let profile = Profile { root_key: key.map(str::to_owned), ..Profile::default() };
        assert!(matches!(context(None, None, profile).pinned_root(), Err(Failure::Unverified(_))), "{key:?}");
    }
}
