//! Call tokens: texts that anybody may send to a node.

use std::sync::OnceLock;

use chrono::{DateTime, TimeDelta, Utc};
use mfaas_attest::{
    CALL_CLOCK_SKEW, CALL_TOKEN_LIFE_MAX, CallClaims, CallKey, PrivateKey, sign_call, verify_call,
};

use crate::statement::document;

/// Keys that everybody knows (RFC 8032, section 7.1, tests 1 and 2).
const PRIVATE: [&str; 2] = [
    "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g",
    "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7",
];
/// What the tokens say that were issued: they differ, so that a part of one fits no other.
const ISSUED: [&str; 2] = [
    r#"{"tenant":"acme","sub":"shop","functions":["pay"],"iat":1800000000,"exp":1800000900,"jti":"1"}"#,
    r#"{"tenant":"evil","sub":"thief","functions":["*"],"iat":1800000000,"exp":1800086400,"jti":"2","rate":9}"#,
];
/// When both of them are good.
const NOW_S: i64 = 1_800_000_001;
/// Bytes of one change: what is done, where (two bytes), with what.
const CHANGE_BYTES: usize = 4;

/// The first byte says whether the rest is a text, changes of a token that was issued, or claims to be signed.
///
/// # Panics
/// When a text opens something that was not issued, a token counts outside of its times or without its key, or claims
/// come back changed.
pub fn call_token(input: &[u8]) {
    let Some((kind, body)) = input.split_first() else { return };
    match kind % 3 {
        0 => text(&String::from_utf8_lossy(body)),
        1 => text(&changed(usize::from(*kind / 3), body)),
        _ => claims(*kind / 3 % 2 == 1, body),
    }
}

/// Who issues, and what was issued.
struct Site {
    keys: [PrivateKey; 2],
    listed: [CallKey; 2],
    /// One token of each key.
    issued: [String; 2],
}

fn site() -> &'static Site {
    static SITE: OnceLock<Site> = OnceLock::new();
    SITE.get_or_init(|| {
        let keys = PRIVATE.map(|base64| {
            let pem = format!("-----BEGIN PRIVATE KEY-----\n{base64}\n-----END PRIVATE KEY-----\n");
            PrivateKey::from_pem(&pem).unwrap_or_else(|error| panic!("a key of RFC 8032: {error}"))
        });
        let issued = [0, 1].map(|which| {
            let claims = serde_json::from_str(ISSUED[which]).unwrap_or_else(|error| panic!("{error}"));
            sign_call(&claims, &keys[which]).unwrap_or_else(|error| panic!("{error}"))
        });
        let listed = [0, 1].map(|which| listed(&keys[which], moment(NOW_S) + TimeDelta::days(1)));
        Site { keys, listed, issued }
    })
}

fn listed(key: &PrivateKey, not_after: DateTime<Utc>) -> CallKey {
    let public = key.public();
    CallKey { keyid: public.id(), public, not_after }
}

fn moment(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap_or_else(|| panic!("{seconds} is no moment"))
}

/// Only what was issued opens anything, to the letter: two texts of one token would be two tokens to who remembers texts.
fn text(text: &str) {
    let site = site();
    let opens = verify_call(text, &site.listed, moment(NOW_S)).is_ok();
    assert_eq!(opens, site.issued.iter().any(|issued| issued == text), "{text}");
}

/// A token that was issued, changed as `changes` say.
fn changed(which: usize, changes: &[u8]) -> String {
    let [one, other] = [which % 2, (which + 1) % 2].map(|which| site().issued[which].as_bytes());
    let mut token = one.to_vec();
    for change in changes.chunks_exact(CHANGE_BYTES) {
        let place = usize::from(u16::from_le_bytes([change[1], change[2]])) % (token.len() + 1);
        match change[0] % 5 {
            0 => token[place..].iter_mut().take(1).for_each(|byte| *byte = change[3]),
            1 => token.insert(place, change[3]),
            2 => drop(token.drain(place..(place + usize::from(change[3])).min(token.len()))),
            // One bit, which may be one that the encoding does not need.
            3 => token[place..].iter_mut().take(1).for_each(|byte| *byte ^= 1 << (change[3] % 8)),
            // From here on it is the other token.
            _ => {
                token.truncate(place);
                token.extend_from_slice(other.get(place..).unwrap_or_default());
            }
        }
    }
    String::from_utf8_lossy(&token).into_owned()
}

/// What somebody may sign counts from its beginning to its end, or to its key's.
fn claims(key_ends_first: bool, body: &[u8]) {
    let Some(claims) = document::<CallClaims>(body) else { return };
    let site = site();
    let Ok(token) = sign_call(&claims, &site.keys[0]) else { return };
    let life = claims.expires_at - claims.issued_at;
    assert!(life > TimeDelta::zero() && life <= CALL_TOKEN_LIFE_MAX, "{claims:?}");
    let (second, tick) = (TimeDelta::seconds(1), TimeDelta::milliseconds(1));
    let not_after = claims.expires_at.checked_add_signed(if key_ends_first { -second } else { second });
    let not_after = not_after.unwrap_or(claims.expires_at);
    let (key, ends_at) = (listed(&site.keys[0], not_after), not_after.min(claims.expires_at));
    let begins_at = claims.issued_at.checked_sub_signed(CALL_CLOCK_SKEW).unwrap_or(DateTime::<Utc>::MIN_UTC);
    let earlier = |moment: DateTime<Utc>| moment.checked_sub_signed(tick).unwrap_or(moment);
    for now in [earlier(begins_at), begins_at, claims.issued_at, earlier(ends_at), ends_at, not_after] {
        let counts = begins_at <= now && now < ends_at;
        let found = verify_call(&token, std::slice::from_ref(&key), now);
        let expected = counts.then(|| (claims.clone(), ends_at));
        assert_eq!(found.ok(), expected, "at {now}");
        assert!(verify_call(&token, &site.listed[1..], now).is_err(), "nobody trusts its key");
    }
}
