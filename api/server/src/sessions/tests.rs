#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use http::HeaderMap;
use http::header::COOKIE;
use mfaas_ident::Digest;

use super::Sessions;

fn headers(cookie: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(COOKIE, cookie.parse().unwrap());
    headers
}

fn pair(set_cookie: &str) -> &str {
    set_cookie.split(';').next().unwrap()
}

#[test]
fn a_cookie_stands_for_its_token_until_it_is_closed() {
    let sessions = Sessions::new(10, Duration::from_secs(60));
    let set = sessions.open(Digest::of(b"a"), false).unwrap();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && !set.contains("Secure"), "{set}");
    let headers = headers(pair(&set));
    assert_eq!(sessions.of(&headers).unwrap().secret_sha256, Digest::of(b"a"));
    assert!(sessions.close(&headers, true).contains("Max-Age=0; Secure"));
    assert_eq!(sessions.of(&headers), None);
}

#[test]
fn strangers_doubles_and_late_cookies_open_nothing() {
    let sessions = Sessions::new(10, Duration::from_secs(60));
    let set = sessions.open(Digest::of(b"a"), false).unwrap();
    let good = pair(&set);
    assert_eq!(sessions.of(&headers("mfaas_session=")), None);
    assert_eq!(sessions.of(&headers(&format!("mfaas_session={}", "0".repeat(64)))), None);
    assert_eq!(sessions.of(&headers(&format!("{good}; {good}"))), None);
    assert!(sessions.of(&headers(&format!("other=1; {good}"))).is_some());
    let over = Sessions::new(10, Duration::ZERO);
    let set = over.open(Digest::of(b"a"), false).unwrap();
    assert_eq!(over.of(&headers(pair(&set))), None);
}

#[test]
fn the_oldest_session_makes_room() {
    let sessions = Sessions::new(2, Duration::from_secs(60));
    let cookies: Vec<_> = (0..3).map(|_| sessions.open(Digest::of(b"a"), false).unwrap()).collect();
    let open: Vec<_> = cookies.iter().map(|set| sessions.of(&headers(pair(set))).is_some()).collect();
    assert_eq!(open, [false, true, true]);
}
