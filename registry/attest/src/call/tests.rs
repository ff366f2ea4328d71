#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use mfaas_ident::{CallScope, PersonName, TenantName};
use pasetors::keys::AsymmetricSecretKey;
use pasetors::version4::{PublicToken, V4};

use super::{
    AUDIENCE, CALL_CLOCK_SKEW, CALL_TOKEN_LIFE, CALL_TOKEN_LIFE_MAX, CallClaims, CallKey, CallTokenError,
    sign_call, verify_call,
};
use crate::{Payload as _, PrivateKey};

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn claims() -> CallClaims {
    CallClaims {
        tenant: TenantName::parse("acme").unwrap(),
        caller: PersonName::parse("shop").unwrap(),
        functions: CallScope::parse(&["pay"]).unwrap(),
        issued_at: now(),
        expires_at: now() + CALL_TOKEN_LIFE,
        id: "1".to_owned(),
        rate: None,
        concurrency: Some(3),
    }
}

fn listed(key: &PrivateKey) -> CallKey {
    let public = key.public();
    CallKey { keyid: public.id(), public, not_after: now() + TimeDelta::days(1) }
}

/// Signs any message with any footer for any audience, as somebody with the key could.
fn signed(key: &PrivateKey, message: &str, footer: &str, audience: &str) -> String {
    let secret = AsymmetricSecretKey::<V4>::from(key.to_pair().as_ref()).unwrap();
    let (footer, audience) = (Some(footer.as_bytes()), Some(audience.as_bytes()));
    PublicToken::sign(&secret, message.as_bytes(), footer, audience).unwrap()
}

fn footer(key: &PrivateKey) -> String {
    format!("{{\"kid\":\"{}\"}}", key.public().id())
}

#[test]
fn what_was_issued_comes_back_until_its_end_and_not_a_second_longer() {
    let key = PrivateKey::generate().unwrap();
    let (keys, token) = ([listed(&key)], sign_call(&claims(), &key).unwrap());
    let end = now() + CALL_TOKEN_LIFE;
    assert_eq!(verify_call(&token, &keys, now()), Ok((claims(), end)));
    assert_eq!(verify_call(&token, &keys, now() - CALL_CLOCK_SKEW), Ok((claims(), end)));
    let early = now() - CALL_CLOCK_SKEW - TimeDelta::milliseconds(1);
    assert_eq!(verify_call(&token, &keys, early), Err(CallTokenError::NotYet));
    assert!(verify_call(&token, &keys, end - TimeDelta::milliseconds(1)).is_ok());
    assert_eq!(verify_call(&token, &keys, end), Err(CallTokenError::Expired));
}

#[test]
fn a_key_that_is_not_listed_or_has_ended_opens_nothing() {
    let (key, other) = (PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap());
    let token = sign_call(&claims(), &key).unwrap();
    assert_eq!(verify_call(&token, &[], now()), Err(CallTokenError::UnknownKey));
    assert_eq!(verify_call(&token, &[listed(&other)], now()), Err(CallTokenError::UnknownKey));
    let ended = CallKey { not_after: now(), ..listed(&key) };
    assert_eq!(verify_call(&token, &[ended], now()), Err(CallTokenError::UnknownKey));
    let soon = CallKey { not_after: now() + TimeDelta::minutes(1), ..listed(&key) };
    let (_, end) = verify_call(&token, &[soon.clone(), listed(&other)], now()).unwrap();
    assert_eq!(end, soon.not_after, "a token does not outlive its key");
    // Signed by one key in the name of another.
    let message = serde_json::to_string(&claims()).unwrap();
    let forged = signed(&other, &message, &footer(&key), AUDIENCE);
    assert_eq!(verify_call(&forged, &[listed(&key)], now()), Err(CallTokenError::BadSignature));
}

#[test]
fn nothing_of_a_token_can_be_changed() {
    let key = PrivateKey::generate().unwrap();
    let (keys, token) = ([listed(&key)], sign_call(&claims(), &key).unwrap());
    for place in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        let text = String::from_utf8(bytes).unwrap();
        assert!(verify_call(&text, &keys, now()).is_err(), "byte {place}");
    }
    let message = serde_json::to_string(&claims()).unwrap();
    let elsewhere = signed(&key, &message, &footer(&key), "another-reader");
    assert_eq!(verify_call(&elsewhere, &keys, now()), Err(CallTokenError::BadSignature));
}

/// There is no field that chooses an algorithm; other forms of tokens are no tokens here.
#[test]
fn other_forms_are_no_tokens() {
    let key = PrivateKey::generate().unwrap();
    let keys = [listed(&key)];
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message = serde_json::to_string(&claims()).unwrap();
    let none = format!("{}.{}.", encode("{\"alg\":\"none\",\"typ\":\"JWT\"}"), encode(&message));
    let hmac = format!("{}.{}.{}", encode("{\"alg\":\"HS256\"}"), encode(&message), encode(&"x".repeat(32)));
    let token = sign_call(&claims(), &key).unwrap();
    let others = [
        none,
        hmac,
        String::new(),
        token.replace("v4.public", "v4.local"),
        token.replace("v4.public", "v2.public"),
        token.rsplit_once('.').unwrap().0.to_owned(),
        format!("{token}.x"),
        signed(&key, &message, "not json", AUDIENCE),
        signed(&key, &message, "{}", AUDIENCE),
        signed(&key, &message, &footer(&key).replace('}', ",\"wpk\":\"x\"}"), AUDIENCE),
        format!("{token}{}", "A".repeat(super::CALL_TOKEN_BYTES_MAX)),
    ];
    for text in others {
        assert_eq!(verify_call(&text, &keys, now()), Err(CallTokenError::Malformed), "{text}");
    }
}

/// A signature does not make up for claims that this release would not have written.
#[test]
fn claims_that_are_not_understood_open_nothing() {
    let key = PrivateKey::generate().unwrap();
    let keys = [listed(&key)];
    let good = serde_json::to_value(claims()).unwrap();
    let with = |field: &str, value: serde_json::Value| {
        let mut document = good.clone();
        document[field] = value;
        let token = signed(&key, &document.to_string(), &footer(&key), AUDIENCE);
        verify_call(&token, &keys, now()).map(drop)
    };
    assert_eq!(with("jti", "2".into()), Ok(()));
    let end = (now() + CALL_TOKEN_LIFE_MAX).timestamp();
    assert_eq!(with("exp", end.into()), Ok(()));
    for (field, value) in [
        ("exp", (end + 1).into()),
        ("exp", now().timestamp().into()),
        ("exp", end.to_string().into()),
        ("exp", serde_json::Value::Null),
        ("rate", 0.into()),
        ("concurrency", 0.into()),
        ("functions", serde_json::json!([])),
        ("functions", "pay".into()),
        ("sub", "Alice\r\nx: y".into()),
        ("tenant", "ACME".into()),
        ("only_from", "10.0.0.0/8".into()),
    ] {
        assert_eq!(with(field, value.clone()), Err(CallTokenError::BadClaims), "{field}: {value}");
    }
    let bad = CallClaims { expires_at: now() + CALL_TOKEN_LIFE_MAX + TimeDelta::seconds(1), ..claims() };
    assert!(sign_call(&bad, &key).is_err(), "nobody issues what nobody takes");
}

#[test]
fn a_set_with_a_key_that_is_not_what_it_is_called_is_not_believed() {
    let (key, other) = (PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap());
    let mut set = crate::tests::serving_set();
    set.call_keys = vec![listed(&key)];
    assert_eq!(set.check(), Ok(()));
    set.call_keys = vec![CallKey { keyid: other.public().id(), ..listed(&key) }];
    assert!(set.check().is_err());
    set.call_keys = vec![listed(&key); 17];
    assert!(set.check().is_err());
}

#[test]
fn any_clock_has_an_answer() {
    let key = PrivateKey::generate().unwrap();
    let token = sign_call(&claims(), &key).unwrap();
    let keys = [CallKey { not_after: DateTime::<Utc>::MAX_UTC, ..listed(&key) }];
    let soon = DateTime::<Utc>::MAX_UTC - TimeDelta::seconds(1);
    assert_eq!(verify_call(&token, &keys, soon), Err(CallTokenError::Expired));
    assert_eq!(verify_call(&token, &keys, DateTime::<Utc>::MIN_UTC), Err(CallTokenError::NotYet));
}
