#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_ident::{CallScope, Digest, PersonName, TenantName};

use super::{CALL_REVOCATIONS_MAX, RevokedCalls};
use crate::{AttestError, CALL_TOKEN_LIFE, CallClaims, SHARD_BYTES_MAX};

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn tenant(name: &str) -> TenantName {
    TenantName::parse(name).unwrap()
}

fn caller(name: &str) -> PersonName {
    PersonName::parse(name).unwrap()
}

fn claims(of: &str, by: &str, id: &str, issued_at: DateTime<Utc>) -> CallClaims {
    CallClaims {
        tenant: tenant(of),
        caller: caller(by),
        functions: CallScope::parse(&["pay"]).unwrap(),
        issued_at,
        expires_at: issued_at + CALL_TOKEN_LIFE,
        id: id.to_owned(),
        rate: None,
        concurrency: None,
    }
}

fn of(bytes: &str) -> Result<RevokedCalls, AttestError> {
    RevokedCalls::read(bytes.as_bytes(), &Digest::of(bytes.as_bytes()))
}

#[test]
fn a_token_is_revoked_by_its_id_and_its_tenant() {
    let mut revoked = RevokedCalls::default();
    assert!(revoked.is_empty() && !revoked.revokes(&claims("acme", "shop", "1", now())));
    revoked.revoke_token(tenant("acme"), "1".to_owned());
    assert!(!revoked.is_empty() && revoked.revokes(&claims("acme", "shop", "1", now())));
    assert!(!revoked.revokes(&claims("acme", "shop", "2", now())), "another token of the same caller");
    assert!(!revoked.revokes(&claims("umbrella", "shop", "1", now())), "a tenant revokes its own alone");
}

#[test]
fn the_tokens_of_a_caller_are_revoked_to_the_second_in_which_they_were_issued() {
    let mut revoked = RevokedCalls::default();
    revoked.revoke_caller(tenant("acme"), caller("shop"), now() + TimeDelta::milliseconds(900));
    let issued = |after_s: i64| claims("acme", "shop", "1", now() + TimeDelta::seconds(after_s));
    assert!(revoked.revokes(&issued(-86_400)) && revoked.revokes(&issued(0)));
    assert!(!revoked.revokes(&issued(1)), "what is issued afterwards counts");
    assert!(!revoked.revokes(&claims("acme", "till", "1", now())));
    assert!(!revoked.revokes(&claims("umbrella", "shop", "1", now())));
    // The later of two holds, whichever comes first.
    revoked.revoke_caller(tenant("acme"), caller("shop"), now() + TimeDelta::seconds(5));
    revoked.revoke_caller(tenant("acme"), caller("shop"), now());
    assert!(revoked.revokes(&issued(5)) && !revoked.revokes(&issued(6)));
}

#[test]
fn what_was_written_is_read_under_its_digest_alone() {
    let mut revoked = RevokedCalls::default();
    revoked.revoke_token(tenant("acme"), "1".to_owned());
    revoked.revoke_caller(tenant("umbrella"), caller("shop"), now());
    let (digest, bytes) = revoked.encode().unwrap();
    assert_eq!(bytes, r#"{"tenants":{"acme":{"tokens":["1"]},"umbrella":{"callers":{"shop":1800000000}}}}"#);
    assert_eq!(RevokedCalls::read(bytes.as_bytes(), &digest).unwrap(), revoked);
    let other = RevokedCalls::read(bytes.as_bytes(), &Digest::of(b"another"));
    assert!(matches!(other, Err(AttestError::Inconsistent { .. })), "{other:?}");
}

/// A kind of revocation that this build does not know is one that it cannot keep.
#[test]
fn what_is_not_known_is_refused() {
    for bytes in [
        "",
        "{}",
        r#"{"tenants":{"ACME":{}}}"#,
        r#"{"tenants":{"acme":{"everything":true}}}"#,
        r#"{"tenants":{"acme":{"callers":{"Shop":1}}}}"#,
        r#"{"tenants":{"acme":{"tokens":[""]}}}"#,
        r#"{"tenants":{},"version":2}"#,
    ] {
        assert!(of(bytes).is_err(), "{bytes}");
    }
    let long = format!(r#"{{"tenants":{{"acme":{{"tokens":["{}"]}}}}}}"#, "x".repeat(65));
    assert!(matches!(of(&long), Err(AttestError::Inconsistent { .. })));
    let large = " ".repeat(SHARD_BYTES_MAX + 1);
    assert!(matches!(of(&large), Err(AttestError::TooLarge { .. })));
}

/// The longest names of as many tenants fit, so the number alone is what counts.
#[test]
fn as_many_as_may_be_fit_into_one_document() {
    let mut revoked = RevokedCalls::default();
    for number in 0..CALL_REVOCATIONS_MAX {
        let (tenant_name, name) = (format!("t{number:039}"), format!("c{number:0199}"));
        revoked.revoke_caller(tenant(&tenant_name), caller(&name), now());
    }
    let (digest, bytes) = revoked.encode().unwrap();
    assert!(bytes.len() > 200 << 10 && bytes.len() <= SHARD_BYTES_MAX, "{} bytes", bytes.len());
    assert_eq!(RevokedCalls::read(bytes.as_bytes(), &digest).unwrap(), revoked);
    revoked.revoke_token(tenant("acme"), "1".to_owned());
    assert!(matches!(revoked.encode(), Err(AttestError::Inconsistent { .. })));
    let bytes = serde_json::to_string(&revoked).unwrap();
    assert!(matches!(of(&bytes), Err(AttestError::Inconsistent { .. })));
}

/// A set without revocations is what it was before there were any; one with them is refused by whoever does not know the field.
#[test]
fn a_set_without_the_field_revokes_nothing() {
    let set = crate::tests::serving_set();
    let written = serde_json::to_value(&set).unwrap();
    assert!(written.get("revoked_calls").is_none(), "{written}");
    let read: crate::ServingSet = serde_json::from_value(written).unwrap();
    assert_eq!(read.revoked_calls, None);
    let revoking = crate::ServingSet { revoked_calls: Some(Digest::of(b"document")), ..set };
    let written = serde_json::to_value(&revoking).unwrap();
    assert_eq!(written["revoked_calls"], Digest::of(b"document").to_string());
    assert_eq!(serde_json::from_value::<crate::ServingSet>(written).unwrap(), revoking);
}
