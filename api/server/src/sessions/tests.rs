#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use http::HeaderMap;
use http::header::COOKIE;

use super::{Session, forget};

fn headers(cookie: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(COOKIE, cookie.parse().unwrap());
    headers
}

fn pair(set_cookie: &str) -> &str {
    set_cookie.split(';').next().unwrap()
}

#[test]
fn a_cookie_is_the_same_session_at_every_server() {
    let (session, set) = Session::generate(Duration::from_secs(60), false).unwrap();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && !set.contains("Secure"), "{set}");
    assert!(set.ends_with("Max-Age=60"), "{set}");
    assert_eq!(Session::shown(&headers(pair(&set))), Some(session.clone()));
    let (other, _) = Session::generate(Duration::from_secs(60), false).unwrap();
    assert_ne!((&other.cookie_sha256, &other.csrf), (&session.cookie_sha256, &session.csrf));
    // Neither the page nor the table tells the cookie, or each other's.
    let value = pair(&set).split_once('=').unwrap().1;
    assert!(session.csrf != value && session.csrf != session.cookie_sha256.to_string());
    assert!(forget(true).contains("Max-Age=0; Secure"));
}

#[test]
fn strangers_and_doubles_show_nothing() {
    let (session, set) = Session::generate(Duration::from_secs(60), false).unwrap();
    let good = pair(&set);
    for bad in ["mfaas_session=", "mfaas_session=0", "other=1", &format!("{good}; {good}")] {
        assert_eq!(Session::shown(&headers(bad)), None, "{bad}");
    }
    assert_eq!(Session::shown(&headers(&format!("other=1; {good}"))), Some(session));
}
